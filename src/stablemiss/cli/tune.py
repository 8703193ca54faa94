"""`stablemiss tune`: search for the hyper-parameters of a method on the table in a file."""

from __future__ import annotations

import inspect
import json
import shlex
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stablemiss.cli.errors import plain_errors, rows_of_file
from stablemiss.cli.fit import fit, ignore_suspicious_data
from stablemiss.cli.formats import check_not_input, check_readable
from stablemiss.cli.interrupts import interruption
from stablemiss.cli.models import choose_method, params_file
from stablemiss.cli.options import (
    TABLE_HELP,
    AsJson,
    BudgetName,
    Category,
    Classify,
    Decimal,
    Encoding,
    FormatName,
    Ignore,
    MethodName,
    MissingValue,
    NoDateFeatures,
    Params,
    Regress,
    Seed,
    Separator,
    Target,
    choose_task,
    read_options,
)
from stablemiss.cli.training import Roles, read_training_rows
from stablemiss.progress import terminal_progress
from stablemiss.text import count
from stablemiss.writing import atomic_write, check_can_write

if TYPE_CHECKING:
    from stablemiss.tuning import Trial

# Number of trials to print, the best first.
N_SHOWN = 5


def tune(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help=f"Training table: {TABLE_HELP}")],
    target: Target,
    method: MethodName = None,
    budget: BudgetName = None,
    trials: Annotated[
        int, typer.Option(help="Total number of trials, including those already in the study.", min=1)
    ] = 50,
    study: Annotated[
        Path | None,
        typer.Option(
            help="File for the trials. Run the command again to continue, or several times in parallel.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "--out", help="File for the method and its best hyper-parameters, for fit --params."
        ),
    ] = Path("params.json"),
    params: Params = None,
    classify: Classify = False,
    regress: Regress = False,
    ignore: Ignore = None,
    category: Category = None,
    no_date_features: NoDateFeatures = False,
    jobs: Annotated[int, typer.Option(help="Number of parallel trials; -1 for one per core.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which no further trial starts.", show_default=False)
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    file_format: FormatName = None,
    missing_value: MissingValue = None,
) -> None:
    """Search for the hyper-parameters of a method with the lowest loss on validation rows.

    Validation rows are chosen at random; --groups and --time of `stablemiss fit` are not available.
    """
    with plain_errors() as shown:
        options = read_options(separator, decimal, encoding, file_format, missing_value)
        check_readable(data, options.format)
        check_can_write(output)
        check_not_input(
            "--output", output, {"the data": data, "--params": params_file(params), "--study": study}
        )
        choice = choose_method(method, budget, params)
        rows = read_training_rows(
            data, Roles(target, choose_task(classify, regress), ignore or [], category or []), options
        )

        from stablemiss.estimators import MissingClassifier, MissingRegressor, OutOfRangeWarning
        from stablemiss.tuning import tune as search

        estimator_class = MissingClassifier if rows.classify else MissingRegressor
        if study is not None:
            interruption.message = (
                f"Interrupted; finished trials are in {study}. Run the command again to continue."
            )
        with ignore_suspicious_data(), rows_of_file(lambda row: rows.numbers[row]):
            # Every trial would warn about the same validation rows.
            warnings.simplefilter("ignore", OutOfRangeWarning)
            tuned = search(
                estimator_class(
                    method=choice.method, params=choice.params, date_features=not no_date_features
                ),
                rows.features,
                rows.target,
                n_trials=trials,
                study=study,
                random_state=seed,
                n_jobs=jobs,
                timeout=timeout,
                progress=terminal_progress(),
            )
        loss = "log loss" if rows.classify else "RMSE in standard deviations of the target"
        n_different = len({json.dumps(trial.params) for trial in tuned.trials})
        different = f" ({n_different} different ones)" if n_different < len(tuned.trials) else ""
        best = {"method": choice.method, "params": tuned.params}
        with atomic_write(output) as unfinished:
            unfinished.write_text(json.dumps(best, indent=2) + "\n")
        if as_json:
            trials_facts = [asdict(trial) for trial in tuned.trials]
            facts = {"target": target, **best, "metric": loss, "loss": tuned.loss, "trials": trials_facts}
            facts |= {"output": str(output), "fit": fit_command(context, output), "warnings": shown.shown}
            typer.echo(json.dumps(facts, indent=2))
            return
        n_trials = count(len(tuned.trials), "trial")
        typer.echo(f"{n_trials} of {choice.method}{different}, by {loss} on validation rows:")
        for line in trial_lines(tuned.trials):
            typer.echo(line)
        typer.echo(f"Method and parameters: {output}")
        typer.echo(f"To fit with them: {fit_command(context, output)}")


def fit_command(context: typer.Context, params: Path) -> str:
    """The command that fits with the result of a search: all options of `tune` that `fit` has too.

    Parameters
    ----------
    context : typer.Context
        Arguments of `tune`.
    params : Path
        File with the method and its hyper-parameters.
    """
    words = ["stablemiss", "fit"]
    # The file also names the method.
    shared = inspect.signature(fit).parameters.keys() - {"method", "budget", "params", "as_json"}
    for option in context.command.params:
        value = context.params.get(option.name or "")
        if option.name not in shared or not value:
            continue
        for entry in value if isinstance(value, list | tuple) else [value]:
            flag = [option.opts[0]] if option.opts[0].startswith("--") else []
            words += flag if value is True else [*flag, str(entry)]
    return shlex.join([*words, "--params", str(params)])


def trial_lines(trials: list[Trial]) -> list[str]:
    """Lines for the best trials, the initial trial, and the number of failures.

    Examples
    --------
    >>> from stablemiss.tuning import Trial
    >>> initial = Trial(0, {"ridge": 1.0}, 0.5, None, 1.2, is_initial=True)
    >>> print(*trial_lines([initial, Trial(1, {"ridge": 0.1}, 0.4, None, 1.1, is_initial=False)]), sep="\\n")
      0.4  {"ridge": 0.1}
      0.5  {"ridge": 1.0}  (initial)
    """
    completed = [trial for trial in trials if trial.loss is not None]
    # Trials with the same hyper-parameters share one fit and are shown once.
    completed = list({json.dumps(trial.params): trial for trial in reversed(completed)}.values())
    completed.sort(key=lambda trial: (trial.loss or 0.0, trial.number))
    shown = [trial for rank, trial in enumerate(completed) if rank < N_SHOWN or trial.is_initial]
    lines = [
        f"  {trial.loss:.4g}  {json.dumps(_rounded(trial.params))}{'  (initial)' if trial.is_initial else ''}"
        for trial in shown
    ]
    failures = [trial for trial in trials if trial.failure is not None]
    if failures:
        lines.append(f"  {len(failures)} failed; the first with: {failures[0].failure}")
    return lines


def _rounded(params: dict[str, Any]) -> dict[str, Any]:
    return {
        name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in params.items()
    }
