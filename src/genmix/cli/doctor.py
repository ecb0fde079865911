"""``genmix doctor``: show what is installed, what a study still needs, and how to install it."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from genmix import __version__
from genmix.core.optional import is_installed, package_of
from genmix.core.text import counted, listed
from genmix.data.text_files import resolved
from genmix.encoders import encoder_kinds, encoder_plugins
from genmix.generators import arm_kinds, arm_plugins
from genmix.runs.prepare import Plan
from genmix.study.components import objective_plugins, policy_plugins, reference_paths
from genmix.study.messages import kinds_of
from genmix.study.study import Study

State = Literal["ok", "missing", "broken", "note"]
STYLES = {"ok": "green", "missing": "red", "broken": "red", "note": "dim"}
FILE_KEYS = ("path", "file", "folder")
TOOLS = {
    "altair": "charts in reports, comparisons and the paper",
    "vl_convert": "charts in reports, comparisons and the paper",
    "pyarrow": "Parquet",
    "scipy": "genmix compare, genmix paper and MixtureDAKUCB",
    "starlette": "genmix dashboard",
    "uvicorn": "genmix dashboard",
    "tensorboard": "the TensorBoard callback",
    "mlflow": "the MLflow callback",
    "wandb": "the WandB callback",
}
"""Modules that commands need regardless of the study, and what they are for."""

FULL = 100 * 2**20
"""The disk is considered full if fewer bytes than this are free."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    state: State
    detail: str

    @property
    def is_missing(self) -> bool:
        return self.state == "missing"

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def examine(study: str | Path | None = None) -> list[Finding]:
    """Check this machine; with a study, check everything that it needs and nothing else."""
    found = list(_base())
    if study is None:
        found += packages([*arm_kinds(), *encoder_kinds()], "note")
        found += [_finding(module, f"for {purpose}", "note") for module, purpose in TOOLS.items()]
    else:
        plan = Plan.of(study)
        settings = _settings(plan.study)
        found += packages([type(each) for each in settings.values()], "missing")
        found += _variables(settings)
        found += _files(plan.study, settings, plan.base)
    return [*found, *_plugins(), _disk()]


def print_findings(findings: Iterable[Finding]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        state = Text(finding.state if finding.state != "note" else "", STYLES[finding.state])
        table.add_row(Text(finding.what), state, Text(finding.detail))
    Console().print(table)


# -- this machine ------------------------------------------------------------------------------------


def _base() -> Iterator[Finding]:
    yield Finding("genmix", "ok", __version__)
    yield Finding("Python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield Finding("numpy", "ok", f"{np.__version__}, {_threads()}")


def _threads() -> str:
    """Describe the number of threads that linear algebra uses."""
    if is_installed("threadpoolctl"):
        pools = importlib.import_module("threadpoolctl").threadpool_info()
        counts = {pool["num_threads"] for pool in pools if pool.get("user_api") == "blas"}
        if counts:
            return counted(max(counts), "BLAS thread")
    return f"OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS', 'unset')}, {os.cpu_count()} cores"


def _disk() -> Finding:
    here = Path.cwd()
    free = shutil.disk_usage(here).free
    words = f"{free / 2**30:.1f} GiB free in {here}"
    if free < FULL:
        return Finding(
            "disk", "missing", f"{words}; free some space, because runs are written there."
        )
    return Finding("disk", "ok", words)


# -- packages ----------------------------------------------------------------------------------------


def packages(kinds: Iterable[type[Any]], absent: State) -> list[Finding]:
    """Return one finding per module that these kinds need, and one for the GPU if they need torch."""
    users: dict[str, list[type[Any]]] = {}
    for kind in dict.fromkeys(kinds):
        for module in kind.needs:
            users.setdefault(module, []).append(kind)
    found = [_package(module, using, absent) for module, using in sorted(users.items())]
    if "torch" in users and is_installed("torch"):
        found.append(_gpu(absent))
    return found


def _plugins() -> Iterator[Finding]:
    """Yield one finding per plugin from an installed package."""
    plugins = (*arm_plugins(), *encoder_plugins(), *objective_plugins(), *policy_plugins())
    for plugin in plugins:
        what = f"{plugin.group}: {plugin.name}"
        if plugin.problem is None:
            yield Finding(what, "ok", f"from {plugin.package}")
        else:
            yield Finding(what, "broken", plugin.problem)


def _package(module: str, users: list[type[Any]], absent: State) -> Finding:
    purpose = f"for {listed(dict.fromkeys(kind for user in users for kind in kinds_of(user)))}"
    return _finding(module, purpose, absent)


def _finding(module: str, purpose: str, absent: State) -> Finding:
    if not is_installed(module):
        how = f"not installed; run: pip install {package_of(module)} ({purpose})"
        return Finding(module, absent, how)
    return Finding(module, "ok", f"{_version(module)} ({purpose})")


def _version(module: str) -> str:
    try:
        return metadata.version(package_of(module))
    except metadata.PackageNotFoundError:  # its package has another name; listing all is slow
        names = metadata.packages_distributions().get(module.split(".")[0])
        return metadata.version(names[0]) if names else "installed"


def _gpu(absent: State) -> Finding:
    try:
        torch = importlib.import_module("torch")
        if not torch.cuda.is_available():
            return Finding("GPU", "note", "no CUDA device; models run on the CPU")
        name, total = (
            torch.cuda.get_device_name(0),
            torch.cuda.get_device_properties(0).total_memory,
        )
    except Exception as error:  # a broken installation can fail in many ways
        return Finding("GPU", absent, f"torch does not work ({type(error).__name__}: {error})")
    return Finding("GPU", "ok", f"{name}, {total / 2**30:.0f} GiB")


# -- what a study needs ------------------------------------------------------------------------------


def _settings(study: Study) -> dict[str, BaseModel]:
    """Return the settings for the arms and the encoder, keyed by the names that findings use."""
    found: dict[str, BaseModel] = {f"arm {label!r}": arm for label, arm in study.arms.items()}
    return found if study.encoder is None else found | {"encoder": study.encoder}


def _variables(settings: Mapping[str, BaseModel]) -> list[Finding]:
    """Check that the environment variables that the study names are set; never show their values."""
    users: dict[str, list[str]] = {}
    for owner, each in settings.items():
        for key, value in each.model_dump().items():
            if key == "env" or key.endswith("_env"):
                for name in [value] if isinstance(value, str) else value or ():
                    users.setdefault(name, []).append(owner)
    return [_variable(name, using) for name, using in users.items()]


def _variable(name: str, users: list[str]) -> Finding:
    if os.environ.get(name):
        return Finding(f"${name}", "ok", f"set ({listed(users)})")
    return Finding(f"${name}", "missing", f"not set; set it to the secret ({listed(users)})")


def _files(study: Study, settings: Mapping[str, BaseModel], folder: Path) -> list[Finding]:
    """Check that the files, folders, programs and modules that the study names exist."""
    found = [_file("reference", path, folder) for path in reference_paths(study)]
    for owner, each in settings.items():
        for key, value in each.model_dump().items():
            what = f"{key} of {owner}"
            if _is_path(key, value):
                found.append(_file(what, value, folder))
            elif key == "function":
                found.append(_module(what, value, folder))
            elif key == "command":
                found.append(_program(what, value[0], folder))
    return found


def _is_path(key: str, value: Any) -> bool:
    if key == "model":  # it may also be a name on a hub or at an endpoint
        return str(value).startswith(("./", "../", "/", "~"))
    return isinstance(value, str) and (key in FILE_KEYS or key.endswith("_file"))


def _file(what: str, path: str, folder: Path) -> Finding:
    place = resolved(path, folder)
    if place.exists():
        return Finding(what, "ok", path)
    return Finding(what, "missing", f"{place} does not exist; check the path")


def _module(what: str, function: str, folder: Path) -> Finding:
    top = function.partition(":")[0].partition(".")[0]
    if any(place.exists() for place in (folder / f"{top}.py", folder / top)) or is_installed(top):
        return Finding(what, "ok", function)
    return Finding(what, "missing", f"the module {top} is neither in {folder} nor installed")


def _program(what: str, program: str, folder: Path) -> Finding:
    found = shutil.which(folder / program if os.sep in program else program)
    if found is not None:
        return Finding(what, "ok", str(found))
    return Finding(
        what, "missing", f"the program {program} was not found; install it, or correct its name"
    )
