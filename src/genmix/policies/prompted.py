"""Policies that choose an arm for every prompt by kernel regression: PAK-UCB, DAK-UCB, Mixture-DAK-UCB.

Each arm has its own regression on the prompts that it answered. Its bonus is large where the arm has seen no
similar prompt.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Vector
from genmix.core.optional import require
from genmix.errors import InputError, number, positive, whole
from genmix.kernels.kept_rows import KeptRows
from genmix.kernels.kernels import Gaussian, Kernel, Polynomial
from genmix.kernels.ridge import Prediction
from genmix.objectives.objective import Objective
from genmix.policies.policy import Decision, Policy, Situation, nonnegative
from genmix.policies.prompt_memory import ArmMemory, Pair, Prompt, PromptMemory
from genmix.solvers.simplex import feasible, uniform, vertex

Matrix = NDArray[np.float64]


class PromptPolicy(Policy):
    """Base class for policies that choose an arm for every prompt.

    Without a prompt, :meth:`decide` reports the running shares of the arms as the mixture. With one,
    :meth:`choose` returns the weights from which the arm is drawn.
    """

    needs_prompts = True
    needs_quality: ClassVar[bool] = False
    """Whether every sample must have a quality. If not, a missing quality counts as 0."""
    needs_references: ClassVar[bool] = False
    """Whether every prompt must come with a reference answer."""
    regularization: float
    target_without_pairs: float = 0.0
    """The diversity target of a pair that is compared with an arm without pairs."""

    def decide(self, situation: Situation) -> Decision:
        return Decision(situation.shares)

    def memory(self, arms: int) -> PromptMemory:
        """Return an empty memory for this many arms."""
        return PromptMemory(self, arms)

    @property
    @abstractmethod
    def kernel(self) -> Kernel:
        """The kernel on prompts, for the regression."""

    @abstractmethod
    def choose(self, memory: PromptMemory, arms: Sequence[int], prompt: Prompt) -> Vector:
        """Return the weights of the arms at these positions, for one prompt."""

    def columns(self, arms: int) -> int:
        """Return the number of targets that are regressed for each arm."""
        return 1

    def targets(self, memory: PromptMemory, arm: int, pair: Pair) -> Vector:
        """Return the targets of a new pair of an arm: the quality first."""
        return np.array([pair.quality])

    def empty_lists(self, prompts: int, outputs: int) -> tuple[KeptRows, ...]:
        """Return the lists in which the pairs of an arm are kept, given the dimensions."""
        return ()

    def kept(self, pair: Pair) -> tuple[Matrix, ...]:
        """Return the entries of a pair in these lists."""
        return ()


@dataclass(frozen=True, eq=False)
class PAKUCB(PromptPolicy):
    """PAK-UCB: draw the arm with the largest optimistic quality for the prompt.

    For every arm, kernel ridge regression predicts the quality of its answer to the prompt t from the answers
    so far, with the kernel ``(γ t·s + c)^degree``. The policy draws
    ``argmax_i q̂_i(t) + η λ^{-1/2} sqrt(k(t,t) − k_tᵀ(K_i + λI)⁻¹k_t)``, with ``η = sqrt(2 log(2Tm/δ))`` for m
    arms. It uses only the quality, not the objective, and is labeled "quality only". Pass
    ``prompt=`` to :meth:`Selector.ask` and ``quality=`` to :meth:`Selector.tell`.

    Parameters
    ----------
    rounds : int, default 1000
        T, the number of samples that you plan to draw.
    regularization : float, default 1.0
        λ, the ridge penalty.
    delta : float, default 0.05
        δ; smaller values explore more.
    degree : int, default 3
        Degree of the kernel.
    gamma, coef0 : float, default 1.0
        γ and c of the kernel. The published settings are for embeddings of length 1.

    Raises
    ------
    InputError
        If a parameter is out of range.

    References
    ----------
    Hu, X., Leung, H., & Farnia, F. (2025). An online learning approach to prompt-based selection of
    generative models and LLMs. ICML.

    Examples
    --------
    >>> import genmix as gx
    >>> sel = gx.Selector(["a", "b"], gx.Vendi(), gx.PAKUCB(), warm_start=1)
    >>> for ticket in sel.ask(2, prompt=[1.0, 0.0]):
    ...     sel.tell(ticket, [0.6, 0.8], quality=1.0 if ticket.arm == "b" else 0.0)
    >>> sel.ask(prompt=[1.0, 0.0])
    [Ticket(id=2, arm='b', weight=1.0, propensity=1.0)]
    """

    rounds: int = 1000
    regularization: float = 1.0
    delta: float = 0.05
    degree: int = 3
    gamma: float = 1.0
    coef0: float = 1.0
    needs_quality = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", whole(self.rounds, "rounds", 1))
        object.__setattr__(self, "delta", number(self.delta, "delta", 1e-300, 1.0))
        _positive(self, "regularization", "gamma")
        _ = self.kernel  # checks the other parameters

    @property
    def kernel(self) -> Kernel:
        return Polynomial(self.degree, self.gamma, self.coef0)

    def remark(self, objective: Objective) -> str:
        return "quality only"

    def scores(self, memory: PromptMemory, arms: Sequence[int], prompt: Prompt) -> Vector:
        """Return the optimistic quality of the arms at these positions."""
        found = [memory.predict(arm, prompt) for arm in arms]
        eta = math.sqrt(2 * math.log(2 * self.rounds * memory.size / self.delta))
        scale = eta / math.sqrt(self.regularization)
        return np.array([each.means[0] + scale * math.sqrt(each.variance) for each in found])

    def choose(self, memory: PromptMemory, arms: Sequence[int], prompt: Prompt) -> Vector:
        return vertex(len(arms), int(np.argmax(self.scores(memory, arms, prompt))))


@dataclass(frozen=True, eq=False)
class DiversityPolicy(PromptPolicy):
    """What DAK-UCB and Mixture-DAK-UCB have in common; see :class:`DAKUCB`."""

    diversity: Literal["rke", "kd"] = "rke"
    weight: float = 1.0
    regularization: float = 1.0
    gamma: float = 1.0
    correction: float = 1e-4
    delta: float = 3.8

    def __post_init__(self) -> None:
        if self.diversity not in ("rke", "kd"):
            raise InputError(f'diversity is {self.diversity!r}; pass "rke" or "kd".')
        nonnegative(self, "weight", "correction")
        _positive(self, "regularization", "gamma", "delta")

    @property
    def needs_references(self) -> bool:  # type: ignore[override]
        return self.diversity == "kd"

    @property
    def kernel(self) -> Kernel:
        return Gaussian(1 / math.sqrt(2 * self.gamma))

    def check(self, known: Sequence[str], active: Sequence[str], objective: Objective) -> None:
        if 1 < len(known) <= self.delta / 2:
            raise InputError(
                f"delta is {self.delta:g}, but it must be less than {2 * len(known)} for {len(known)} arms; "
                "pass a smaller number."
            )

    # -- what is regressed -----------------------------------------------------------------------

    @property
    def target_without_pairs(self) -> float:  # type: ignore[override]
        return -math.sqrt(self.correction)

    def empty_lists(self, prompts: int, outputs: int) -> tuple[KeptRows, ...]:
        if self.diversity == "rke":
            return (KeptRows(self.kernel, prompts + outputs, power=2),)
        return (
            KeptRows(self.kernel, prompts),
            KeptRows(self.kernel, outputs),
            KeptRows(self.kernel, outputs),
        )

    def kept(self, pair: Pair) -> tuple[Matrix, ...]:
        prompt, reference = pair.prompt
        if self.diversity == "rke":  # a product of Gaussians is a Gaussian of the concatenation
            return (np.hstack([prompt, pair.output]),)
        assert reference is not None  # because of needs_references
        return (prompt, pair.output, reference)

    def _redundancy(self, arm: ArmMemory, pair: Pair) -> float:
        """Return the target of a new pair, compared with the pairs of an arm."""
        if arm.count == 0:
            return self.target_without_pairs
        entries = self.kept(pair)
        if self.diversity == "rke":
            values = arm.kept[0].compare(entries[0])
        else:
            prompts, outputs, references = arm.kept
            prompt, output, reference = entries
            values = prompts.compare(prompt) * (
                outputs.compare(output)
                + references.compare(reference)
                - outputs.compare(reference)
                - references.compare(output)
            )
        return float(np.mean(values)) - math.sqrt(self.correction / arm.count)

    def _optimistic(self, memory: PromptMemory, found: Sequence[Prediction]) -> Vector:
        """Return the predicted qualities with their bonus."""
        eta = math.sqrt(max(2 * math.log(2 * memory.size / self.delta), 0.0))  # 0 for a single arm
        return np.array([each.means[0] + eta * math.sqrt(each.variance) for each in found])


@dataclass(frozen=True, eq=False)
class DAKUCB(DiversityPolicy):
    """DAK-UCB: draw the arm with the best optimistic quality and diversity for the prompt.

    For every arm, kernel ridge regression with the kernel ``k(t,s) = exp(−γ‖t − s‖²)`` predicts the quality
    ``q̂_i`` and a redundancy ``d̂_i`` of its answer to the prompt t. The policy draws
    ``argmax_i q̂_i(t) + η sqrt(k(t,t) − k_tᵀ(K_i + λI)⁻¹k_t) − weight · d̂_i(t)``, with
    ``η = sqrt(2 log(2m/δ))`` for m arms. The redundancy of a pair of prompt t and output x is measured when
    the pair is told, against the n earlier pairs of the same arm:

    - ``diversity="rke"``: the mean of ``k(t,s)² k(x,y)²``, as in the joint RKE;
    - ``diversity="kd"``: the mean of ``k(t,s) (k(x,y) + k(x',y') − k(x,y') − k(x',y))``, where x' and y' are
      reference answers to the two prompts; pass ``reference=`` to :meth:`Selector.ask`;

    each minus ``sqrt(correction / n)``. Without qualities, the first term is 0. The policy has its own
    kernels and ignores the objective.

    Parameters
    ----------
    diversity : {"rke", "kd"}, default "rke"
        How redundancy is measured.
    weight : float, default 1.0
        Weight of the redundancy, λ in the paper.
    regularization : float, default 1.0
        λ in the formula above, α in the paper: the ridge penalty.
    gamma : float, default 1.0
        γ of the kernels on prompts and outputs. The published setting is for embeddings of length 1.
    correction : float, default 1e-4
        Subtracted from every redundancy as ``sqrt(correction / n)``.
    delta : float, default 3.8
        δ; smaller values explore more. It must be less than twice the number of arms.

    Raises
    ------
    InputError
        If a parameter is out of range.

    References
    ----------
    Jafari, D., & Farnia, F. (2026). DAK-UCB: Diversity-aware prompt routing for LLMs and generative models.
    ICLR.

    Examples
    --------
    For this prompt, arm ``a`` always gives the same answer:

    >>> import numpy as np
    >>> import genmix as gx
    >>> sel = gx.Selector(["a", "b"], gx.Vendi(), gx.DAKUCB(), warm_start=3)
    >>> for k, ticket in enumerate(sel.ask(6, prompt=[1.0, 0.0])):
    ...     sel.tell(ticket, np.eye(6)[0 if ticket.arm == "a" else k])
    >>> sel.ask(prompt=[1.0, 0.0])[0].arm
    'b'
    """

    def columns(self, arms: int) -> int:
        return 2

    def targets(self, memory: PromptMemory, arm: int, pair: Pair) -> Vector:
        return np.array([pair.quality, self._redundancy(memory.arms[arm], pair)])

    def scores(self, memory: PromptMemory, arms: Sequence[int], prompt: Prompt) -> Vector:
        """Return the optimistic quality minus the redundancy of the arms at these positions."""
        found = [memory.predict(arm, prompt) for arm in arms]
        redundancy = np.array([each.means[1] for each in found])
        return self._optimistic(memory, found) - self.weight * redundancy

    def choose(self, memory: PromptMemory, arms: Sequence[int], prompt: Prompt) -> Vector:
        return vertex(len(arms), int(np.argmax(self.scores(memory, arms, prompt))))


@dataclass(frozen=True, eq=False)
class MixtureDAKUCB(DiversityPolicy):
    """Mixture-DAK-UCB: draw from the mixture with the best optimistic quality and diversity for the prompt.

    Like :class:`DAKUCB`, but the redundancy of a pair from arm i is measured against the pairs of every arm
    j, which yields a matrix of predictions ``D_ij``. The arm is drawn from the weights that minimize
    ``weight · wᵀDw − Σ_i w_i (q̂_i(t) + η sqrt(k(t,t) − k_tᵀ(K_i + λI)⁻¹k_t))`` over the simplex, with D
    symmetrized. D is a prediction and need not be positive semidefinite, so this is only a local minimum: the
    one that SLSQP finds from equal weights, as published. Requires scipy.

    Parameters
    ----------
    diversity, weight, regularization, gamma, correction, delta
        As for :class:`DAKUCB`.

    Raises
    ------
    InputError
        If a parameter is out of range.

    References
    ----------
    Jafari, D., & Farnia, F. (2026). DAK-UCB: Diversity-aware prompt routing for LLMs and generative models.
    ICLR.

    Examples
    --------
    Each arm always gives the same answer. Together they give two answers:

    >>> import numpy as np
    >>> import genmix as gx
    >>> sel = gx.Selector(["a", "b"], gx.Vendi(), gx.MixtureDAKUCB(), warm_start=5)
    >>> for ticket in sel.ask(10, prompt=[1.0, 0.0]):
    ...     sel.tell(ticket, [1.0, 0.0] if ticket.arm == "a" else [0.0, 1.0])
    >>> [ticket] = sel.ask(prompt=[1.0, 0.0])
    >>> 0.4 < ticket.weight < 0.6
    True
    """

    needs: ClassVar[tuple[str, ...]] = ("scipy",)
    """Optional modules that this policy imports."""

    def columns(self, arms: int) -> int:
        return 1 + arms

    def targets(self, memory: PromptMemory, arm: int, pair: Pair) -> Vector:
        return np.array([pair.quality, *(self._redundancy(each, pair) for each in memory.arms)])

    def terms(
        self, memory: PromptMemory, arms: Sequence[int], prompt: Prompt
    ) -> tuple[Vector, Matrix]:
        """Return the optimistic qualities and the symmetrized D of the arms at these positions."""
        found = [memory.predict(arm, prompt) for arm in arms]
        matrix = np.array([each.means[1:][list(arms)] for each in found])
        return self._optimistic(memory, found), (matrix + matrix.T) / 2

    def choose(self, memory: PromptMemory, arms: Sequence[int], prompt: Prompt) -> Vector:
        linear, matrix = self.terms(memory, arms, prompt)
        optimize = require("scipy.optimize", "prompts", "MixtureDAKUCB")
        found = optimize.minimize(
            lambda w: self.weight * (w @ matrix @ w) - linear @ w,
            uniform(len(arms)),
            jac=lambda w: 2 * self.weight * (matrix @ w) - linear,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * len(arms),
            constraints=[{"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}],
        )
        return feasible(np.maximum(found.x, 0.0))


def _positive(policy: Policy, *fields: str) -> None:
    for field in fields:
        object.__setattr__(policy, field, positive(getattr(policy, field), field))
