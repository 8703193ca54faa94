"""Rows → one HTML file that needs nothing else: no network, no script, no fonts."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from stablemiss.report.plots import gap_plot
from stablemiss.report.summary import summarise
from stablemiss.report.tables import Row, percent
from stablemiss.writing import whole_file

if TYPE_CHECKING:
    from jinja2 import Environment


def check_can_render() -> None:
    """Raise, in one sentence, where jinja2 or matplotlib is not installed, before long work is lost."""
    absent = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if absent:
        raise ModuleNotFoundError(
            f'The HTML report needs {" and ".join(absent)}; install with: pip install "stablemiss[report]".'
        )


def environment() -> Environment:
    """Where templates are found, and what they may use."""
    check_can_render()
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("stablemiss.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = percent
    return made


def render_report(rows: Iterable[Row]) -> str:
    """One experiment as a page: findings in words, table, plot, settings, and the rows themselves.

    Parameters
    ----------
    rows : result rows
        Of one data set, mechanism and training level. The page carries them as a download, so that it can be
        rebuilt or checked from itself.

    Examples
    --------
    >>> row = {"dataset": "toy", "mechanism": "MAR", "train_level": 0.1, "test_level": 0.9, "optimal_rmse": 10.0,
    ...        "n_rows": 100, "n_test_rows": 50, "seed": 0, "config": {}, "fit_seconds": 0.1,
    ...        "versions": {"python": "3.11"}, "finished": "2025-01-01T00:00:00+00:00"}
    >>> page = render_report([{**row, "method": "a < b", "role": "method", "rmse": 12.0}])
    >>> "a &lt; b" in page
    True
    """
    rows = [dict(row) for row in rows]
    summary = summarise(rows)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            summary=summary,
            plot=gap_plot(summary["table"]),
            download="data:application/json;base64," + b64encode(json.dumps(rows).encode()).decode(),
        )
    )


def write_report(rows: Iterable[Row], path: str | Path) -> Path:
    """Write `render_report` to `path`; a file that was there is replaced only by a complete new one.

    Examples
    --------
    >>> row = {"dataset": "toy", "mechanism": "MAR", "train_level": 0.1, "test_level": 0.9, "optimal_rmse": 10.0,
    ...        "n_rows": 100, "n_test_rows": 50, "seed": 0, "config": {}, "fit_seconds": 0.1,
    ...        "versions": {"python": "3.11"}, "finished": "2025-01-01T00:00:00+00:00"}
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = write_report([{**row, "method": "ols", "role": "method", "rmse": 12}], folder + "/a.html")
    >>> path.name
    'a.html'
    """
    page = render_report(rows)
    with whole_file(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return Path(path)
