"""The result of a diagnosis."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from genmix.core.plain import by_name, finite, plain_scores
from genmix.diagnosis import verdict
from genmix.diagnosis.evidence import Evidence
from genmix.diagnosis.innovation import Innovation
from genmix.diagnosis.resampling import Spread
from genmix.diagnosis.theory import Theory
from genmix.diagnosis.thresholds import SEPARATION, UNUSED_WEIGHT
from genmix.objectives import Score
from genmix.offline.mixture import Mixture
from genmix.solvers.loss import EPS

Role = Literal["needed", "replaceable", "idle", "unclear"]


@dataclass(frozen=True)
class Subsampled:
    """Results for an arm over random subsamples, and the number of subsamples in which it was active."""

    innovation: Spread
    weight: Spread
    leave_one_out: Spread
    active: int


@dataclass(frozen=True)
class ArmDiagnosis:
    """The diagnosis of one arm.

    Attributes
    ----------
    n : int
        Number of samples.
    innovation : Innovation
        The direction in which the arm differs most from the others, and its innovation gap.
    weight : float
        Weight in the best mixture of all samples.
    is_active : bool
        Whether the minimum loss on these samples provably increases without the arm.
    leave_one_out : float
        That increase, in units of the loss; 0 unless provably positive, ∞ for the only arm.
    margin : float
        Increase in the minimum loss if the arm's weight is at most γ_0; 0 unless provably positive.
    evidence : Evidence or None
        Results on random halves; None if there are too few samples or no other arms.
    subsampled : Subsampled or None
        Results on random subsamples, if they were requested.
    """

    n: int
    innovation: Innovation
    weight: float
    is_active: bool
    leave_one_out: float
    margin: float
    evidence: Evidence | None
    subsampled: Subsampled | None

    @property
    def is_needed(self) -> bool:
        """Whether the minimum loss increases without the arm, beyond chance."""
        shown = self.evidence is not None and self.evidence.leave_one_out.is_beyond_chance
        return self.is_active and shown

    @property
    def is_interior(self) -> bool:
        """Whether the arm needs a weight above γ_0 in the best mixture, beyond chance."""
        shown = self.evidence is not None and self.evidence.margin.is_beyond_chance
        return self.margin > 0 and shown

    @property
    def role(self) -> Role:
        """The arm's role in the best mixture.

        ``"needed"``, ``"replaceable"`` (it has weight, but the other arms can replace it), ``"idle"``
        (it adds nothing), or ``"unclear"`` (there are too few samples to tell).
        """
        if self.is_needed:
            return "needed"
        if not self.is_active and self.weight >= UNUSED_WEIGHT:
            return "replaceable"
        never = self.evidence is not None and self.evidence.weight < UNUSED_WEIGHT
        return "idle" if never and not self.is_active else "unclear"


@dataclass(frozen=True)
class Diagnosis:
    """What each arm contributes to the best mixture. Print it to see the tables and the verdict.

    Attributes
    ----------
    arms : dict of str to ArmDiagnosis
        The numbers and the role of each arm.
    mixture : Mixture
        The best mixture of all samples.
    gamma : float
        The level γ_0 for the margins.
    repeats : int
        Number of random subsamples.
    subsample : int or None
        Samples of each arm per subsample; None means half of each arm.
    theory : Theory or None
        Constants of the paper's theorem, for log-Vendi with a cosine kernel. Print it to see them.

    See Also
    --------
    diagnose : Creates a diagnosis.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> arms = {"a": np.repeat(np.eye(3)[:2], 20, axis=0), "b": np.repeat(np.eye(3)[2:], 20, axis=0)}
    >>> found = gx.diagnose(arms, gx.Vendi())
    >>> {name: arm.role for name, arm in found.arms.items()}
    {'a': 'needed', 'b': 'needed'}
    >>> found.innovative
    ('a', 'b')
    >>> print(found.verdict[0])
    The mixture needs a and b.
    """

    arms: dict[str, ArmDiagnosis]
    mixture: Mixture = field(repr=False)
    gamma: float
    repeats: int
    subsample: int | None
    theory: Theory | None

    @property
    def innovative(self) -> tuple[str, ...]:
        """Arms that a direction sets apart from all others, confirmed on held-out samples."""
        return tuple(
            name
            for name, arm in self.arms.items()
            if name not in self.alike
            and arm.evidence is not None
            and arm.evidence.innovation.is_beyond_chance
        )

    @property
    def alike(self) -> tuple[str, ...]:
        """Arms that no direction sets apart on these samples, because the gap is within rounding error."""
        rounding = EPS * len(self.arms) * self.dimension
        return tuple(name for name, arm in self.arms.items() if arm.innovation.gap <= rounding)

    @property
    def nu(self) -> float:
        """ν_0: the smallest second moment of an arm along its own direction."""
        return min(arm.innovation.own for arm in self.arms.values())

    @property
    def epsilon(self) -> float:
        """ε_0: the largest sum of the other arms' second moments along such a direction."""
        return max(arm.innovation.others for arm in self.arms.values())

    @property
    def separates(self) -> bool:
        """Whether the paper's innovation assumption ``ε_0 < ν_0/8`` holds along these directions."""
        return SEPARATION * self.epsilon < self.nu

    @property
    def is_interior(self) -> bool:
        """Whether every arm needs a weight above γ_0 in the best mixture, beyond chance."""
        return len(self.arms) == 1 or all(arm.is_interior for arm in self.arms.values())

    @property
    def lacking(self) -> tuple[str, ...]:
        """Arms for which a weight of γ_0 suffices in the best mixture of these samples."""
        return tuple(name for name, arm in self.arms.items() if not arm.margin > 0)

    @property
    def dimension(self) -> int:
        """Dimension of the embeddings."""
        return len(next(iter(self.arms.values())).innovation.direction)

    @property
    def scores(self) -> dict[str, Score]:
        """Scores of the best mixture by name."""
        return by_name(self.mixture.score)

    @property
    def verdict(self) -> tuple[str, ...]:
        """The conclusions in words, one sentence per entry."""
        return verdict.sentences(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnosis as JSON values. Directions are omitted; infinite numbers become None.

        Returns
        -------
        dict
        """
        arms = {name: asdict(arm) for name, arm in self.arms.items()}
        for name, arm in arms.items():
            del arm["innovation"]["direction"]
            arm["role"] = self.arms[name].role
        found: dict[str, Any] = finite(
            {
                "arms": arms,
                "scores": plain_scores(self.scores),
                "loss": self.mixture.loss,
                "gap": self.mixture.gap,
                "gamma": self.gamma,
                "repeats": self.repeats,
                "subsample": self.subsample,
                "innovative": list(self.innovative),
                "nu": self.nu,
                "epsilon": self.epsilon,
                "separates": self.separates,
                "is_interior": self.is_interior,
                "theory": None if self.theory is None else asdict(self.theory),
                "verdict": list(self.verdict),
            }
        )
        return found

    def __str__(self) -> str:
        return verdict.page(self)
