"""Tables in Markdown pages, generated between two marker comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from stablemiss.experiments.array_comparison import ArrayComparison
from stablemiss.experiments.comparison import GROUPS, Cell, Comparison, Pair, Published
from stablemiss.report.claims import RULES, Lead
from stablemiss.report.rules import RULES_OF_COMPARISON
from stablemiss.report.summary import Summary
from stablemiss.report.text import (
    LONG_TRAINING,
    array_instances_text,
    array_line_title,
    array_notes,
    as_percent,
    axis_title,
    column_titles,
    decimals_for,
    instances_text,
    interval_text,
    number,
    range_text,
    reference_title,
    signed_percent,
    table_title,
    title_of,
)
from stablemiss.report.verdict import verdict
from stablemiss.report.weights import RowWeights
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


def rules_markdown() -> str:
    """The rules of the comparison."""
    return "\n\n".join(
        markdown_table([group, "rule"], [[name, _escape(rule)] for name, rule in rules.items()])
        for group, rules in RULES_OF_COMPARISON.items()
    )


def reproduction_markdown(summary: Summary) -> str:
    """The verdict, all tables at a glance, claims, pairs, every table with published numbers, settings."""
    return "\n\n".join(
        [
            _escape(verdict(summary)),
            "## All tables at a glance",
            "The relative gap (gap divided by the reference's RMSE), mean over a table's columns; in "
            "brackets as published. **Bold**: best; _italic_: second best; the paper's methods and the "
            "others are ranked separately.",
            _overview(summary),
            "## The paper's claims",
            _claims(summary),
            markdown_table(["", "rule"], [[name, _escape(rule)] for name, rule in RULES.items()]),
            "## StableMiss against each method",
            *_head_to_head(summary),
            "## Every table",
            "RMSE minus the reference's RMSE, mean over instances; in brackets as published. \\*: tested as "
            "trained; †: worse than predicting the mean."
            + (" Tables 4 and 5 show RMSEs instead, without these marks." if summary.arrays else ""),
            *(
                _array_comparison(one) if isinstance(one, ArrayComparison) else _comparison(one)
                for one in summary.in_order
            ),
            *_row_weights(summary),
            *_long_trainings(summary),
            "## What was run",
            markdown_table(["", "value"], [list(map(_escape, setting)) for setting in summary.settings]),
        ]
    )


def _overview(summary: Summary) -> str:
    rows = []
    for label, relative_gaps in (line for group in GROUPS for line in summary.overview_lines(group)):
        cells = []
        for cell in relative_gaps:
            if cell is None or cell.ours is None:
                cells.append("–")
                continue
            published = f" ({as_percent(cell.published)})" if cell.published is not None else ""
            cells.append(MARKS[cell.mark].format(as_percent(cell.ours)) + published)
        rows.append([title_of(label), *cells])
    titles = [table_title(comparison.table.name) for comparison in summary.tables]
    return markdown_table(["", *titles], rows, "--:")


def _array_comparison(comparison: ArrayComparison) -> str:
    """A table of images or sensor networks, with its title."""
    rows = []
    for line in comparison.lines:
        cells = []
        for cell, published in zip(line.cells, line.published, strict=True):
            ours = "–" if cell is None else MARKS[cell.mark].format(number(cell.rmse, 2))
            ours += "‡" if cell is not None and cell.is_partial else ""
            cells.append(ours + (f" ({number(published, 2)})" if published is not None else ""))
        rows.append([array_line_title(line), *cells])
    table = comparison.table
    return "\n\n".join(
        [
            f"### {table_title(table.name)}: {table.title}",
            f"{table.unit}, mean over {array_instances_text(comparison)}"
            + ("." if table.published is None else "; in brackets as published.")
            + (f" {table.explanation}" if table.explanation else ""),
            markdown_table(["", *(column.title for column in comparison.columns)], rows, "--:"),
            "**Bold**: best; _italic_: second best. " + " ".join(array_notes(comparison)),
        ]
    )


def _claims(summary: Summary) -> str:
    rows = []
    for claim in summary.claims:
        text = _escape(claim.text) + (f" _With {claim.form}._" if claim.form else "")
        leads = (claim.measured, claim.published)
        rows.append(
            [
                table_title(claim.name),
                claim.verdict,
                text,
                *(f"{lead.n_first} of {lead.n}" if lead else "–" for lead in leads),
                *(_lead(lead) for lead in leads),
            ]
        )
        if claim.largest_change is not None:
            rows[-1][5] += f"; in a column at most {as_percent(claim.largest_change)}"
    header = [
        "",
        "verdict",
        "the paper's claim",
        "lowest in",
        "in print",
        "RMSE against the best other",
        "in print",
    ]
    return markdown_table(header, rows)


def _lead(lead: Lead | None) -> str:
    if lead is None:
        return "–"
    return f"{signed_percent(lead.mean)} {interval_text(lead.interval)} {title_of(lead.best_other)}".replace(
        "  ", " "
    )


def _head_to_head(summary: Summary) -> Iterable[str]:
    yield (
        "First number: the columns, over all tables but 4 and 5, in which StableMiss has the smaller gap. "
        "Other numbers: tables, of those with several instances, in which its RMSE is clearly lower, clearly "
        "higher, or neither; clearly means that the 95% interval of paired differences excludes zero."
    )
    yield markdown_table(
        ["method", "smaller gap in", "clearly lower", "clearly higher", "neither"],
        [
            [title_of(result.label), f"{result.n_won} of {result.n}", *map(str, result.clear)]
            for result in summary.head_to_head
        ],
        "--:",
    )
    yield (
        "RMSE of StableMiss relative to each method's, minus one, on the same rows (below zero, StableMiss "
        "is better): mean over the columns of a table, and its 95% interval over instances."
    )
    labels = [result.label for result in summary.head_to_head]
    pairs = [{pair.label: pair for pair in comparison.pairs} for comparison in summary.tables]
    titles = [table_title(comparison.table.name) for comparison in summary.tables]
    rows = [[title_of(label), *(_pair(by_label.get(label)) for by_label in pairs)] for label in labels]
    yield markdown_table(["method", *titles], rows, "--:")


def _pair(pair: Pair | None) -> str:
    return "–" if pair is None else f"{signed_percent(pair.mean)} {interval_text(pair.interval)}".strip()


def _row_weights(summary: Summary) -> Iterable[str]:
    """One table for the tables, and one for the figures, whose methods are others."""
    yield "## Row weights"
    yield (
        "Effective share of the rows: effective sample size under the fitted row weights, divided by the "
        "number of rows; 100% for equal weights. Mean over the records of a table. In brackets, the chosen γ "
        "and the critical γ above which weights stay equal, smallest and largest."
    )
    for comparisons in (summary.tables, summary.figures):
        weights = {
            comparison.table.name: {one.label: one for one in summary.weights[comparison.table.name]}
            for comparison in comparisons
        }
        labels = dict.fromkeys(label for by_label in weights.values() for label in by_label)
        if labels:
            rows = [
                [title_of(label), *(_share(by_label.get(label)) for by_label in weights.values())]
                for label in labels
            ]
            yield markdown_table(["method", *map(table_title, weights)], rows, "--:")


def _share(weights: RowWeights | None) -> str:
    if weights is None or weights.share is None:
        return "–"
    gamma = (
        weights.gamma and f" (γ {range_text(weights.gamma)}, critical {range_text(weights.critical_gamma)})"
    )
    return as_percent(weights.share) + (gamma or "")


def _long_trainings(summary: Summary) -> Iterable[str]:
    if not summary.long_trainings:
        return
    yield "## Trained as published"
    yield _escape(LONG_TRAINING)
    for training in summary.long_trainings:
        comparison = training.as_published
        decimals = decimals_for(reference.rmse for reference in comparison.references)
        published_decimals = decimals_for(reference.published for reference in comparison.references)
        rows = []
        for line in training.lines:
            title = title_of(line.label)
            rows.append([f"{title}, stopped early", *_gaps(line.stopped, decimals)])
            rows.append([f"{title}, 1000 epochs", *_gaps(line.as_published, decimals)])
            if any(line.published):
                rows.append([f"{title}, in print", *_gaps(line.published, published_decimals)])
        for name, errors in training.references:
            values = [
                number(error, published_decimals if name == "in print" else decimals) for error in errors
            ]
            rows.append([f"{reference_title(comparison)}, RMSE, {name}", *values])
        table = markdown_table([axis_title(comparison), *column_titles(comparison)], rows, "--:")
        yield f"### {table_title(training.table.name)}, trained as published\n\n{table}"


def _gaps(cells: Sequence[Cell | None] | Sequence[Published | None], decimals: int) -> list[str]:
    return [number(cell.gap if cell else None, decimals) for cell in cells]


def _comparison(comparison: Comparison) -> str:
    decimals = decimals_for(reference.rmse for reference in comparison.references)
    published_decimals = decimals_for(reference.published for reference in comparison.references)
    rows = [
        [
            title_of(line.label),
            *(
                _cell(cell, published, decimals, published_decimals)
                for cell, published in zip(line.cells, line.published, strict=True)
            ),
        ]
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


def _cell(cell: Cell | None, published: Published | None, decimals: int, published_decimals: int) -> str:
    if cell is None:
        return "–"
    text = MARKS[cell.mark].format(number(cell.gap, decimals))
    text += ("\\*" if cell.is_as_trained else "") + ("†" if cell.is_worse_than_constant else "")
    if published is None:
        return text
    mark = "†" if published.is_worse_than_constant else ""
    return f"{text} ({MARKS[published.mark].format(number(published.gap, published_decimals))}{mark})"


def _escape(text: str) -> str:
    return SPECIAL.sub(r"\\\1", text)
