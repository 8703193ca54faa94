"""`stablemiss adapt`: adapt a fitted model to the missing values of new rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.cli.formats import check_not_input, check_readable
from stablemiss.cli.interrupts import interruption
from stablemiss.cli.models import check_replaces_model
from stablemiss.cli.options import (
    Decimal,
    Encoding,
    FormatName,
    MissingValue,
    Separator,
    check_model_file,
    read_options,
)
from stablemiss.cli.predict import AllowMissingColumns, ModelFile, NewTable, TargetOfModel, load_estimator
from stablemiss.cli.reading import ReadOptions, open_table
from stablemiss.cli.training import Roles, TrainingRows, check_column, read_training_rows
from stablemiss.text import count, show_number
from stablemiss.writing import check_can_write

if TYPE_CHECKING:
    from stablemiss.estimators import AnyMaskClassifier, AnyMaskRegressor


def adapt(
    model: ModelFile,
    data: NewTable,
    train: Annotated[
        Path | None,
        typer.Option(
            help="The table that the model was fitted to. Not needed if it was fitted with "
            "--keep-training-rows.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Model file to write.")] = Path("adapted.stablemiss"),
    target: TargetOfModel = None,
    allow_missing_columns: AllowMissingColumns = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    file_format: FormatName = None,
    missing_value: MissingValue = None,
) -> None:
    """Write a model for the missingness of new rows, whose target need not be known.

    Use it when `stablemiss diagnose` finds that the missingness has changed and will stay so.
    """
    with plain_errors():
        options = read_options(separator, decimal, encoding, file_format, missing_value)
        check_model_file(model, data)
        for path in (data, *([] if train is None else [train])):
            check_readable(path, options.format)
        check_can_write(output)
        inputs = {"the data": data, "the model": model, "--train": train}
        check_not_input("--output", output, {name: path for name, path in inputs.items() if path})
        check_replaces_model(output)
        from stablemiss.cli.new_rows import model_options, read_all_rows
        from stablemiss.estimators import AnyMaskClassifier, AnyMaskRegressor

        estimator = load_estimator(model, allow_missing_columns, None, None)
        if not isinstance(estimator, AnyMaskRegressor | AnyMaskClassifier):
            raise ValueError(
                f"{model} contains a {type(estimator).__name__}. Only models that `stablemiss fit` made with "
                "anymask, or AnyMaskRegressor and AnyMaskClassifier in Python, can be adapted."
            )
        estimator.set_params(verbose=sys.stderr.isatty())
        new, _ = read_all_rows(data, options, estimator, None)
        rows = None
        if train is not None:
            name = target or estimator.target_name_
            if name is None:
                raise ValueError(f"{model} does not contain the name of its target; give it with --target.")
            rows = _read_training_table(train, model_options(options, estimator), estimator, name)
        adapted = estimator.adapt(new) if rows is None else estimator.adapt(new, rows.features, rows.target)
        adapted.set_params(verbose=False)
        adapted.save(output)
        interruption.message = f"Interrupted; {output} was written."
        typer.echo(_summary(adapted, output, new.num_rows))


def _read_training_table(
    path: Path, options: ReadOptions, estimator: AnyMaskRegressor | AnyMaskClassifier, target: str
) -> TrainingRows:
    """The rows of the table that a model was fitted to, read as `stablemiss fit` read them."""
    with open_table(path, options) as source:
        column_names, path_name = source.column_names, source.name
    names = estimator.encoder_.names or [name for name in column_names if name != target]
    for name in (*names, target):
        check_column(column_names, name, path_name)
    kinds = dict(zip(names, estimator.encoder_.kinds, strict=False))
    roles = Roles(
        target,
        hasattr(estimator, "classes_"),
        ignore=[name for name in column_names if name not in names and name != target],
        category=[name for name, kind in kinds.items() if kind == "categories"],
    )
    return read_training_rows(path, roles, options)


def _summary(adapted: object, output: Path, n_rows: int) -> str:
    scores = getattr(adapted, "validation_scores_", None) or {}
    lines = [f"Adapted to the missing values of {count(n_rows, 'row')}; wrote {output}."]
    if "rmse" in scores:
        error = f"RMSE {show_number(scores['rmse'])}"
    elif "log_loss" in scores:
        error = f"Log loss {scores['log_loss']:.4f}"
    else:
        return lines[0]
    rows = count(int(scores["n_rows"]), "validation row")
    lines.append(f"{error} on {rows} with these missing values in addition to their own.")
    return "\n".join(lines)
