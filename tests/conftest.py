"""Nothing of a test lands outside its own folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Embeddings are cached in a folder of the test session, not in the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_CACHE", str(folder))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("GENMIX_REPORT", "off")  # the tests of the report ask for it
        yield folder


@pytest.fixture(scope="module")
def with_reports() -> Iterator[None]:
    """Runs end with their report, as they do for users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GENMIX_REPORT", raising=False)
        yield
