"""Plugins of installed packages: the example of the documentation, and plugins that are broken."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.core.plugins import find_plugins, plugin_classes
from genmix.generators import ARM_KINDS, ArmSettings
from genmix.study.template import write_example

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "extending.md"
GROUPS = ("generators", "encoders", "objectives", "policies")


def example(title: str) -> str:
    """A code block of the documentation."""
    found = re.search(rf'```\w+ title="{title}"\n(.*?)```', PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def install(
    folder: Path, package: str, code: str, entry_points: Mapping[str, Mapping[str, str]]
) -> None:
    """Write a package into a folder as an installer would."""
    module = package.replace("-", "_")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{module}.py").write_text(code, "utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())])
        for group, entries in entry_points.items()
    ]
    (info / "entry_points.txt").write_text("\n\n".join(groups), "utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example of the documentation, installed."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads(example("pyproject.toml"))["project"]
    install(folder, project["name"], example("genmix_words.py"), project["entry-points"])
    return folder


def run(*command: str, site: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "GENMIX_CACHE": str(cwd / "cache")},
        check=True,
    )


def test_a_study_uses_all_four_plugins(site: Path, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(example("study.yaml"), "utf-8")
    run("-m", "genmix", "run", "study.yaml", "--json", site=site, cwd=tmp_path)
    summary = json.loads((tmp_path / "runs" / "study" / "summary.json").read_text("utf-8"))
    assert sum(summary["counts"].values()) == 40
    assert min(summary["counts"].values()) >= 15  # least-sampled keeps them balanced
    assert summary["encoder"] == "letters"
    assert set(summary["score"]) == {"vendi", "length"}


def test_doctor_lists_the_plugins(site: Path, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(example("study.yaml"), "utf-8")
    done = run("-m", "genmix", "doctor", "study.yaml", "--json", site=site, cwd=tmp_path)
    found = {each["what"]: each for each in json.loads(done.stdout)}
    names = ("words", "letters", "length", "least-sampled")
    for group, name in zip(GROUPS, names, strict=True):
        listed = found[f"genmix.{group}: {name}"]
        assert (listed["state"], listed["detail"]) == ("ok", "from genmix-words")
    assert not done.stderr


def test_importing_genmix_does_not_look_for_plugins(site: Path, tmp_path: Path) -> None:
    code = "import sys, genmix; print('genmix_words' in sys.modules)"
    assert run("-c", code, site=site, cwd=tmp_path).stdout.strip() == "False"


CODE = """
from typing import Literal
from genmix.generators import ArmSettings

class Good(ArmSettings):
    kind: Literal["good"]
    def build(self, context): ...

class Callable(ArmSettings):
    kind: Literal["callable"]
    def build(self, context): ...

number = 3
"""


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("good", "missing_module:Good", "ModuleNotFoundError: No module named 'missing_module'"),
        ("good", "bad_plugins:Missing", "AttributeError"),
        ("good", "bad_plugins:number", "bad_plugins:number is not a subclass of ArmSettings"),
        ("callable", "bad_plugins:Callable", "its name is taken; choose another one"),
        ("Good", "bad_plugins:Good", "lowercase letters, digits and hyphens"),
        ("other", "bad_plugins:Good", "must have the field kind: Literal['other']"),
    ],
)
def test_a_broken_plugin_causes_one_warning_and_leaves_the_others_alone(
    name: str, value: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "genmix.generators"
    install(tmp_path, "bad-plugins", CODE, {group: {name: value}})
    install(tmp_path, "fine-plugins", CODE, {group: {"good": "fine_plugins:Good"}})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(RuntimeWarning) as caught:
        found = load(group, ArmSettings, {"callable"})
    assert plugin_classes(found).keys() == {"good"}
    (broken,) = [plugin for plugin in found if plugin.problem is not None]
    assert broken.problem == str(caught.pop().message)
    assert not caught.list
    assert broken.problem.startswith(f"the plugin {name!r} from bad-plugins cannot be used: ")
    assert said in broken.problem
    assert broken.problem.endswith(".")


def load(group: str, base: type, reserved: set[str]) -> Any:
    try:
        return find_plugins.__wrapped__(group, base, frozenset(reserved))
    finally:
        for module in ("bad_plugins", "fine_plugins"):
            sys.modules.pop(module, None)


def test_of_two_plugins_with_one_name_the_first_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "genmix.generators"
    for package in ("first", "second"):
        install(
            tmp_path / package,
            f"{package}-plugins",
            CODE,
            {group: {"good": f"{package}_plugins:Good"}},
        )
        monkeypatch.syspath_prepend(tmp_path / package)
    with pytest.warns(RuntimeWarning, match="first-plugins cannot be used: its name is taken"):
        found = load(group, ArmSettings, {"callable"})
    assert found[0].package == "second-plugins"  # the first one on Python's path


def test_the_groups_are_empty_without_plugins() -> None:
    assert find_plugins("genmix.policies", gx.Policy, frozenset()) == ()
    assert all(issubclass(kind, ArmSettings) for kind in ARM_KINDS)


ODD_POLICY = """
from dataclasses import dataclass
import genmix as gx

class Opaque:
    pass

@dataclass(frozen=True)
class Odd(gx.Policy):
    thing: Opaque = None
    def decide(self, situation): ...
"""


def test_a_policy_that_a_study_cannot_describe_is_skipped(tmp_path: Path) -> None:
    install(tmp_path, "odd-policy", ODD_POLICY, {"genmix.policies": {"odd": "odd_policy:Odd"}})
    write_example(tmp_path)
    command = ("-W", "always", "-m", "genmix", "doctor", "study.yaml", "--json")
    done = run(*command, site=tmp_path, cwd=tmp_path)
    found = {each["what"]: each for each in json.loads(done.stdout)}
    assert found["genmix.policies: odd"]["state"] != "ok"
    assert "the plugin 'odd' from odd-policy cannot be used" in done.stderr
