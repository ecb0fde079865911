"""The tables of an item as LaTeX."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from genmix.cli import app
from genmix.paper import ITEMS, Item, ItemOutput, Settings
from genmix.paper.markdown import latex, latex_tables, table

RESULTS = Path(__file__).parents[2] / "docs" / "paper" / "results"

UNESCAPED = re.compile(r"(?<!\\)[%#]|(?<!\\)_")


def test_a_table_has_the_columns_and_alignment_of_the_markdown() -> None:
    text = "## A & B\n\n" + table(["arm", "FD ↓"], [["a|b", "1.2 ± 0.1"], ["50%", "–"]])
    assert latex_tables(f"{text}\n\nSome words.\n") == (
        "\\begin{table}\n"
        "  \\centering\n"
        "  \\caption{A \\& B}\n"
        "  \\begin{tabular}{lr}\n"
        "    \\toprule\n"
        "    arm & FD $\\downarrow$ \\\\\n"
        "    \\midrule\n"
        "    a\\textbar{}b & 1.2 $\\pm$ 0.1 \\\\\n"
        "    50\\% & -- \\\\\n"
        "    \\bottomrule\n"
        "  \\end{tabular}\n"
        "\\end{table}\n"
    )
    assert latex_tables("# Only words\n\nNo table.\n") == ""


def test_special_characters_and_emphasis() -> None:
    assert latex(r"a\b_c{d}^~$") == (
        r"a\textbackslash{}b\_c\{d\}\textasciicircum{}\textasciitilde{}\$"
    )
    assert latex("**worse** by `δ_L`") == r"\textbf{worse} by \texttt{$\delta$\_L}"
    assert latex("[1, 2]") == "{}[1, 2]"  # otherwise it would be an argument of the line break


@pytest.mark.parametrize("page", sorted(RESULTS.glob("*.md")), ids=lambda page: page.stem)
def test_the_published_tables_become_valid_latex(page: Path) -> None:
    found = latex_tables(page.read_text("utf-8"))
    assert found
    assert found.count("{") - found.count("\\{") == found.count("}") - found.count("\\}")
    assert len(re.findall(r"(?<!\\)\$", found)) % 2 == 0
    assert not UNESCAPED.search(found)
    assert found.isascii() or set(re.findall(r"[^\x00-\x7f]", found)) <= set("éö")
    for columns, body in re.findall(r"tabular}{([lr]+)}\n(.*?)\\end", found, re.DOTALL):
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert len(rows) >= 2
        assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(columns)}


def test_the_command_writes_them_also_for_an_item_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(_: Settings) -> ItemOutput:
        made.append(1)
        return ItemOutput({}, {}, table(["arm", "δ"], [["one", "0.5"]]))

    made: list[int] = []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "worlds").mkdir()
    monkeypatch.setenv("GENMIX_WORLDS", str(tmp_path / "worlds"))
    monkeypatch.setitem(ITEMS, "small", Item("small", "t", "n", "s", "", make))
    for options, files in (([], ["README.md"]), (["--latex"], ["README.md", "tables.tex"])):
        result = CliRunner().invoke(app, ["paper", "small", "--json", *options])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)[0]["files"] == files
    assert len(made) == 1
    written = (tmp_path / "paper" / "small" / "tables.tex").read_text()
    assert written.startswith("% needs \\usepackage{booktabs}\n\n\\begin{table}")
    assert r"one & 0.5 \\" in written
