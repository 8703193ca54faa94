"""Ours beside the paper's on a terminal, and the words and numbers that every view of it shares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stablemiss.experiments.published import NAMES
from stablemiss.report.tables import percent
from stablemiss.report.terminal import STYLE, print_whole

# Label → what people call it; the paper's methods have the paper's names. No commas: names stand in lists.
TITLES = {
    **NAMES,
    "stablemiss_full": "StableMiss full",
    "stablemiss_intra": "StableMiss only intra",
    "stablemiss_inter": "StableMiss only inter",
    "stablemiss_unweighted": "StableMiss unweighted",
    "ols": "OLS",
    "em_mixture": "EM mixture",
    "boosting": "LightGBM",
    "boosting_masked_copies": "LightGBM on masked copies",
    "anymask": "AnyMask",
    "optimal": "Optimal",
}


def print_comparison(comparison: dict[str, Any], console: Console | None = None) -> None:
    """Print what `stablemiss.experiments.compare.compare` returned, every number whole, however narrow.

    Parameters
    ----------
    comparison : dict
        One table or figure.
    console : Console, optional
        Where to; standard output unless given.

    Examples
    --------
    >>> import io
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> from stablemiss.experiments.compare import compare
    >>> from stablemiss.experiments.exhibits import EXHIBITS
    >>> text = io.StringIO()
    >>> print_comparison(compare(EXHIBITS["table1"], [], BUDGETS["quick"]), Console(file=text, width=20))
    >>> ["Partial", "VAE", "–", "–", "–"] in [line.split() for line in text.getvalue().splitlines()]
    True
    """
    console = console or Console()
    print_whole(_view(comparison), console)
    for failure in comparison["failures"]:
        who = f"{title_of(failure['label'])}, instance {failure['instance']}"
        console.print(Text(f"failed: {who}: {failure['error']}"))


def title_of(label: str) -> str:
    """What people call a label.

    Examples
    --------
    >>> title_of("boosting"), title_of("constant")
    ('LightGBM', 'constant')
    """
    return TITLES.get(label, label)


def exhibit_of(name: str) -> str:
    """A table or figure as a sentence names it.

    Examples
    --------
    >>> exhibit_of("table11")
    'Table 11'
    """
    word = name.rstrip("0123456789")
    return f"{word.capitalize()} {name[len(word) :]}"


def reference_of(comparison: dict[str, Any]) -> str:
    """What gaps are taken from; the paper calls a StableMiss that is trained where it is tested "-ID"."""
    return title_of(comparison["reference_label"]) + ("-ID" if comparison["reference_in_place"] else "")


def instances_of(comparison: dict[str, Any]) -> str:
    """How many instances are behind the columns, such as "3", "1 of 3" or "1–3 of 3".

    Examples
    --------
    >>> instances_of({"instances": [[0], [], [0, 1]], "n_instances": 3})
    '1–2 of 3'
    """
    counts = [len(found) for found in comparison["instances"] if found] or [0]
    between = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)}–{max(counts)}"
    wanted = comparison["n_instances"]
    return between if min(counts) == wanted else f"{between} of {wanted}"


def axis_of(comparison: dict[str, Any]) -> str:
    """What the level above a column says: where was trained, tested, or both."""
    trained = {column["train_level"] for column in comparison["columns"]}
    tested = {column["test_level"] for column in comparison["columns"]}
    if len(trained) == 1:
        return "tested at"
    return "trained at" if len(tested) == 1 else "trained and tested at"


def decimals_of(references: Iterable[float | None]) -> int:
    """Enough to tell gaps apart, from the size of what they are taken from."""
    return 0 if max((rmse for rmse in references if rmse is not None), default=0.0) >= 100 else 2


def number(value: float | None, decimals: int) -> str:
    """A number with a true minus sign and no negative zero; a dash where there is none.

    Examples
    --------
    >>> number(-12.5, 1), number(-0.001, 2), number(None, 2)
    ('−12.5', '0.00', '–')
    """
    return "–" if value is None else f"{value:z.{decimals}f}".replace("-", "−")


def as_percent(share: float) -> str:
    """A measured share, to a tenth of a percent.

    Examples
    --------
    >>> as_percent(0.1234), as_percent(-0.02)
    ('12.3%', '−2.0%')
    """
    return f"{number(100 * share, 1)}%"


def _view(comparison: dict[str, Any]) -> Table:
    reference = reference_of(comparison)
    ours = decimals_of(comparison["reference"]["rmse"])
    theirs = decimals_of(comparison["reference"]["published"])
    view = Table(
        title=f"{exhibit_of(comparison['name'])}: {comparison['title']}\n"
        f"Gap to {reference} (RMSE minus {reference}'s)",
        caption="bold best, underlined second of its group, * as trained, † worse than constant",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    beside = next((line["label"] for line in comparison["lines"] if not line["is_of_the_paper"]), None)
    view.add_column(axis_of(comparison), no_wrap=True)
    for column in comparison["columns"]:
        view.add_column(percent(column["level"]), justify="right", no_wrap=True)
    for line in comparison["lines"]:
        cells = line["cells"]
        if line["label"] == beside:
            view.add_section()
        view.add_row(Text(title_of(line["label"])), *(_gap(cell, ours) for cell in cells))
        if any(cell and cell["published"] is not None for cell in cells):
            view.add_row("  published", *(_published(cell, theirs) for cell in cells), style="dim")
    view.add_section()
    view.add_row(f"{reference}, RMSE", *(number(rmse, ours) for rmse in comparison["reference"]["rmse"]))
    if any(rmse is not None for rmse in comparison["reference"]["published"]):
        printed = comparison["reference"]["published"]
        marks = [
            "†" if worse else "" for worse in comparison["reference"]["published_is_worse_than_constant"]
        ]
        cells = [number(rmse, theirs) + mark for rmse, mark in zip(printed, marks, strict=True)]
        view.add_row("  published", *cells, style="dim")
    if any(value is not None for value in comparison["agreement"]):
        view.add_row("rank agreement", *(number(value, 2) for value in comparison["agreement"]))
    return view


def _gap(cell: dict[str, Any] | None, decimals: int) -> Text:
    if cell is None:
        return Text("–")
    # Only the number carries the style: an underline must not run on into the padding or the marks.
    text = Text().append(number(cell["gap"], decimals), style=STYLE[cell["mark"]])
    marks = ("*" if cell["is_as_trained"] else "") + ("†" if cell["is_worse_than_constant"] else "")
    return text.append(marks)


def _published(cell: dict[str, Any] | None, decimals: int) -> Text:
    if cell is None:
        return Text("–")
    text = Text().append(number(cell["published"], decimals), style=STYLE[cell["published_mark"]])
    return text.append("†" if cell["published_is_worse_than_constant"] else "")
