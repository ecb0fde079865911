"""The Markdown tables of an item as LaTeX, for use in a paper (with the package booktabs)."""

from __future__ import annotations

import re

SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "∞": r"$\infty$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "–": "--",
    "…": r"\ldots{}",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "η": r"$\eta$",
    "λ": r"$\lambda$",
    "σ": r"$\sigma$",
}
"""Characters that LaTeX cannot print as they are; all other characters are left to UTF-8 input."""

CELL = re.compile(r"(?<!\\)\|")
"""The border of a cell; a bar inside a cell is escaped."""


def latex_tables(text: str) -> str:
    """Return every Markdown table in the text as a ``table`` float, each with its heading as caption.

    The result is empty if there is no table.
    """
    found, heading, rows = [], "", list[str]()
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append(line)
            continue
        if rows:
            found.append(_table(rows, heading))
            rows = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
    return "\n\n".join(found) + "\n" if found else ""


def _table(lines: list[str], caption: str) -> str:
    head, rule, *rows = map(_cells, lines)
    columns = "".join("r" if cell.endswith(":") else "l" for cell in rule)
    body = [f"    {' & '.join(map(latex, row))} \\\\" for row in (head, *rows)]
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{latex(caption)}}}",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            body[0],
            r"    \midrule",
            *body[1:],
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in CELL.split(line.strip())[1:-1]]


def latex(text: str) -> str:
    """Escape text for LaTeX; ``**bold**`` becomes bold and ``code`` becomes typewriter text."""
    escaped = "".join(SPECIAL.get(character, character) for character in text)
    bold = re.sub(r"\*\*(.+?)\*\*", r"\\textbf{\1}", escaped)
    code = re.sub(r"`(.+?)`", r"\\texttt{\1}", bold)
    return f"{{}}{code}" if code.startswith("[") else code
