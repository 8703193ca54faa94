"""Rows of the reproduction → the part of a Markdown page that no hand writes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.compare import Row
from stablemiss.report.comparison import (
    as_percent,
    axis_of,
    decimals_of,
    exhibit_of,
    instances_of,
    number,
    reference_of,
    title_of,
)
from stablemiss.report.reproduction import summarise_reproduction
from stablemiss.report.tables import percent
from stablemiss.report.verdicts import STAND_IN
from stablemiss.writing import check_folder, whole_file

BEGIN, END = "<!-- reproduction: begin -->", "<!-- reproduction: end -->"
# What Markdown or HTML would take for its own.
SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")
MARKS = {"best": "**{}**", "second": "_{}_", "": "{}"}


def reproduction_markdown(rows: Iterable[Row], budget: Budget) -> str:
    """What held and what did not, and a table "ours (published)" for each table and figure.

    Parameters
    ----------
    rows, budget
        See `stablemiss.report.reproduction.summarise_reproduction`.

    Examples
    --------
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> from stablemiss.experiments.patterns import pattern_rows
    >>> reproduction_markdown(pattern_rows("quick"), BUDGETS["quick"]).splitlines()[0]
    '## What held, and what did not'
    """
    summary = summarise_reproduction(rows, budget)
    parts = ["## What held, and what did not"]
    for finding in summary["findings"]:
        answers = "\n".join(f"- {_escape(sentence)}" for sentence in finding["answers"])
        parts.append(f"**{_escape(finding['question'])}**\n\n{answers}")
    if summary["overview"]["names"]:
        parts.append(
            "## All tables at a glance (published)\n\n"
            "The gap as a share of the reference's RMSE, mean over a table's columns; in brackets as "
            "printed. **Bold**: best; _italic_: second best, of the paper's methods and, apart from them, of "
            "those beside."
        )
        parts.append(_overview(summary["overview"]))
    parts.append("## Every table (published)")
    parts.append(
        "RMSE minus the reference's RMSE, mean over instances, in brackets what the paper prints. \\*: "
        f"tested as trained; †: worse than predicting the mean. {_escape(STAND_IN)}"
    )
    parts += [_table(comparison) for comparison in summary["comparisons"]]
    parts.append("## What was run")
    parts.append("\n".join(f"- {_escape(name)}: {_escape(value)}" for name, value in summary["settings"]))
    return "\n\n".join(parts)


def check_page(path: str | Path) -> None:
    """Raise, in one sentence, where a page has no place for the generated part, before writing."""
    check_folder(path)
    _around(path)


def write_block(text: str, path: str | Path) -> Path:
    """Put `text` between the marks of the page at `path`; all else in it stays as it is.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     page = Path(folder) / "page.md"
    ...     _ = page.write_text(f"# Title\\n{BEGIN}\\nold\\n{END}\\n")
    ...     write_block("new", page).read_text().splitlines()
    ['# Title', '<!-- reproduction: begin -->', 'new', '<!-- reproduction: end -->']
    """
    before, after = _around(path)
    with whole_file(path) as unfinished:
        unfinished.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    return Path(path)


def _around(path: str | Path) -> tuple[str, str]:
    page = Path(path).read_text(encoding="utf-8")
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"{path} should hold the line {BEGIN} once and, after it, the line {END} once.")
    before, rest = page.split(BEGIN)
    return before, rest.split(END)[1]


def _overview(found: dict[str, Any]) -> str:
    lines = [
        ["", *(exhibit_of(name) for name in found["names"])],
        ["---", *("--:" for _ in found["names"])],
    ]
    for line in found["lines"]:
        cells = []
        for cell in line["cells"]:
            if cell is None:
                cells.append("–")
                continue
            printed = cell["published_share"]
            brackets = "" if printed is None else f" ({as_percent(printed)})"
            cells.append(MARKS[cell["mark"]].format(as_percent(cell["share"])) + brackets)
        lines.append([title_of(line["label"]), *cells])
    return _to_table(lines)


def _to_table(lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _table(comparison: dict[str, Any]) -> str:
    ours = decimals_of(comparison["reference"]["rmse"])
    theirs = decimals_of(comparison["reference"]["published"])
    lines = [
        [axis_of(comparison), *(percent(column["level"]) for column in comparison["columns"])],
        ["---", *("--:" for _ in comparison["columns"])],
    ]
    for line in comparison["lines"]:
        lines.append([title_of(line["label"]), *(_cell(cell, ours, theirs) for cell in line["cells"])])
    reference = comparison["reference"]
    marks = ["†" if worse else "" for worse in reference["published_is_worse_than_constant"]]
    found = zip(reference["rmse"], reference["published"], marks, strict=True)
    lines.append(
        [
            f"{reference_of(comparison)}, RMSE",
            *(
                number(rmse, ours) + ("" if printed is None else f" ({number(printed, theirs)}{mark})")
                for rmse, printed, mark in found
            ),
        ]
    )
    return (
        f"### {exhibit_of(comparison['name'])}: {_escape(comparison['title'])}\n\n"
        f"The paper says: {_escape(comparison['claim'])} Instances here: {instances_of(comparison)}.\n\n"
        f"{_to_table(lines)}"
    )


def _cell(cell: dict[str, Any] | None, ours: int, theirs: int) -> str:
    if cell is None:
        return "–"
    text = MARKS[cell["mark"]].format(number(cell["gap"], ours))
    text += ("\\*" if cell["is_as_trained"] else "") + ("†" if cell["is_worse_than_constant"] else "")
    if cell["published"] is None:
        return text
    mark = "†" if cell["published_is_worse_than_constant"] else ""
    return f"{text} ({MARKS[cell['published_mark']].format(number(cell['published'], theirs))}{mark})"


def _escape(sentence: str) -> str:
    return SPECIAL.sub(r"\\\1", sentence)
