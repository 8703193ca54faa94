"""`stablemiss fit` and `stablemiss predict` on folders of Parquet files and with a Dask cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from stablemiss.cli.interrupts import interruption
from stablemiss.text import count

if TYPE_CHECKING:
    from stablemiss.estimators.base import MissingEstimator
    from stablemiss.estimators.prediction_table import Wanted


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

    if keep is True:
        with open_source(data) as source:
            keep = tuple(source.schema.names)
    interruption.message = f"Interrupted; finished files are in {output}, and the same command continues."
    with dask_client(dask) as client:
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
