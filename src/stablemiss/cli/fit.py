"""`stablemiss fit`: fit a model to the table in a file."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from stablemiss.cli.errors import plain_errors, rows_of_file
from stablemiss.cli.fit_report import collect_facts, render_facts
from stablemiss.cli.folders import fit_folder, open_folder
from stablemiss.cli.formats import check_not_input, check_readable
from stablemiss.cli.interrupts import interruption
from stablemiss.cli.models import check_replaces_model, choose_method, params_file
from stablemiss.cli.options import (
    TABLE_HELP,
    AsJson,
    BudgetName,
    Category,
    Classify,
    DaskAddress,
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
    check_only_parquet,
    choose_task,
    read_options,
)
from stablemiss.cli.training import Roles, read_training_rows
from stablemiss.writing import check_can_write


def fit(
    data: Annotated[Path, typer.Argument(help=f"Training table: {TABLE_HELP} Or a folder of Parquet files.")],
    target: Target,
    model: Annotated[Path, typer.Option(help="Model file to write.")] = Path("model.stablemiss"),
    method: MethodName = None,
    budget: BudgetName = None,
    params: Params = None,
    classify: Classify = False,
    regress: Regress = False,
    ignore: Ignore = None,
    category: Category = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Validate on whole groups of this column, such as a patient. It is not used as a feature.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Validate on the latest rows by this column. It is also a feature, unless it is ignored.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    no_date_features: NoDateFeatures = False,
    keep_training_rows: Annotated[
        bool,
        typer.Option(
            "--keep-training-rows",
            help="Store the training rows in the model file, so that `stablemiss adapt` needs new rows only. "
            "Whoever has the file then has the data. Only for anymask.",
        ),
    ] = False,
    seed: Seed = 0,
    all_columns: Annotated[
        bool, typer.Option("--all-columns", help="List all columns, even if there are many.")
    ] = False,
    dask: DaskAddress = None,
    as_json: AsJson = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    file_format: FormatName = None,
    missing_value: MissingValue = None,
) -> None:
    """Fit a model that predicts one column of a table from the others, which may have missing values.

    At the end it prints the error on validation rows, how each column was read, and what looks wrong.

    A folder of Parquet files may be larger than memory.
    """
    with plain_errors() as shown:
        options = read_options(separator, decimal, encoding, file_format, missing_value)
        is_folder = data.is_dir() or dask is not None
        if is_folder:
            check_only_parquet(options, {"--groups": groups, "--time": time, "--category": category})
        else:
            check_readable(data, options.format)
        check_can_write(model)
        check_not_input("--model", model, {"the data": data, "--params": params_file(params)})
        check_replaces_model(model)
        if groups is not None and time is not None:
            raise ValueError("Use --groups or --time to choose the validation rows, not both.")
        choice = choose_method(method, budget, params)
        further = {}
        if keep_training_rows:
            if choice.method != "anymask":
                raise ValueError(
                    f"--keep-training-rows is for models that can be adapted, those of anymask, not "
                    f"{choice.method}."
                )
            further["keep_training_rows"] = True
        roles = Roles(target, choose_task(classify, regress), ignore or [], category or [], groups, time)
        rows = open_folder(data, roles) if is_folder else read_training_rows(data, roles, options)

        # Torch and scikit-learn take seconds to import, so the arguments are checked first.
        start = monotonic()
        estimator = choice.estimator(
            rows.classify,
            random_state=seed,
            date_features=not no_date_features,
            # Redirected to a file, a progress bar would leave only empty lines.
            verbose=sys.stderr.isatty(),
            **further,
        )
        n_rows = None
        with ignore_suspicious_data(), rows_of_file(lambda row: rows.numbers[row]):
            if is_folder:
                n_rows = fit_folder(estimator, data, rows, roles, dask)
            else:
                estimator.fit(rows.features, rows.target, **rows.split)
        estimator.target_name_ = target
        estimator.read_options_ = {
            "decimal": rows.dialect.decimal if rows.dialect else None,
            "missing_values": list(options.missing_values),
        }
        seconds = monotonic() - start
        estimator.save(model)
        interruption.message = f"Interrupted; {model} was written."
        facts = collect_facts(estimator, rows, choice, roles, n_rows)
        facts |= {"seconds": round(seconds, 2), "model": str(model), "warnings": shown.shown}
        typer.echo(json.dumps(facts, indent=2) if as_json else render_facts(facts, all_columns))


@contextmanager
def ignore_suspicious_data() -> Iterator[None]:
    """Context manager without warnings about columns or many classes: the report at the end says the same."""
    from stablemiss import SuspiciousDataWarning

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The training table may contain mistakes", SuspiciousDataWarning)
        warnings.filterwarnings("ignore", "The number of unique classes")
        yield
