"""Hourly air quality in an Italian city, 2004 to 2005: a table whose missingness shifts over time."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from datetime import datetime

import numpy as np

from stablemiss.checks import shown
from stablemiss.data import Floats
from stablemiss.datasets import source
from stablemiss.datasets.source import Dataset, Source

ARCHIVE = "https://archive.ics.uci.edu/static/public/360/air+quality.zip"
FILE = "AirQualityUCI.csv"
SHA256 = "13277ae5d8581e80b7be09d47c7d3d06fe9b8e957078f2cf6e859f955e62f996"

# The value that marks missing values in the file.
MISSING_VALUE = -200.0


def load_air_quality(data_home: str | os.PathLike | None = None, target: str = "CO(GT)") -> Dataset:
    """Load hourly air quality with real missing values, caused by failures of analysers and sensors.

    Parameters
    ----------
    data_home : path, default=None
        Folder that contains ``uci_airquality/AirQualityUCI.csv``. None means the environment variable
        STABLEMISS_DATA or, if it is not set, ``.cache/stablemiss`` in the home folder. If the file does not
        exist, it is downloaded from the UCI archive.
    target : str, default="CO(GT)"
        The measured column to predict from the others. The default is carbon monoxide in mg/m³ by the
        reference analyser, which the cheaper sensors are meant to replace. Rows in which the
        target is missing are dropped.

    Returns
    -------
    Dataset
        Rows in chronological order; the missingness changes over time. Features are the twelve other
        measured columns, the hour of the day (0 to 23) and the weekday (0 = Monday).

    See Also
    --------
    load_house_sales : A table without missing values.

    Examples
    --------
    >>> table = load_air_quality()  # doctest: +SKIP
    >>> table.X.shape  # doctest: +SKIP
    (7674, 14)
    """
    return parse_air_quality(AIR_QUALITY.read(data_home), target)


def parse_air_quality(text: str, target: str = "CO(GT)") -> Dataset:
    """Parse the content of the file: separated by semicolons, with decimal commas, -200 = missing.

    Parameters
    ----------
    text : str
        Content of the file.
    target : str, default="CO(GT)"
        The measured column to predict from the others.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> text = "Date;Time;CO(GT);T;;\\n10/03/2004;18.00.00;2,6;-200;;\\n;;;;;\\n"
    >>> table = parse_air_quality(text)
    >>> table.feature_names, table.X.tolist(), table.y.tolist()
    (('T', 'hour', 'weekday'), [[nan, 18.0, 2.0]], [2.6])
    """
    header, *lines = csv.reader(io.StringIO(text), delimiter=";")
    measured = [name for name in header[2:] if name]
    if not isinstance(target, str) or target not in measured:
        raise ValueError(f"target must be one of {', '.join(measured)}; got {shown(target)}.")
    # The file ends with empty rows.
    lines = [line for line in lines if line and line[0]]
    columns = np.array([[_number(cell) for cell in line[2 : 2 + len(measured)]] for line in lines])
    times = [datetime.strptime(" ".join(line[:2]), "%d/%m/%Y %H.%M.%S") for line in lines]
    calendar = np.array([[time.hour, time.weekday()] for time in times], dtype=np.float64)

    position = measured.index(target)
    y: Floats = columns[:, position]
    has_target = ~np.isnan(y)
    features = np.column_stack([np.delete(columns, position, axis=1), calendar])
    return Dataset(
        X=features[has_target],
        y=y[has_target],
        feature_names=(*(name for name in measured if name != target), "hour", "weekday"),
        target_name=target,
        description=(
            "Hourly means of gas concentrations by reference analysers (GT) and of the responses of "
            "metal-oxide sensors (PT08) next to a road in an Italian city, March 2004 to April 2005, with "
            f"temperature (°C), relative (%) and absolute humidity. Hours in which {target} "
            "is missing are dropped."
        ),
        licence="CC BY 4.0 (S. De Vito et al., 2008; UCI Machine Learning Repository)",
        source="https://archive.ics.uci.edu/dataset/360/air+quality",
    )


def _number(cell: str) -> float:
    value = float(cell.replace(",", ".")) if cell else MISSING_VALUE
    return np.nan if value == MISSING_VALUE else value


def _fetch() -> bytes:
    """Download the archive from the UCI repository and extract the file."""
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
