"""Convert what a selector has learned to a saved state and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from genmix.core.arrays import Vector, empty_at, like, place
from genmix.core.description import from_plain, to_plain
from genmix.objectives import Objective
from genmix.policies import PromptMemory, PromptPolicy
from genmix.selector.arms import ArmRecord
from genmix.selector.limits import loaded_region, loaded_spent, saved_region
from genmix.selector.pending import pack, unpack

if TYPE_CHECKING:
    from genmix.selector.learner import Learner


@dataclass(frozen=True)
class PreviousSolution:
    """The mixture before an arm was added, and its gap."""

    mixture: dict[str, float]
    gap: float


def saved_learner(learner: Learner) -> dict[str, Any]:
    """Return the complete state of a learner as numpy arrays and JSON values."""
    arms = learner.arms.values()
    optional: dict[str, Any] = {}
    if learner.previous is not None:
        optional["previous"] = to_plain(asdict(learner.previous))
    if learner.notes is not None:
        optional["notes"] = learner.notes.copy()
    if learner.memory is not None:
        optional["memory"] = learner.memory.state_dict()
    return optional | {
        "arms": [arm.label for arm in arms],
        "active": [arm.active for arm in arms],
        "told": [arm.told for arm in arms],
        "failed": [arm.failed for arm in arms],
        "former": to_plain(learner.previous_weights),
        "objective": to_plain(learner.described),
        "resolved": to_plain(learner.resolved),
        "policy": to_plain(learner.policy),
        "solver": to_plain(learner.solver),
        "warm_start": learner.warm_start,
        "resolve_growth": learner.growth,
        "place": None if learner.template is None else place(learner.template),
        "dimension": None if learner.template is None else int(learner.template.shape[1]),
        "pending": pack(learner.pending),
        "tally": None if learner.tally is None else learner.tally.state_dict(),
        "weights": _copied(learner.alpha),
        "mixture": _copied(learner._mixture),
        "targets": _copied(learner._targets),
        "curvature": _copied(learner.curvature),
        "gap": to_plain(float(learner.gap)),
        "limits": learner.limits.plain(),
        "spent": {label: list(spent) for label, spent in learner.spent.items()},
        "region": saved_region(learner.region),
        "price": to_plain(learner._price),
        "solved_at": learner.solved_at,
        "streams": learner.streams,
        "spread": {label: list(measured) for label, measured in learner.spread.items()},
    }


def load_learner(learner: Learner, saved: Mapping[str, Any], resolved: Objective | None) -> None:
    """Restore the state of a learner that was just created."""
    tickets = saved["in_flight"]
    in_flight = Counter(learner.key_of(each["arm"], each.get("group")) for each in tickets)
    columns = (saved["arms"], saved["active"], saved["told"], saved["failed"])
    learner.arms = {
        label: ArmRecord(index, label, active, told, failed, in_flight[label])
        for index, (label, active, told, failed) in enumerate(zip(*columns, strict=True))
    }
    learner.previous_weights = from_plain(saved["former"])
    learner.streams = saved.get("streams", 1)  # missing from older states, like the next ones
    previous = saved.get("previous")
    learner.previous = None if previous is None else PreviousSolution(**from_plain(previous))
    learner.resolved, learner.solved_at = resolved, saved["solved_at"]
    learner.alpha, learner.curvature = _floats(saved["weights"]), _floats(saved["curvature"])
    learner._mixture = _floats(saved.get("mixture"))  # missing from older states
    learner._targets = _floats(saved.get("targets"))
    learner.notes = _floats(saved.get("notes"))
    if learner.notes is not None and not np.isfinite(learner.notes).all():
        raise ValueError("the notes of the policy are not finite")
    learner._gap = from_plain(saved["gap"])
    learner.spread = {
        k: (int(n), float(total)) for k, (n, total) in saved.get("spread", {}).items()
    }
    learner.spent = loaded_spent(saved.get("spent", {}))
    learner.region = loaded_region(saved.get("region"), len(learner.active))
    learner._price = from_plain(saved.get("price"))
    if isinstance(learner.policy, PromptPolicy):
        told = [arm.told for arm in learner.arms.values()]
        learner.memory = PromptMemory.from_state_dict(learner.policy, saved["memory"], told)
    if saved["place"] is None:
        return
    learner.template = like(np.empty((0, saved["dimension"])), empty_at(saved["place"]))
    learner.pending = unpack(saved["pending"], learner.template)
    if saved["tally"] is not None and resolved is not None:
        learner.tally = resolved.tally(len(learner.arms), learner.template)
        learner.tally.load_state_dict(saved["tally"])
        told = [arm for arm, count in enumerate(learner.tally.counts) if count]
        learner.tally.loss(told)  # raises an error if the arrays do not fit together


def _copied(array: Vector | None) -> Vector | None:
    return None if array is None else array.copy()


def _floats(saved: Any) -> Vector | None:
    return None if saved is None else np.array(saved, dtype=np.float64)
