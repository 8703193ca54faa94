"""`stablemiss adapt`: adapt a fitted model to the missing values of new rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

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
from stablemiss.text import count, show_number
from stablemiss.writing import check_can_write


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
    """Write a model for the missingness of new rows, whose target need not be known. Takes seconds.

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
        from stablemiss.cli.new_rows import read_all_rows
        from stablemiss.data import missing_cells

        estimator = load_estimator(model, allow_missing_columns, None, None)
        if not hasattr(estimator, "adapt"):
            raise ValueError(
                f"{model} was fitted with {estimator.method_.name}; only models fitted with anymask can be "
                "adapted."
            )
        estimator.set_params(verbose=sys.stderr.isatty())
        new, _ = read_all_rows(data, options, estimator, None)
        rows, labels = None, None
        if train is not None:
            name = target or estimator.target_name_
            if name is None:
                raise ValueError(f"{model} does not contain the name of its target; give it with --target.")
            rows, labels = read_all_rows(train, options, estimator, name)
            assert labels is not None
            # As in `fit`, rows without a target are left out.
            is_known = ~missing_cells(labels)
            rows, labels = rows.filter(is_known), labels[is_known]
        adapted = estimator.adapt(new, rows, labels)
        adapted.set_params(verbose=False)
        adapted.save(output)
        interruption.message = f"Interrupted; {output} was written."
        typer.echo(_summary(adapted, output, new.num_rows))


def _summary(adapted: object, output: Path, n_rows: int) -> str:
    scores = getattr(adapted, "validation_scores_", None) or {}
    lines = [f"Adapted to the missing values of {count(n_rows, 'row')}; wrote {output}."]
    if "rmse" in scores:
        error = f"RMSE {show_number(scores['rmse'])}"
    elif "log_loss" in scores:
        error = f"Log loss {scores['log_loss']:.4f}"
    else:
        return lines[0]
    lines.append(f"{error} on {count(int(scores['n_rows']), 'validation row')} with such missing values.")
    return "\n".join(lines)
