"""Expand short forms: arms with variants, and components given only by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from genmix.core.python_objects import PythonObject
from genmix.core.text import listed
from genmix.study.components import (
    KERNELS,
    OBJECTIVES,
    OWN,
    PARTS,
    POLICIES,
    ComponentSettings,
    JointSettings,
    component_name,
    hyphenated,
)
from genmix.study.problems import KeyPath, Problems, nearest, shown

FAMILIES = {
    "objective": (OBJECTIVES, "vendi"),
    "kernel": (KERNELS, "gaussian"),
    "policy": (POLICIES, "mixture-ucbv"),
}
"""For each family of components: its settings classes, and an example for error messages."""

OTHER_NAMES = {
    "fid": "frechet-distance",
    "kid": "kernel-distance",
    "mmd": "kernel-distance",
    "is": "inception-score",
    "rbf": "gaussian",
    "linear": "cosine",
    "greedy": "mixture-greedy",
    "ucb": "mixture-ucb",
    "ucb-v": "mixture-ucbv",
    "mixture-ucb-v": "mixture-ucbv",
    "random": "uniform",
}
"""Common names that genmix does not use, and the corresponding names in genmix."""

REPORT_ONLY = ("recall",)


class Expansion:
    """A study with short forms expanded, and the original location of each part.

    An arm with variants becomes several arms. An objective becomes a list of terms. A term, kernel
    or policy such as ``{vendi: {order: 2}}`` becomes ``{kind: vendi, order: 2}``. Values of the wrong
    shape are reported as problems, or left unchanged for pydantic to reject.
    """

    def __init__(self, written: Mapping[str, Any], problems: Problems) -> None:
        self.written, self.problems, self.data = written, problems, dict(written)
        self.origins: dict[KeyPath, KeyPath] = {}
        """Paths of components in the file, by their paths in ``data``."""
        self.variants: dict[str, tuple[str, str]] = {}
        """Arm and variant by label, for arms that are variants."""
        if isinstance(written.get("arms"), dict):
            self.data["arms"] = self._arms(written["arms"])
        if "objective" in written:
            self.data["objective"] = self._terms(written["objective"])
        if "policy" in written:
            path: KeyPath = ("policy",)
            policy = self._component("policy", written["policy"], path, path)
            self.data["policy"] = policy or {"kind": "uniform"}

    def origin(self, path: KeyPath) -> KeyPath:
        """Convert a path in ``data`` to the corresponding path in the file."""
        if len(path) > 1 and path[0] == "arms" and path[1] in self.variants:
            return self._origin_in_variant(path)
        for end in range(len(path), 0, -1):
            if path[:end] in self.origins:
                return self.origins[path[:end]] + path[end:]
        return path

    # -- variants ----------------------------------------------------------------------------------

    def _arms(self, written: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for label, settings in written.items():
            if not isinstance(settings, dict) or "variants" not in settings:
                found[label] = settings
                continue
            base = {key: value for key, value in settings.items() if key != "variants"}
            path: KeyPath = ("arms", label, "variants")
            variants = settings["variants"]
            if not isinstance(variants, dict) or not variants:
                advice = "use a mapping such as {cold: {temperature: 0.5}}, or remove it"
                self.problems.add(
                    path, f"variants of arm {label!r} is {shown(variants)}; {advice}."
                )
                found[label] = base
                continue
            for name, changes in variants.items():
                full = f"{label}/{name}"
                if changes is not None and not isinstance(changes, dict):
                    advice = "use a mapping of the settings that differ, or {}"
                    self.problems.add((*path, name), f"arm {full!r} is {shown(changes)}; {advice}.")
                if full in found or full in written:
                    words = f"there are two arms named {full!r}; rename this variant."
                    self.problems.add((*path, name), words)
                found[full] = base | self._changes(label, name)
                self.variants[full] = (label, name)
        return found

    def _changes(self, label: str, name: str) -> dict[str, Any]:
        changes = self.written["arms"][label]["variants"][name]
        return changes if isinstance(changes, dict) else {}

    def _origin_in_variant(self, path: KeyPath) -> KeyPath:
        """Return the path of a setting in its variant or in its arm.

        A missing setting is attributed to the arm, unless another variant sets it.
        """
        label, name = self.variants[str(path[1])]
        arm, rest = self.written["arms"][label], path[2:]
        in_variant: KeyPath = ("arms", label, "variants", name, *rest)
        if not rest or rest[0] in self._changes(label, name):
            return in_variant
        in_another = any(rest[0] in self._changes(label, other) for other in arm["variants"])
        return in_variant if in_another and rest[0] not in arm else ("arms", label, *rest)

    # -- components --------------------------------------------------------------------------------

    def _terms(self, written: Any) -> list[Any]:
        is_list = isinstance(written, list)
        if written == []:
            self.problems.add(("objective",), "objective is empty; name one, e.g. vendi.")
        terms = []
        for i, item in enumerate(written if is_list else [written]):
            path: KeyPath = ("objective", i) if is_list else ("objective",)
            terms.append(self._component("objective", item, path, ("objective", i)))
        return [term or {"kind": "vendi"} for term in terms or [None]]

    def _component(self, family: str, written: Any, path: KeyPath, full: KeyPath) -> Any:
        """Convert ``name`` or ``{name: {parameters}}`` to ``{kind: name, **parameters}``.

        A Python object becomes the settings that contain it. ``path`` is its path in the file, and
        ``full`` its path in ``data``.
        """
        known, example = FAMILIES[family]
        name, given = written, None
        if isinstance(written, dict) and len(written) == 1:
            ((name, given),) = written.items()
            path = (*path, name)
        if isinstance(name, PythonObject):
            return OWN[family](object=name, **(given or {}))
        kind, words = component_name(name) if isinstance(name, str) else "", ""
        if isinstance(name, dict) and name:
            words = _several_names(family, name, known)
        elif not kind:
            advice = f"use a name such as {example}, or {{{example}: {{parameters}}}}"
            words = f"{family} is {shown(name)}; {advice}."
        elif kind not in known:
            words = f"unknown {family} {shown(name)}; {suggestion(name, known)}"
        elif given is not None and not isinstance(given, dict):
            words = (
                f"the parameters of {kind} are {shown(given)}; {_parameters_advice(known[kind])}."
            )
        if words:
            self.problems.add(path, words)
            return None
        self.origins[full] = path if isinstance(written, dict) else (*path, kind)
        parameters = dict(given or {})
        if "kind" in parameters:
            self.problems.add((*path, "kind"), f"unknown key 'kind' in {kind}; remove it.")
        for key in _kernels_in(known[kind], parameters):
            where = (*path, key), (*full, key)
            kernel = self._component("kernel", parameters.pop(key), *where)
            parameters |= {key: kernel} if kernel else {}
        return {**parameters, "kind": kind}


def _kernels_in(settings: type[ComponentSettings], parameters: Mapping[str, Any]) -> list[str]:
    """Return the parameters that are kernels; a part of the joint kernel can also be null."""
    if issubclass(settings, JointSettings):
        return [key for key in PARTS if parameters.get(key) is not None]
    return ["kernel"] if "kernel" in parameters and "kernel" in settings.model_fields else []


def _several_names(family: str, written: Mapping[str, Any], known: Iterable[str]) -> str:
    names = [key for key in written if component_name(key) in known]
    others = [key for key in written if key not in names]
    if len(names) == 1:
        below = f"'{names[0]}: {{{others[0]}: …}}'"
        return (
            f"{shown(others[0])} is at the same level as {names[0]}; put it inside, as in {below}."
        )
    keys = listed([*written][:4])
    if family == "objective":
        return f"objective is a mapping of {keys}; write a list with one '- name' per line."
    return f"{family} is a mapping of {keys}; use one name, with its parameters below it."


def _parameters_advice(settings: type[ComponentSettings]) -> str:
    names = [key for key in settings.model_fields if key not in ("kind", "weight")]
    return f"use a mapping such as {{{names[0]}: …}}" if names else "it takes none, so remove them"


def suggestion(written: str, known: Iterable[str]) -> str:
    """Return advice for an unknown name: the most likely one, or all of them."""
    names, name = list(known), hyphenated(written)
    if name in REPORT_ONLY and "precision" in names:
        return f"{name} is reported but cannot be optimized, so use coverage or precision."
    other = OTHER_NAMES.get(name)
    close = other if other in names else nearest(written, names)
    return f"did you mean {close!r}?" if close else f"use one of {listed(names, 'or')}."
