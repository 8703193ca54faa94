"""`stablemiss tune`: a file with holes in, the hyper-parameters that predict it best out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.cli.files import check_readable
from stablemiss.cli.fit import (
    Category,
    Classify,
    Data,
    Ignore,
    MethodName,
    Params,
    Target,
    read_params,
    read_rows,
)
from stablemiss.progress import NullProgress, ProgressBar
from stablemiss.writing import check_folder, whole_file

if TYPE_CHECKING:
    from stablemiss.tuning import Trial

# Trials that are shown, the best first.
SHOWN = 5


def tune(
    data: Data,
    target: Target,
    method: MethodName = "boosting",
    trials: Annotated[
        int, typer.Option(help="Trials in all, those already in the study included.", min=1)
    ] = 50,
    study: Annotated[
        Path | None,
        typer.Option(
            help="File to keep trials in: run the command again to go on, or several times at once to share.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "--out", help="Where to write the best hyper-parameters, as JSON.")
    ] = Path("params.json"),
    params: Params = None,
    classify: Classify = None,
    ignore: Ignore = None,
    category: Category = None,
    jobs: Annotated[int, typer.Option(help="Trials at a time; -1 for one on each core.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which no further trial begins.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed tries the same.", min=0)] = 0,
) -> None:
    """Search a method's hyper-parameters: each trial is fitted to most rows and judged on the others."""
    with plain_errors():
        check_readable(data)
        check_folder(output)
        settings = read_params(params)
        rows = read_rows(data, target, classify, ignore or [], category or [])

        from stablemiss.estimators import MissingClassifier, MissingRegressor
        from stablemiss.tuning import tune as search

        kind = MissingClassifier if rows.classify else MissingRegressor
        tuned = search(
            kind(method=method, params=settings),
            rows.features,
            rows.target,
            n_trials=trials,
            study=study,
            random_state=seed,
            n_jobs=jobs,
            timeout=timeout,
            # Into a file a bar would leave nothing but empty lines.
            progress=ProgressBar() if sys.stderr.isatty() else NullProgress(),
        )
        measure = "log loss" if rows.classify else "RMSE in standard deviations of the target"
        typer.echo(f"{len(tuned.trials)} trials of {method}, by {measure} on held-out rows:")
        for line in trial_lines(tuned.trials):
            typer.echo(line)
        with whole_file(output) as unfinished:
            unfinished.write_text(json.dumps(tuned.params, indent=2) + "\n")
        typer.echo(f"Parameters: {output}")


def trial_lines(trials: list[Trial]) -> list[str]:
    """The best trials, the one to compare with, and how many failed, a line each.

    Examples
    --------
    >>> from stablemiss.tuning import Trial
    >>> given = Trial(0, {"ridge": 1.0}, 0.5, None, 1.2, is_given=True)
    >>> print(*trial_lines([given, Trial(1, {"ridge": 0.1}, 0.4, None, 1.1, is_given=False)]), sep="\\n")
      0.4  {"ridge": 0.1}
      0.5  {"ridge": 1.0}  as given
    """
    ended = sorted((trial for trial in trials if trial.loss is not None), key=lambda trial: trial.loss or 0.0)
    shown = [trial for place, trial in enumerate(ended) if place < SHOWN or trial.is_given]
    lines = [
        f"  {trial.loss:.4g}  {json.dumps(_rounded(trial.params))}{'  as given' if trial.is_given else ''}"
        for trial in shown
    ]
    failures = [trial for trial in trials if trial.failure is not None]
    if failures:
        lines.append(f"  {len(failures)} failed, the first with: {failures[0].failure}")
    return lines


def _rounded(params: dict[str, Any]) -> dict[str, Any]:
    return {
        name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in params.items()
    }
