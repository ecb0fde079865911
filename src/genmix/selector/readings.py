"""The read-only properties of a selector. Reading them never solves and never changes a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from genmix.core.arrays import Vector
from genmix.objectives import Objective, Scores, score_context
from genmix.objectives.pool import Pool
from genmix.policies import Prompt
from genmix.selector.arms import ArmRecord
from genmix.selector.cells import CellLearner
from genmix.selector.groups import Groups
from genmix.selector.learner import Learner
from genmix.selector.locking import Lock, locked
from genmix.selector.tickets import Ticket
from genmix.solvers.loss import Loss


class Readings:
    """The read-only properties of :class:`Selector`."""

    _lock: Lock
    _learner: Learner
    _in_flight: dict[int, Ticket]
    _prompts: dict[int, Prompt]
    """The prompts of the tickets in flight, for policies that choose by the prompt."""
    _encoder: str | None
    _groups: Groups | None
    _pooled: tuple[int, Scores] | None
    """The number of samples when the pooled score was last computed, and that score."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Labels of the active arms.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b", "c"], gx.Vendi())
        >>> sel.retire_arm("b")
        >>> sel.arms
        ('a', 'c')
        """
        return tuple(arm for arm, active in self._learner.known_arms.items() if active)

    @property
    def warm_start(self) -> int:
        """Number of samples per arm before the first solve.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi()).warm_start
        10
        """
        return self._learner.warm_start

    def will_solve(self, samples: int = 1) -> bool:
        """Return whether telling this many samples can trigger a re-solve.

        Parameters
        ----------
        samples : int, default 1
            Number of samples that are told together.

        Returns
        -------
        bool

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), warm_start=3)
        >>> sel.will_solve(5), sel.will_solve(6)
        (False, True)
        """
        return self._learner.will_solve(samples)

    @property
    def is_warm(self) -> bool:
        """Whether every active arm has completed its warm start, so that there is a mixture.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi()).is_warm
        False
        """
        return self._learner.alpha is not None

    @property
    def weights(self) -> dict[str, float]:
        """The policy's weights; uniform until the warm start is complete.

        During the warm start of an arm that was added later, these are the previous weights, and the weight
        of that arm is 0.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi()).weights
        {'a': 0.5, 'b': 0.5}
        """
        learner = self._learner
        if learner.previous is not None:
            return {label: learner.previous_weights.get(label, 0.0) for label in self.arms}
        return learner.by_arm(learner.weights)

    @property
    def targets(self) -> dict[str, float]:
        """Weights currently used to draw arms: :attr:`weights`, plus exploration with ``MixtureUCBV``.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi()).targets
        {'a': 0.5, 'b': 0.5}
        """
        if self._learner.previous is not None:
            return self.weights
        return self._learner.by_arm(self._learner.targets)

    @property
    def mixture(self) -> dict[str, float]:
        """The policy's estimate of the best mixture.

        For most policies this equals :attr:`weights`. ``MixtureOGD`` puts all its weight on
        the next arm to draw; its mixture consists of the running shares of the arms. During the warm
        start of an arm that was added later, this is the previous mixture, and the weight of that arm is 0.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi()).mixture
        {'a': 0.5, 'b': 0.5}
        """
        learner = self._learner
        if learner.previous is not None:
            return {label: learner.previous.mixture.get(label, 0.0) for label in self.arms}
        return learner.by_arm(learner.mixture)

    @property
    @locked
    def gap(self) -> float:
        """Upper bound on ``L(mixture) − min L`` for the empirical loss at the last solve; ∞ before the first.

        An arm that was added later enters ``L`` with the first solve after its warm start.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi()).gap
        inf
        """
        previous = self._learner.previous
        return self._learner.gap if previous is None else previous.gap

    @property
    def counts(self) -> dict[str, int]:
        """Number of samples reported per arm, including retired arms.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> [ticket] = sel.ask()
        >>> sel.tell(ticket, [1.0, 0.0])
        >>> sel.counts
        {'a': 1, 'b': 0}
        """
        return self._by_arm(lambda record: record.told)

    @property
    def total(self) -> int:
        """Number of samples reported, over all arms.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> [ticket] = sel.ask()
        >>> sel.tell(ticket, [1.0, 0.0])
        >>> sel.total
        1
        """
        return self._learner.total

    @property
    def failures(self) -> dict[str, int]:
        """Number of failed tickets per arm. Failures do not change the weights.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> [ticket] = sel.ask()
        >>> sel.fail(ticket)
        >>> sel.failures
        {'a': 1, 'b': 0}
        """
        return self._by_arm(lambda record: record.failed)

    def _by_arm(self, count: Callable[[ArmRecord], int]) -> dict[str, int]:
        learner = self._learner
        found = dict.fromkeys(learner.known_arms, 0)
        for label, record in learner.arms.items():
            found[learner.arm_of(label)] += count(record)
        return found

    @property
    def in_flight(self) -> tuple[Ticket, ...]:
        """Tickets that have been issued but neither told nor failed.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> [ticket] = sel.ask()
        >>> sel.in_flight == (ticket,)
        True
        """
        return tuple(self._in_flight.values())

    @property
    def objective(self) -> Objective:
        """The objective; its bandwidths are fixed once the warm start is complete.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.RKE()).objective.kernel.bandwidth
        'median'
        """
        return self._learner.objective

    @property
    @locked
    def score(self) -> Scores | None:
        """Score of :attr:`mixture` on the samples in the statistics; None before the first solve.

        The statistics contain the samples up to the last solve and any full blocks added since. The score of
        a sum of objectives is a dict with one score per term.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), warm_start=1)
        >>> first, second = sel.ask(2)
        >>> sel.tell(first, [1.0, 0.0])
        >>> sel.tell(second, [0.0, 1.0])
        >>> print(f"{sel.score:.3f}")
        2.000
        """
        learner = self._learner
        arms = self._solved_arms
        if not arms:
            return None
        if learner.previous is None:
            return self._score_of(arms, learner.mixture, learner.loss)
        weights = self.mixture
        mixture = np.array([weights[arm.label] for arm in arms])
        return self._score_of(arms, mixture)

    def _score_of(
        self, records: Sequence[ArmRecord], weights: Vector, loss: Loss | None = None
    ) -> Scores:
        """Return the score of a mixture of these records."""
        learner = self._learner
        indices = [record.index for record in records]
        counts = [learner.statistics.counts[i] for i in indices]
        is_pooled = isinstance(learner, CellLearner) and learner.pooling > 0
        known = np.array(counts) / sum(counts) if is_pooled else weights
        context = score_context(known, counts, self._encoder)
        function = learner.view().loss(indices) if loss is None else loss
        return learner.objective.scores(function, weights, context)

    @property
    def _solved_arms(self) -> list[ArmRecord]:
        """The active arms of the last solution; empty before the first solve."""
        learner = self._learner
        if learner.previous is not None:
            return [arm for arm in learner.active if arm.label in learner.previous.mixture]
        return [] if learner.alpha is None else learner.active

    @property
    @locked
    def single_scores(self) -> dict[str, Scores]:
        """Score of each active arm alone, on the samples in the statistics; empty before the first solve.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), warm_start=1)
        >>> first, second = sel.ask(2)
        >>> sel.tell(first, [1.0, 0.0])
        >>> sel.tell(second, [0.0, 1.0])
        >>> {arm: round(score, 3) for arm, score in sel.single_scores.items()}
        {'a': 1.0, 'b': 1.0}
        """
        by_arm: dict[str, list[ArmRecord]] = {}
        for record in self._solved_arms:
            by_arm.setdefault(self._learner.arm_of(record.label), []).append(record)
        return {arm: self._single_score(records) for arm, records in by_arm.items()}

    def _single_score(self, records: Sequence[ArmRecord]) -> Scores:
        """Return the score of one arm alone, with the groups in their shares."""
        shares = np.array([self._learner.share_of(record.label) for record in records])
        return self._score_of(records, shares / shares.sum())

    @property
    @locked
    def pooled_score(self) -> Scores | None:
        """Score of all reported samples as one set; None until the warm start is complete.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), warm_start=1)
        >>> first, second = sel.ask(2)
        >>> sel.tell(first, [1.0, 0.0])
        >>> sel.tell(second, [0.0, 1.0])
        >>> sel.pooled_score
        vendi 2 ↑ (order 1.0, kernel Cosine(), n 2, encoder unstated)
        """
        if self._learner.tally is None:
            return None
        total = self._learner.total
        if self._pooled is None or self._pooled[0] != total:
            self._pooled = (total, self._score_pool())
        return self._pooled[1]

    def _score_pool(self) -> Scores:
        tally = self._learner.statistics_with_pending()
        context = score_context(np.ones(1), [sum(tally.counts)], self._encoder)
        return self._learner.objective.scores(tally.pooled(), np.ones(1), context)

    @locked
    def pool(self) -> Pool | None:
        """Return the objective's statistics of all reported samples; None until the warm start is complete.

        The pool is a copy: using it does not affect the selector.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi()).pool() is None
        True
        """
        if self._learner.tally is None:
            return None
        tally = self._learner.statistics_with_pending().fork()
        return Pool(tuple(self._learner.arms), self._learner.objective, tally, self._encoder)

    # -- groups ----------------------------------------------------------------------------------

    @property
    def groups(self) -> dict[str, float] | None:
        """The shares of the groups, given or learned so far; None without groups.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), groups="learned")
        >>> tickets = sel.ask(2, group="travel") + sel.ask(1, group="food")
        >>> sel.groups
        {'travel': 0.6, 'food': 0.4}
        """
        return None if self._groups is None else self._groups.shares

    @property
    def weights_by_group(self) -> dict[str, dict[str, float]]:
        """The policy's weights of the arms within each group; empty without groups.

        The weights of each group sum to 1. :attr:`weights` is their mean over the groups by their shares.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi(), groups=["travel", "food"]).weights_by_group
        {'travel': {'a': 0.5, 'b': 0.5}, 'food': {'a': 0.5, 'b': 0.5}}
        """
        learner = self._learner
        if isinstance(learner, CellLearner):
            return learner.by_group(learner.weights)
        return dict.fromkeys(self.groups or (), self.weights)

    @property
    @locked
    def score_by_group(self) -> dict[str, Scores]:
        """Score of each group's mixture on the group's own samples; empty before the first solve.

        A group whose warm start is not complete, or without samples, is missing. An arm without samples in
        the group is left out of its score.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi(), groups=["travel", "food"]).score_by_group
        {}
        """
        learner, score = self._learner, self.score
        if score is None:
            return {}
        if not isinstance(learner, CellLearner):
            return dict.fromkeys(self.groups or (), score)
        found: dict[str, Scores] = {}
        weights = learner.by_label(learner.mixture)
        for group in learner.shares:
            cells = [
                cell
                for cell in learner.active
                if learner.places[cell.label][0] == group and learner.statistics.counts[cell.index]
            ]
            own = np.array([weights[cell.label] for cell in cells])
            if own.any():
                loss = learner.statistics.loss([cell.index for cell in cells])
                found[group] = self._score_of(cells, own / own.sum(), loss)
        return found

    def _shares_of_arms(self, group: str) -> dict[str, float]:
        """The weights from which the arms of a group are drawn."""
        learner = self._learner
        if not isinstance(learner, CellLearner):
            return self.targets
        return learner.within(group, learner.targets)
