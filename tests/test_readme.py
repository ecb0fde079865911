"""The README's example runs and prints what the README says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_ten_lines_print_what_they_promise() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(import numpy.*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    assert found is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found.group(1), {})
    weights, score, gap = printed.getvalue().splitlines()
    promised_weights, promised_score, promised_gap = found.group(2).splitlines()
    assert weights == promised_weights
    assert score == promised_score
    # The gap is rounding's to choose; its order of magnitude is promised.
    assert float(gap.removeprefix("gap ")) < 1e-7
    assert float(promised_gap.removeprefix("gap ")) < 1e-7


def test_every_link_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_pages_that_include_a_file_name_it_for_readers_of_plain_markdown() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    included = [(page, file) for page in pages for file in re.findall(r'--8<-- "(.*)"', page)]
    assert included
    for page, file in included:
        assert (ROOT / file).exists()
        assert f"`{file}`" in page


def test_the_guide_shows_the_example_as_it_is() -> None:
    example = (ROOT / "examples" / "python_first.py").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "guide" / "python-first.md").read_text(encoding="utf-8")
    assert f"```python\n{example}```" in page
