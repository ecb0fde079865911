"""One arm with variants written out as several arms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from genmix.study.problems import Faults, Path, shown


@dataclass
class Variants:
    """The arms as a run has them, and where everything in them was written."""

    written: Any
    arms: Any
    sources: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Arm and variant of every label that was made here."""
    changes: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """What every variant of every arm says itself."""

    @classmethod
    def of(cls, written: Any, faults: Faults) -> Variants:
        """The arms of a study; what is no map of maps is left for others to complain about."""
        if not isinstance(written, dict):
            return cls(written, written)
        made = cls(written, {})
        for label, settings in written.items():
            if isinstance(settings, dict) and "variants" in settings:
                made._write_out(label, settings, faults)
            else:
                made.arms[label] = settings
        return made

    def _write_out(self, label: str, settings: dict[str, Any], faults: Faults) -> None:
        base = {key: value for key, value in settings.items() if key != "variants"}
        path: Path = ("arms", label, "variants")
        variants = settings["variants"]
        if not isinstance(variants, dict) or not variants:
            advice = "give a map such as {cold: {temperature: 0.5}}, or leave it out"
            faults.add(path, f"variants of arm {label!r} is {shown(variants)}: {advice}.")
            self.arms[label] = base
            return
        self.changes[label] = {n: v if isinstance(v, dict) else {} for n, v in variants.items()}
        for name, own in variants.items():
            full = f"{label}/{name}"
            if own is not None and not isinstance(own, dict):
                advice = "give a map of the settings that differ, or {}"
                faults.add((*path, name), f"arm {full!r} is {shown(own)}: {advice}.")
            if full in self.arms or full in self.written:
                words = f"there are two arms {full!r}: give this variant another name."
                faults.add((*path, name), words)
            self.arms[full] = base | self.changes[label][name]
            self.sources[full] = (label, name)

    def origin(self, path: Path) -> Path:
        """Where something of a written-out arm stands in the study.

        What a variant does not say comes from its arm; what neither says is missing in the arm, unless
        another variant has it.
        """
        if len(path) < 2 or path[0] != "arms" or path[1] not in self.sources:
            return path
        label, name = self.sources[str(path[1])]
        changes, rest = self.changes[label], path[2:]
        here: Path = ("arms", label, "variants", name, *rest)
        if not rest or rest[0] in changes[name]:
            return here
        only_in_others = any(rest[0] in own for own in changes.values())
        in_arm = rest[0] in self.written[label]
        return here if only_in_others and not in_arm else ("arms", label, *rest)
