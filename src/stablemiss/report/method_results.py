"""The results of one method in all tables, for its page in the documentation."""

from __future__ import annotations

from stablemiss.report.markdown import markdown_table
from stablemiss.report.summary import Summary
from stablemiss.report.text import as_percent, table_title, title_of

# Method → the labels on its page, itself first.
SHOWN = {
    "partial_vae": ("partial_vae", "neumiss", "em_mixture"),
    "miwae": ("miwae", "neumiss", "em_mixture"),
    "p_bigan": ("p_bigan", "neumiss", "em_mixture"),
    "neumiss": ("neumiss", "stablemiss", "ols", "em_mixture"),
    "dwr": ("dwr", "ols", "stablemiss"),
    "srdo": ("srdo", "ols", "stablemiss"),
    "stablenet": ("stablenet", "ols", "stablemiss"),
    "stablemiss": ("stablemiss", "stablemiss_unweighted", "stablemiss_weighted", "neumiss", "ols"),
}


def method_results(summary: Summary, name: str) -> str:
    """Relative gaps of a method and of some others in every table, and the effective share of its rows.

    Parameters
    ----------
    summary : Summary
    name : str
        A key of `SHOWN`.
    """
    tables = [comparison.table.name for comparison in summary.tables]
    rows = []
    for label in SHOWN[name]:
        cells = [summary.overview.get(label, {}).get(table) for table in tables]
        rows.append(
            [
                title_of(label),
                *("–" if cell is None or cell.ours is None else as_percent(cell.ours) for cell in cells),
            ]
        )
    shares = [_effective_share(summary, name, table) for table in tables]
    if any(share is not None for share in shares):
        texts = ("–" if share is None else as_percent(share) for share in shares)
        rows.append([f"effective share of the rows, {title_of(name)}", *texts])
    return markdown_table(["", *map(table_title, tables)], rows, "--:")


def _effective_share(summary: Summary, name: str, table: str) -> float | None:
    """Mean effective sample size of a method's row weights in a table, divided by the number of rows."""
    return next((one.share for one in summary.weights.get(table, []) if one.label == name), None)
