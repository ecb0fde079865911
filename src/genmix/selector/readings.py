"""The read-only properties of a selector. Reading them never solves and never changes a run."""

from __future__ import annotations

import numpy as np

from genmix.objectives import Objective, Scores, score_context
from genmix.objectives.pool import Pool
from genmix.selector.arms import ArmRecord
from genmix.selector.learner import Learner
from genmix.selector.tickets import Ticket


class Readings:
    """The read-only properties of :class:`Selector`."""

    _learner: Learner
    _in_flight: dict[int, Ticket]
    _encoder: str | None
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
        return self._learner.active_labels

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
        return learner.by_label(learner.weights)

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
        return self._learner.by_label(self._learner.targets)

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
        return learner.by_label(learner.mixture)

    @property
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
        return {label: arm.told for label, arm in self._learner.arms.items()}

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
        return {label: arm.failed for label, arm in self._learner.arms.items()}

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
        weights, indices = self.mixture, [arm.index for arm in arms]
        mixture = np.array([weights[arm.label] for arm in arms])
        counts = [learner.statistics.counts[i] for i in indices]
        loss = learner.loss if learner.previous is None else learner.statistics.loss(indices)
        context = score_context(mixture, counts, self._encoder)
        return learner.objective.scores(loss, mixture, context)

    @property
    def _solved_arms(self) -> list[ArmRecord]:
        """The active arms of the last solution; empty before the first solve."""
        learner = self._learner
        if learner.previous is not None:
            return [arm for arm in learner.active if arm.label in learner.previous.mixture]
        return [] if learner.alpha is None else learner.active

    @property
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
        return {arm.label: self._single_score(arm.index) for arm in self._solved_arms}

    def _single_score(self, arm: int) -> Scores:
        statistics = self._learner.statistics
        context = score_context(np.ones(1), [statistics.counts[arm]], self._encoder)
        return self._learner.objective.scores(statistics.loss([arm]), np.ones(1), context)

    @property
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
