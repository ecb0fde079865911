"""Fixtures for the tests and for the examples in docstrings."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# A shell starts background jobs with SIGINT ignored, and child processes would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


TESTS = Path(__file__).parent / "tests"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Any:
    """Look for examples in the docstrings of the package only, not in those of the tests."""
    collectors = yield
    if TESTS not in file_path.parents:
        return collectors
    return [each for each in collectors if type(each) is pytest.Module]


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep cached embeddings in a folder of the test session instead of the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_CACHE", str(folder))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("GENMIX_REPORT", "off")  # the tests of the report turn it on
        yield folder


@pytest.fixture(autouse=True)
def doctest_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the examples in docstrings in a temporary folder."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))


@pytest.fixture(scope="module")
def with_reports() -> Iterator[None]:
    """Let runs write their report at the end, as they do for users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GENMIX_REPORT", raising=False)
        yield
