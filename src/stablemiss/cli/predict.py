"""`stablemiss predict`: apply a fitted model to the table in a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stablemiss.cli.errors import Warnings, plain_errors
from stablemiss.cli.fit_report import show_r2
from stablemiss.cli.formats import STANDARD, check_readable, check_writable, show_path
from stablemiss.cli.interrupts import interruption
from stablemiss.cli.options import (
    TABLE_HELP,
    DaskAddress,
    Decimal,
    Encoding,
    FormatName,
    MissingValue,
    Separator,
    check_model_file,
    check_only_parquet,
    read_options,
)
from stablemiss.cli.training import check_column
from stablemiss.text import count, show_number

if TYPE_CHECKING:
    from stablemiss.cli.new_rows import NewRows
    from stablemiss.cli.predictions import Wanted
    from stablemiss.cli.scores import Scores
    from stablemiss.cli.writing import Write
    from stablemiss.estimators.base import MissingEstimator


class OnUnseenMissing(StrEnum):
    """What to do if a column that was never missing in training has missing values."""

    warn = "warn"
    raise_ = "raise"
    ignore = "ignore"


class OnOutOfRange(StrEnum):
    """What to do with numbers far outside the range in training."""

    clip = "clip"
    missing = "missing"
    raise_ = "raise"


ModelFile = Annotated[Path, typer.Argument(help="Model file written by `stablemiss fit`.")]
NewTable = Annotated[Path, typer.Argument(help=f"Table with new rows: {TABLE_HELP}")]
NewTableOrFolder = Annotated[
    Path, typer.Argument(help=f"Table with new rows: {TABLE_HELP} Or a folder of Parquet files.")
]
TargetOfModel = Annotated[
    str | None,
    typer.Option(
        help="Column with the true values. Default: the target of the model.",
        metavar="COLUMN",
        show_default=False,
    ),
]
AllowMissingColumns = Annotated[
    bool,
    typer.Option("--allow-missing-columns", help="Treat columns that are absent as missing in every row."),
]
OnUnseenMissingOption = Annotated[
    OnUnseenMissing | None,
    typer.Option(
        help="What to do if a column that was never missing in training has missing values. Default: the "
        "setting of the model.",
        show_default=False,
    ),
]
OnOutOfRangeOption = Annotated[
    OnOutOfRange | None,
    typer.Option(
        help="What to do with numbers far outside the range in training: clip them near it, treat them as "
        "missing, or raise an error. Default: the setting of the model.",
        show_default=False,
    ),
]


def predict(
    model: ModelFile,
    data: NewTableOrFolder,
    output: Annotated[
        Path | None,
        typer.Option(
            help="File to write; the extension determines the format. - for standard output. Default: "
            "predictions.csv; for a folder of Parquet files, the folder predictions.",
            show_default=False,
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="COVERAGE",
            help="Also write intervals that contain the true value with this probability, such as 0.9; for "
            "classes, sets of classes. Only for models fitted with anymask.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Also write the expected error of each prediction (the root mean square for rows like it, "
            "not a bound; for classes, the Brier score), and the missing column whose value would reduce it "
            "most. Only for models fitted with anymask.",
        ),
    ] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write one column per class with its probability.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Copy this column to the output, for example an identifier. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Copy all columns to the output.")] = False,
    target: TargetOfModel = None,
    allow_missing_columns: AllowMissingColumns = False,
    on_unseen_missing: OnUnseenMissingOption = None,
    on_out_of_range: OnOutOfRangeOption = None,
    dask: DaskAddress = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    file_format: FormatName = None,
    missing_value: MissingValue = None,
) -> None:
    """Predict all rows of a table, which may have missing values. Columns are matched by name.

    Rows are read, predicted and written in batches, so the table may be larger than memory. CSV output has
    the separator and decimal mark of the input. If the table contains the target, the error is printed.

    The predictions of a folder of Parquet files are a folder too. If the command is interrupted, the same
    command continues with the files that are still missing.
    """
    with plain_errors() as warnings:
        options = read_options(separator, decimal, encoding, file_format, missing_value)
        check_model_file(model, data)
        if data.is_dir() or dask is not None:
            from stablemiss.cli.folders import predict_folder
            from stablemiss.cli.predictions import Wanted

            check_only_parquet(options, {"--target": target})
            estimator = load_estimator(model, allow_missing_columns, on_unseen_missing, on_out_of_range)
            wanted = Wanted(interval, probabilities, explain)
            wanted.check(estimator, str(model))
            output = output or Path("predictions")
            predict_folder(estimator, data, output, wanted, keep_all or tuple(keep or ()), dask)
            return
        output = output or Path("predictions.csv")
        check_readable(data, options.format)
        check_writable(output, options.format, {"the data": data, "the model": model})
        from stablemiss.cli.new_rows import open_new_rows
        from stablemiss.cli.predictions import Wanted
        from stablemiss.cli.writing import open_output

        estimator = load_estimator(model, allow_missing_columns, on_unseen_missing, on_out_of_range)
        wanted = Wanted(interval, probabilities, explain)
        wanted.check(estimator, str(model))
        with open_new_rows(data, options, estimator, target or estimator.target_name_) as rows:
            if target is not None:
                check_column(rows.source.column_names, target, rows.source.name)
            kept = rows.source.column_names if keep_all else list(dict.fromkeys(keep or []))
            for name in kept:
                check_column(rows.source.column_names, name, rows.source.name)
            if output == STANDARD:
                interruption.message = "Interrupted; the output is incomplete."
            with open_output(output, options.format, rows.source.dialect) as write:
                n_rows, scores = write_predictions(rows, estimator, wanted, kept, write, warnings)
        interruption.message = f"Interrupted; {output} was written."
        for line in [
            *rows.remarks.lines(),
            f"Wrote {count(n_rows, 'prediction')} to {show_path(output, True)}.",
        ]:
            typer.echo(line, err=output == STANDARD)
        if scores.n_rows:
            typer.echo(error_line(scores, rows.target), err=output == STANDARD)


def load_estimator(
    model: Path,
    allow_missing_columns: bool,
    on_unseen_missing: OnUnseenMissing | None,
    on_out_of_range: OnOutOfRange | None,
) -> MissingEstimator:
    """Load a model and change what it does in `predict`.

    Parameters
    ----------
    model : Path
        Its file.
    allow_missing_columns : bool
        Whether columns may be absent; if not, the model's own setting holds.
    on_unseen_missing, on_out_of_range : StrEnum or None
        None leaves the model's own setting.
    """
    from stablemiss.estimators import load_model

    estimator = load_model(model)
    settings: dict[str, Any] = {}
    if allow_missing_columns:
        settings["allow_missing_columns"] = True
    if on_unseen_missing is not None:
        settings["on_unseen_missing"] = on_unseen_missing.value
    if on_out_of_range is not None:
        settings["on_out_of_range"] = on_out_of_range.value
    return estimator.set_params(**settings)


def write_predictions(
    rows: NewRows,
    estimator: MissingEstimator,
    wanted: Wanted,
    kept: list[str],
    write: Write,
    warnings: Warnings,
) -> tuple[int, Scores]:
    """Predict all rows and write them; return their number and the errors of those with a target.

    Parameters
    ----------
    rows : NewRows
        The rows.
    estimator : MissingEstimator
        The fitted model.
    wanted : Wanted
        What to predict.
    kept : list of str
        Columns to copy.
    write : callable
        Writes a batch.
    warnings : Warnings
        Shows warnings.
    """
    import pyarrow

    from stablemiss.cli.predictions import predict_batches
    from stablemiss.cli.scores import make_scores

    n_rows, scores = 0, make_scores(estimator)
    for batch, predictions in predict_batches(rows, estimator, wanted, warnings):
        columns = predictions.columns(wanted.probabilities)
        check_names(kept, list(columns))
        write(pyarrow.table({name: batch.table.column(name) for name in kept} | columns))
        n_rows += batch.table.num_rows
        if batch.target is not None:
            covered, size = predictions.coverage(batch.target)
            scores.add(batch.target, batch.n_missing, predictions.output, covered, size)
    return n_rows, scores


def check_names(kept: list[str], predicted: list[str]) -> None:
    """Raise ValueError if a kept column has the name of a column that `predict` adds."""
    for name in kept:
        if name in predicted:
            raise ValueError(
                f"Column {name!r} cannot be kept, because the output has a column of that name with "
                "predictions. Rename it in the input, or list the columns to keep with --keep."
            )


def error_line(scores: Scores, target: str | None) -> str:
    """The error of the rows with a target."""
    facts = scores.overall()
    rows = f"on {count(facts['n_rows'], 'row')} with {target!r}"
    coverage = "" if facts["coverage"] is None else f", coverage {facts['coverage']:.1%}"
    if "rmse" in facts:
        r2 = "" if facts["r2"] is None else f", R² {show_r2(facts['r2'])}"
        return f"RMSE {show_number(facts['rmse'])}{r2}{coverage} {rows}."
    return f"Log loss {facts['log_loss']:.4f}, accuracy {facts['accuracy']:.1%}{coverage} {rows}."
