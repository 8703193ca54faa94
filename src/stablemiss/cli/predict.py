"""`stablemiss predict`: apply a fitted model to the table in a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.cli.files import check_readable, check_writable, read_table, text_entries, write_table
from stablemiss.text import non_numeric_entry

if TYPE_CHECKING:
    import pyarrow

    from stablemiss.estimators.base import MissingEstimator


class OnUnseenMissing(StrEnum):
    """What to do if a column that was never missing in training has missing values."""

    warn = "warn"
    raise_ = "raise"
    ignore = "ignore"


def predict(
    model: Annotated[Path, typer.Argument(help="Model file written by `stablemiss fit`.")],
    data: Annotated[Path, typer.Argument(help="Table with new rows: .csv, .csv.gz or .parquet.")],
    output: Annotated[Path, typer.Option(help="File to write: .csv, .csv.gz or .parquet.")] = Path(
        "predictions.csv"
    ),
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write one column per class with its probability.")
    ] = False,
    allow_missing_columns: Annotated[
        bool,
        typer.Option(
            "--allow-missing-columns", help="Treat columns that are absent as missing in every row."
        ),
    ] = False,
    on_unseen_missing: Annotated[
        OnUnseenMissing,
        typer.Option(help="What to do if a column that was never missing in training has missing values."),
    ] = OnUnseenMissing.warn,
) -> None:
    """Predict all rows of a table, which may have missing values. Columns are matched by name."""
    with plain_errors():
        if not model.is_file():
            raise ValueError(
                f"There is no model file {model}; create one with: stablemiss fit DATA --target COLUMN."
            )
        check_readable(data)
        check_writable(output)
        import pyarrow

        from stablemiss.estimators import load_model

        estimator = load_model(model)
        table = read_table(data, text_columns=category_columns(estimator))
        estimator.set_params(
            allow_missing_columns=allow_missing_columns, on_unseen_missing=on_unseen_missing.value
        )
        features = known_columns(table, estimator, data)
        check_numbers(features, estimator, data)
        columns = {"prediction": estimator.predict(features)}
        if probabilities:
            if not hasattr(estimator, "predict_proba"):
                raise ValueError(
                    f"{model} is a regression model, which has no class probabilities; omit --probabilities."
                )
            class_probabilities = estimator.predict_proba(features)
            columns |= {
                f"probability of {label}": column
                for label, column in zip(estimator.classes_, class_probabilities.T, strict=True)
            }
        write_table(pyarrow.table(columns), output)
        typer.echo(f"Wrote {table.num_rows:,} predictions to {output}.")


def category_columns(estimator: MissingEstimator) -> list[str]:
    """Columns that were categorical in training; they are read as text even if all entries are numbers."""
    return columns_of_kind(estimator, "categories")


def columns_of_kind(estimator: MissingEstimator, kind: str) -> list[str]:
    """Columns that were "numbers" or "categories" in training; an empty list if they had no names."""
    encoder = estimator.encoder_
    kinds = zip(encoder.names or [], encoder.kinds, strict=False)
    return [name for name, kind_of_column in kinds if kind_of_column == kind]


def check_numbers(table: pyarrow.Table, estimator: MissingEstimator, path: Path) -> None:
    """Raise ValueError if a numeric column contains an entry that is not a number."""
    for name in columns_of_kind(estimator, "numbers"):
        entries = text_entries(table.column(name)) if name in table.column_names else []
        if (entry := non_numeric_entry(entries, min_numeric_share=0.0)) is not None:
            raise ValueError(
                f"Column {name!r} in {path} must be numeric, as in training; got {entry!r}. Correct such "
                "entries or leave them empty."
            )


def known_columns(table: pyarrow.Table, estimator: MissingEstimator, path: Path) -> pyarrow.Table:
    """The columns that the model was fitted with; other columns are ignored."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return table
    known = [name for name in table.column_names if name in set(names)]
    if not known:
        raise ValueError(
            f"{path} has none of the columns that the model was fitted with: {', '.join(names)}."
        )
    return table.select(known)
