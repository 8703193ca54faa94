"""`stablemiss fit` and `stablemiss predict` on folders of Parquet files and with a Dask cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from stablemiss.cli.columns import Remarks
from stablemiss.cli.errors import rows_of_file
from stablemiss.cli.formats import STANDARD
from stablemiss.cli.interrupts import interruption
from stablemiss.cli.training import Roles, TrainingRows, check_column
from stablemiss.text import count

if TYPE_CHECKING:
    from stablemiss.estimators.base import MissingEstimator
    from stablemiss.estimators.prediction_table import Wanted


def open_folder(data: Path, roles: Roles) -> TrainingRows:
    """Check the columns of Parquet files on which a model is to be fitted; no rows are read.

    Parameters
    ----------
    data : Path
        A Parquet file or a folder of such files.
    roles : Roles
        What the columns are used for.
    """
    import numpy as np
    from pyarrow import types

    from stablemiss.sources import open_source

    with open_source(data) as source:
        schema = source.schema
    for column in (roles.target, *roles.ignore):
        check_column(schema.names, column, str(data))
    roles.check_target()
    target = schema.field(roles.target).type
    is_number = any(test(target) for test in (types.is_integer, types.is_floating, types.is_decimal))
    classify = not is_number if roles.classify is None else roles.classify
    features = schema.empty_table().select(roles.features(schema.names))
    unused = dict.fromkeys(roles.ignore, "--ignore")
    none = np.zeros(0, dtype=np.int64)
    return TrainingRows(features, none, classify, none, 0, unused, Remarks(), None)


def fit_folder(
    estimator: MissingEstimator, data: Path, rows: TrainingRows, roles: Roles, dask: str | None
) -> int:
    """Fit a model to Parquet files, in memory only if they are small; returns the number of rows.

    Parameters
    ----------
    estimator : MissingEstimator
        The model.
    data : Path
        A Parquet file or a folder of such files.
    rows : TrainingRows
        From `open_folder`; the number of rows without a target is set.
    roles : Roles
        What the columns are used for.
    dask : str or None
        Address of a Dask scheduler.
    """
    from stablemiss.estimators.source_fit import fit_source

    with dask_client(dask) as client, rows_of_file(_number_of):
        options: dict[str, Any] = {"drop_missing_target": True, "ignore": roles.ignore}
        counts = fit_source(estimator, data, roles.target, client=client, **options)
    rows.n_dropped = counts.without_target
    return counts.used


def predict_folder(
    estimator: MissingEstimator,
    data: Path,
    output: Path,
    wanted: Wanted,
    keep: tuple[str, ...] | bool,
    dask: str | None,
) -> None:
    """Predict the rows of Parquet files and write them to a folder.

    Parameters
    ----------
    estimator : MissingEstimator
        The fitted model.
    data : Path
        A Parquet file or a folder of such files.
    output : Path
        Folder to write.
    wanted : Wanted
        What to predict.
    keep : tuple of str or True
        Columns to copy; True copies all.
    dask : str or None
        Address of a Dask scheduler.
    """
    from stablemiss.sources import open_source

    if output == STANDARD:
        raise ValueError(
            f"The predictions of {data} are a folder of Parquet files, not one file for standard output; "
            "pass the name of a folder to --output."
        )
    if keep is True:
        with open_source(data) as source:
            keep = tuple(source.schema.names)
    interruption.message = f"Interrupted; finished files are in {output}, and the same command continues."
    with dask_client(dask) as client, rows_of_file(_number_of):
        # Redirected to a file, a progress bar would leave only empty lines.
        n_rows = estimator.set_params(verbose=sys.stderr.isatty()).write_predictions(
            data,
            output,
            coverage=wanted.coverage,
            probabilities=wanted.probabilities,
            explain=wanted.explain,
            keep=keep or (),
            client=client,
        )
    interruption.message = f"Interrupted; {output} was written."
    typer.echo(f"Wrote {count(n_rows, 'prediction')} to {output}.")


def _number_of(row: int) -> int:
    """The number of a row among those of all files, counted from 1."""
    return row + 1


@contextmanager
def dask_client(address: str | None) -> Iterator[Any]:
    """Context manager for the client of a Dask cluster; None without an address."""
    if address is None:
        yield None
        return
    from stablemiss.sources import connect_dask

    client = connect_dask(address)
    try:
        yield client
    finally:
        client.close()
