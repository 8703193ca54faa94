"""Tables in Markdown pages, generated between two marker comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from stablemiss.experiments.comparison import Cell, Comparison
from stablemiss.report.summary import Summary
from stablemiss.report.text import (
    as_percent,
    axis_title,
    column_titles,
    decimals_for,
    instances_text,
    number,
    reference_title,
    table_title,
    title_of,
)
from stablemiss.writing import atomic_write, check_can_write

# Characters with a meaning in Markdown or HTML.
SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")
MARKS = {"best": "**{}**", "second": "_{}_", "": "{}"}


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], align: str = "---") -> str:
    """A table in Markdown.

    Parameters
    ----------
    header : sequence of str
        Titles of the columns.
    rows : iterable of sequences of str
        Cells of each row.
    align : str, default="---"
        Alignment of all columns except the first; "--:" aligns right.

    Examples
    --------
    >>> print(markdown_table(["method", "rmse"], [["ols", "1.5"]]))
    | method | rmse |
    | --- | --- |
    | ols | 1.5 |
    """
    lines = [header, ["---", *[align] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_block(path: str | Path, name: str, text: str) -> Path:
    """Replace the text between the markers `name` of a page, and nothing else.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     page = Path(folder) / "page.md"
    ...     _ = page.write_text("# Title\\n<!-- cost: begin -->\\nold\\n<!-- cost: end -->\\n")
    ...     write_block(page, "cost", "new").read_text().splitlines()
    ['# Title', '<!-- cost: begin -->', 'new', '<!-- cost: end -->']
    """
    before, _, after = split_page(path, name)
    with atomic_write(path) as unfinished:
        unfinished.write_text(f"{before}\n{text}\n{after}", encoding="utf-8")
    return Path(path)


def split_page(path: str | Path, name: str) -> tuple[str, str, str]:
    """A page up to the first marker `name`, the text between the two markers, and the rest."""
    check_can_write(path)
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = Path(path).read_text(encoding="utf-8")
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(f"{path} must contain the line {begin} once and, after it, the line {end} once.")
    before, rest = page.split(begin)
    block, after = rest.split(end)
    return before + begin, block.strip("\n"), end + after


def reproduction_markdown(summary: Summary) -> str:
    """All tables at a glance, head-to-head results, every table with published numbers, and the settings."""
    return "\n\n".join(
        [
            "## All tables at a glance",
            "The relative gap (gap divided by the reference's RMSE), mean over a table's columns; in "
            "brackets as published. **Bold**: best; _italic_: second best; the paper's methods and the "
            "others are ranked separately.",
            _overview(summary),
            "## StableMiss against each method",
            "First number: the columns, over all tables, in which StableMiss has the smaller gap. Other "
            "numbers: tables, of those with several instances, in which its RMSE is clearly lower, clearly "
            "higher, or neither; clearly means that the 95% interval of paired differences excludes zero.",
            markdown_table(
                ["method", "smaller gap in", "clearly lower", "clearly higher", "neither"],
                [
                    [title_of(result.label), f"{result.n_won} of {result.n}", *map(str, result.clear)]
                    for result in summary.head_to_head
                ],
                "--:",
            ),
            "## Every table",
            "RMSE minus the reference's RMSE, mean over instances; in brackets as published. \\*: tested as "
            "trained; †: worse than predicting the mean.",
            *map(_comparison, summary.comparisons),
            "## What was run",
            "\n".join(f"- {_escape(name)}: {_escape(value)}" for name, value in summary.settings),
        ]
    )


def _overview(summary: Summary) -> str:
    rows = []
    for label, relative_gaps in [*summary.overview_lines(True), *summary.overview_lines(False)]:
        cells = []
        for cell in relative_gaps:
            published = f" ({as_percent(cell.published)})" if cell and cell.published is not None else ""
            cells.append(MARKS[cell.mark].format(as_percent(cell.ours)) + published if cell else "–")
        rows.append([title_of(label), *cells])
    titles = [table_title(comparison.table.name) for comparison in summary.tables]
    return markdown_table(["", *titles], rows, "--:")


def _comparison(comparison: Comparison) -> str:
    decimals = decimals_for(reference.rmse for reference in comparison.references)
    published_decimals = decimals_for(reference.published for reference in comparison.references)
    rows = [
        [title_of(line.label), *(_cell(cell, decimals, published_decimals) for cell in line.cells)]
        for line in comparison.lines
    ]
    last_row = [f"{reference_title(comparison)}, RMSE"]
    for reference in comparison.references:
        text = number(reference.rmse, decimals)
        if reference.published is not None:
            mark = "†" if reference.published_is_worse_than_constant else ""
            text += f" ({number(reference.published, published_decimals)}{mark})"
        last_row.append(text)
    table = markdown_table([axis_title(comparison), *column_titles(comparison)], [*rows, last_row], "--:")
    title, claim = _escape(comparison.table.title), _escape(comparison.table.claim)
    return (
        f"### {table_title(comparison.table.name)}: {title}\n\n"
        f"The paper: {claim} Instances here: {instances_text(comparison)}.\n\n{table}"
    )


def _cell(cell: Cell | None, decimals: int, published_decimals: int) -> str:
    if cell is None:
        return "–"
    text = MARKS[cell.mark].format(number(cell.gap, decimals))
    text += ("\\*" if cell.is_as_trained else "") + ("†" if cell.is_worse_than_constant else "")
    if cell.published is None:
        return text
    mark = "†" if cell.published_is_worse_than_constant else ""
    published = MARKS[cell.published_mark].format(number(cell.published, published_decimals))
    return f"{text} ({published}{mark})"


def _escape(text: str) -> str:
    return SPECIAL.sub(r"\\\1", text)
