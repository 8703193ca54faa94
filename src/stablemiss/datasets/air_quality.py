"""Air quality in an Italian city, hourly, 2004 to 2005: a table whose own missingness shifts over time."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from datetime import datetime

import numpy as np

from stablemiss.data import Floats
from stablemiss.datasets import source
from stablemiss.datasets.source import Source, Table

ARCHIVE = "https://archive.ics.uci.edu/static/public/360/air+quality.zip"
FILE = "AirQualityUCI.csv"
SHA256 = "13277ae5d8581e80b7be09d47c7d3d06fe9b8e957078f2cf6e859f955e62f996"

# The file's own sign for "not measured".
NOT_MEASURED = -200.0


def load_air_quality(data_home: str | os.PathLike | None = None, target: str = "CO(GT)") -> Table:
    """Hourly air quality with real holes: analysers and sensors fail, and they fail differently over time.

    Parameters
    ----------
    data_home : path or None
        Folder that holds, or will hold, ``uci_airquality/AirQualityUCI.csv``; None: the environment variable
        STABLEMISS_DATA, else ``.cache/stablemiss`` in the user's home. An absent file is fetched from the
        UCI archive.
    target : str
        The measured column to predict from all the others. The default, carbon monoxide in mg/m³ by the
        reference analyser, is what the cheap sensors beside it are meant to replace. Rows in which the target
        was not measured are left out.

    Returns
    -------
    Table
        Rows in the order of time, so that the first and the last part differ in their missingness. Features
        are the twelve other measured columns, the hour of the day (0 to 23) and the weekday (0 = Monday).

    Examples
    --------
    >>> table = load_air_quality()  # doctest: +SKIP
    >>> table.X.shape  # doctest: +SKIP
    (7674, 14)
    """
    return parse_air_quality(AIR_QUALITY.read(data_home), target)


def parse_air_quality(text: str, target: str = "CO(GT)") -> Table:
    """The table in `text`: cells between semicolons, decimal commas, -200 = missing.

    Examples
    --------
    >>> text = "Date;Time;CO(GT);T;;\\n10/03/2004;18.00.00;2,6;-200;;\\n;;;;;\\n"
    >>> table = parse_air_quality(text)
    >>> table.feature_names, table.X.tolist(), table.y.tolist()
    (('T', 'hour', 'weekday'), [[nan, 18.0, 2.0]], [2.6])
    """
    header, *lines = csv.reader(io.StringIO(text), delimiter=";")
    measured = [name for name in header[2:] if name]
    if target not in measured:
        raise ValueError(f"target should be one of {', '.join(measured)}, but is {target!r}.")
    # The file ends in rows without any entry.
    lines = [line for line in lines if line and line[0]]
    columns = np.array([[_number(cell) for cell in line[2 : 2 + len(measured)]] for line in lines])
    times = [datetime.strptime(" ".join(line[:2]), "%d/%m/%Y %H.%M.%S") for line in lines]
    calendar = np.array([[time.hour, time.weekday()] for time in times], dtype=np.float64)

    position = measured.index(target)
    y: Floats = columns[:, position]
    known = ~np.isnan(y)
    features = np.column_stack([np.delete(columns, position, axis=1), calendar])
    return Table(
        X=features[known],
        y=y[known],
        feature_names=(*(name for name in measured if name != target), "hour", "weekday"),
        target_name=target,
        description=(
            "Hourly means of gas concentrations by reference analysers (GT) and of the responses of cheap "
            "metal-oxide sensors (PT08) beside a road in an Italian city, March 2004 to April 2005, with "
            f"temperature (°C), relative (%) and absolute humidity. Hours in which {target} "
            "was not measured are left out."
        ),
        licence="CC BY 4.0 (S. De Vito et al., 2008; UCI Machine Learning Repository)",
        source="https://archive.ics.uci.edu/dataset/360/air+quality",
    )


def _number(cell: str) -> float:
    value = float(cell.replace(",", ".")) if cell else NOT_MEASURED
    return np.nan if value == NOT_MEASURED else value


def _fetch() -> bytes:
    """The file inside the archive of the UCI repository."""
    with zipfile.ZipFile(io.BytesIO(source.download(ARCHIVE))) as archive:
        content = archive.read(FILE)
    source.check_digest(content, SHA256, f"{FILE} in {ARCHIVE}")
    return content


AIR_QUALITY = Source(
    title="The UCI air quality measurements",
    path=f"uci_airquality/{FILE}",
    sha256=SHA256,
    page="https://archive.ics.uci.edu/dataset/360/air+quality",
    fetch=_fetch,
)
