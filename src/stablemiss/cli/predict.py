"""`stablemiss predict`: a model and a file with holes in, predictions out."""

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
    """What to do where a column that was never missing in training is missing now."""

    warn = "warn"
    refuse = "raise"
    ignore = "ignore"


def predict(
    model: Annotated[Path, typer.Argument(help="Model file that `stablemiss fit` wrote.")],
    data: Annotated[Path, typer.Argument(help="Table to predict for: .csv, .csv.gz or .parquet.")],
    output: Annotated[Path, typer.Option(help="Where to write: .csv, .csv.gz or .parquet.")] = Path(
        "predictions.csv"
    ),
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Write one column per class with its probability, too.")
    ] = False,
    allow_missing_columns: Annotated[
        bool,
        typer.Option(
            "--allow-missing-columns", help="Count columns that the table lacks as missing in every row."
        ),
    ] = False,
    on_unseen_missing: Annotated[
        OnUnseenMissing, typer.Option(help="Where a column is missing that never was in training.")
    ] = OnUnseenMissing.warn,
) -> None:
    """Predict for every row of a table, whatever is missing in it; columns are matched by name."""
    with plain_errors():
        if not model.is_file():
            raise ValueError(
                f"There is no model file {model}; make one with: stablemiss fit DATA --target COLUMN."
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
                raise ValueError(f"{model} predicts numbers, which have no class probabilities.")
            shares = estimator.predict_proba(features)
            columns |= {
                f"probability of {label}": share
                for label, share in zip(estimator.classes_, shares.T, strict=True)
            }
        write_table(pyarrow.table(columns), output)
        typer.echo(f"Wrote {table.num_rows:,} predictions to {output}.")


def category_columns(estimator: MissingEstimator) -> list[str]:
    """Columns that were text in training: the few rows of a new file may make them look like numbers."""
    return columns_of_kind(estimator, "categories")


def columns_of_kind(estimator: MissingEstimator, kind: str) -> list[str]:
    """Columns that held "numbers" or "categories" in training; none if it had no names to go by."""
    encoder = estimator.encoder_
    named = zip(encoder.names or [], encoder.kinds, strict=False)
    return [name for name, found in named if found == kind]


def check_numbers(table: pyarrow.Table, estimator: MissingEstimator, path: Path) -> None:
    """Raise, in one sentence, where some entries of a column of numbers are none."""
    for name in columns_of_kind(estimator, "numbers"):
        entries = text_entries(table.column(name)) if name in table.column_names else []
        if (entry := non_numeric_entry(entries, share=0.0)) is not None:
            raise ValueError(
                f"Column {name!r} of {path} should hold numbers, as in training, but holds {entry!r}, too. "
                "Correct such entries or leave them empty."
            )


def known_columns(table: pyarrow.Table, estimator: MissingEstimator, path: Path) -> pyarrow.Table:
    """The columns that the model was fitted with; others do not concern it."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return table
    known = [name for name in table.column_names if name in set(names)]
    if not known:
        raise ValueError(
            f"{path} has none of the columns that the model was fitted with: {', '.join(names)}."
        )
    return table.select(known)
