"""Two ways side by side on every world and objective: who is better, by how much, how surely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from genmix.comparison.comparison import Comparison
from genmix.comparison.statistics import Interval, mean_interval
from genmix.paper.text import table


@dataclass(frozen=True)
class Duel:
    """How much better one policy's pooled score is than another's, in percent of the latter's mean."""

    world: str
    objective: str
    policy: str
    other: str
    names: tuple[str, str]
    """Of both, as tables have them."""
    t: int
    gain: Interval
    """Positive: better, whichever way the score goes."""

    @property
    def verdict(self) -> str:
        if not self.gain.excludes_zero:
            return "no difference seen"
        return "better" if self.gain.mean > 0 else "worse"

    def row(self) -> dict[str, Any]:
        return {
            "world": self.world,
            "objective": self.objective,
            "policy": self.policy,
            "other": self.other,
            "t": self.t,
            "gain_percent": self.gain.mean,
            "low": self.gain.low,
            "high": self.gain.high,
            "verdict": self.verdict,
        }


def duel(found: Comparison, objective: str, policy: str, other: str, t: int | None = None) -> Duel:
    """At the end, or at the first time read that is not before ``t``."""
    place = found.place_of(t)
    mine, theirs = found.pooled(policy)[:, place], found.pooled(other)[:, place]
    sign = 100 if found.maximise else -100
    gain = mean_interval(sign * (mine - theirs) / abs(theirs.mean()))
    names = found.named(policy), found.named(other)
    t = int(found.times[place])
    return Duel(found.plan.world.name, objective, policy, other, names, t, gain)


def duel_table(duels: Sequence[Duel]) -> str:
    """One line a world and objective."""
    heads = ["world", "objective", "", "against", "t", "gain in % (95 %)", ""]
    rows = [
        [
            each.world,
            each.objective,
            *each.names,
            str(each.t),
            f"{each.gain.mean:+.2f} [{each.gain.low:+.2f}, {each.gain.high:+.2f}]",
            each.verdict,
        ]
        for each in duels
    ]
    return table(heads, rows)


def counted(duels: Sequence[Duel]) -> str:
    """How often which way."""
    verdicts = [each.verdict for each in duels]
    return (
        f"Better in {verdicts.count('better')}, worse in {verdicts.count('worse')} and no difference "
        f"seen in {verdicts.count('no difference seen')} of {len(duels)}."
    )


def duel_chart(duels: Sequence[Duel]) -> Any:
    """Gains with their intervals, a panel for each pair."""
    from genmix import charts

    pairs = {(each.policy, each.other) for each in duels}
    rows = []
    for each in duels:
        row = {
            "label": f"{each.world}, {each.objective}",
            "mean": each.gain.mean,
            "low": each.gain.low,
            "high": each.gain.high,
        }
        if len(pairs) > 1:
            row["panel"] = f"{each.policy} against {each.other}"
        rows.append(row)
    return charts.intervals(rows, "gain in the pooled score, % → (right is better)")
