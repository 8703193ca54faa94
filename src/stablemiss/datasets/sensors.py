"""Readings of a sensor network, and their loader from a folder in a documented layout."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stablemiss.checks import check_bool, check_number, check_path, shown
from stablemiss.data import Floats, to_table
from stablemiss.datasets.graph import Graph, check_coordinates, to_names
from stablemiss.datasets.times import Times, to_regular_grid, to_times
from stablemiss.text import quoted

TIME = "time"
# Entries of a CSV file that mean "missing", in lower case.
MISSING_ENTRIES = frozenset(("", "na", "n/a", "nan", "null", "none", "<na>", "-", "?"))


@dataclass(frozen=True, eq=False)
class SensorData:
    """Readings of a sensor network on a regular grid of times.

    Attributes
    ----------
    values : (n_times, n_nodes) float64
        Readings in their original units, one column per sensor; NaN = missing.
    times : (n_times,) datetime64
        Times of the rows, in equal steps. Times without any reading are kept as rows of NaN.
    names : tuple of str
        Names of the sensors, in the order of the columns.
    coordinates : (n_nodes, 2) float64 or None
        Latitude and longitude in degrees (WGS84); None if unknown.
    graph : Graph or None
        Which sensors exchange information; None if no edges are given. `Graph.nearest` makes a graph of the
        coordinates.
    description : str
        Meaning of the readings, units, and reasons for missing ones.
    licence : str
        Licence of the data.
    source : str
        URL of the page that describes the data.

    See Also
    --------
    SensorWindows : Histories and futures for prediction.
    load_berlin_traffic, load_sensor_folder : Loaders.

    Examples
    --------
    >>> times = np.datetime64("2024-01-01T00") + np.arange(3)
    >>> data = SensorData(np.zeros((3, 2)), times, ("a", "b"))
    >>> data.values.shape
    (3, 2)
    """

    values: Floats
    times: Times
    names: tuple[str, ...]
    coordinates: Floats | None = None
    graph: Graph | None = None
    description: str = ""
    licence: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        n_times, n_nodes = len(self.times), len(self.names)
        shapes = {"values": (n_times, n_nodes), "coordinates": (n_nodes, 2)}
        for field, shape in shapes.items():
            array = getattr(self, field)
            if array is not None and array.shape != shape:
                raise ValueError(
                    f"{field} must have the shape {shape} for {n_times} times and {n_nodes} sensors; got "
                    f"{array.shape}."
                )
        if self.graph is not None and self.graph.names != tuple(self.names):
            raise ValueError("The nodes of the graph must be the sensors, in the same order.")


def load_sensor_folder(
    path: str | os.PathLike,
    step: np.timedelta64 | timedelta | None = None,
    missing_value: float | None = None,
    directed: bool = False,
) -> SensorData:
    """Load your own readings of a sensor network from a folder.

    The folder contains one file of readings, and optionally edges and coordinates:

    - ``readings.csv`` (or ``readings.csv.gz``): the first column is ``time`` in ISO 8601, and each other
      column is a sensor. Separated by commas, semicolons or tabs, with decimal points. Empty entries, and NA,
      NaN, null, None, - and ?, are missing.
    - or ``readings.parquet``: the same columns (needs pyarrow);
    - or ``readings.npz``: arrays ``values`` (n_times, n_sensors) with NaN where missing, ``times`` (n_times,)
      as datetime64 or text, and ``names`` (n_sensors,).
    - ``edges.csv``: the columns ``from`` and ``to`` with names of sensors, and optionally ``weight``, a
      positive number.
    - ``coordinates.csv``: the columns ``name``, ``lat`` and ``lon`` in degrees. Every sensor must be listed;
      places that are not sensors are ignored.

    Rows may be in any order. The readings are put on a regular grid from the first to the last time, with
    missing rows where the file has none; see `to_regular_grid`. Nothing is averaged or interpolated. Sensors
    without edges are allowed: they are predicted from their own history alone.

    Parameters
    ----------
    path : path
        The folder.
    step : timedelta, default=None
        Step of the grid of times. None means the most frequent difference between successive times.
    missing_value : float, default=None
        A number that marks missing readings, such as -1. None means that all numbers are readings.
    directed : bool, default=False
        False adds the opposite direction of each edge. True keeps the edges as listed; a line then means that
        readings at ``from`` inform predictions at ``to``.

    Returns
    -------
    SensorData
        Its `graph` is None if there is no ``edges.csv``, and its `coordinates` are None if there is no
        ``coordinates.csv``.

    See Also
    --------
    load_berlin_traffic : Speeds on roads in Berlin.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     readings = "time,a,b\\n2024-01-01T00:00,1,2\\n2024-01-01T01:00,,3\\n2024-01-01T03:00,5,6\\n"
    ...     _ = (Path(folder) / "readings.csv").write_text(readings)
    ...     _ = (Path(folder) / "edges.csv").write_text("from,to\\na,b\\n")
    ...     data = load_sensor_folder(folder, step=np.timedelta64(1, "h"))
    >>> data.values.tolist(), data.graph
    ([[1.0, 2.0], [nan, 3.0], [nan, nan], [5.0, 6.0]], Graph(2 nodes, 2 edges, 0 isolated nodes))
    """
    check_path("path", path)
    check_bool({"directed": directed}, "directed")
    check_number({"missing_value": missing_value}, missing_value="(-inf, inf)", unless=None)
    folder = Path(path).expanduser()
    file = _readings_file(folder)
    table, times, columns = READERS[file.name](file)
    names = to_names(columns, f"The names of the sensors in {file}")
    values = _to_values(table, missing_value, len(names), file)
    try:
        values, moments = to_regular_grid(values, to_times(times), step)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    edges, places = folder / "edges.csv", folder / "coordinates.csv"
    return SensorData(
        values=values,
        times=moments,
        names=names,
        coordinates=_read_coordinates(places, names) if places.exists() else None,
        graph=_read_edges(edges, names, directed) if edges.exists() else None,
        description=f"Readings from {file}.",
    )


def _readings_file(folder: Path) -> Path:
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder}. Pass a folder that contains readings.csv.")
    files = [folder / name for name in READERS if (folder / name).exists()]
    if len(files) != 1:
        found = f"contains {' and '.join(file.name for file in files)}" if files else "contains none of them"
        raise FileNotFoundError(
            f"The folder must contain exactly one of {', '.join(READERS)}; {folder} {found}."
        )
    return files[0]


def _to_values(table: Any, missing_value: float | None, n_names: int, file: Path) -> Floats:
    try:
        values = to_table(table)
    except ValueError as error:
        reason = str(error).replace("X ", "the table ", 1)
        raise ValueError(f"The readings in {file} are invalid: {reason}") from error
    if values.shape[1] != n_names or not len(values):
        raise ValueError(
            f"{file} must have at least one row, and one column of readings for each of its {n_names} names; "
            f"got shape {values.shape}."
        )
    if missing_value is not None:
        values[values == missing_value] = np.nan
    return values


def _read_csv(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Number and entries of each line of a CSV file, separated by the most frequent separator in the first.

    Lines are counted from 1; empty ones are left out.
    """
    content = file.read_bytes()
    try:
        if file.suffix == ".gz":
            content = gzip.decompress(content)
        text = content.decode("utf-8-sig")
    except (EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{file} cannot be read as CSV in UTF-8: {error}.") from error
    separator = max(",;\t", key=text.partition("\n")[0].count)
    width = None
    for number, line in enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=separator), start=1):
        width = width or len(line)
        if line and len(line) != width:
            raise ValueError(
                f"Line {number} of {file} has {len(line)} entries, but the first line has {width}. Every "
                "line needs one entry per column, which may be empty."
            )
        if line:
            yield number, [entry.strip() for entry in line]


def _read_readings_csv(file: Path) -> tuple[Floats, Any, list[str]]:
    lines = _read_csv(file)
    _, header = next(lines, (1, []))
    if len(header) < 2 or header[0].lower() != TIME:
        raise ValueError(
            f"The first column of {file} must be called {TIME!r}, and the others by the names of the "
            f"sensors; got the columns {shown(header)}."
        )
    times, rows = [], []
    # Line by line, because text takes many times the memory of numbers.
    for _, (time, *entries) in lines:
        try:
            numbers = [np.nan if entry.lower() in MISSING_ENTRIES else float(entry) for entry in entries]
        except ValueError as error:
            raise ValueError(
                f"{file} must contain numbers with decimal points, but at the time {time!r}, {error}."
            ) from error
        times.append(time)
        rows.append(np.array(numbers))
    return np.array(rows).reshape(len(rows), len(header) - 1), times, header[1:]


def _read_readings_parquet(file: Path) -> tuple[Any, Any, list[str]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f"Reading {file} needs pyarrow: pip install 'stablemiss[files]', or write the readings as CSV."
        ) from error
    try:
        table = parquet.read_table(file)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(f"{file} cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    if TIME not in table.column_names:
        raise ValueError(
            f"{file} must have a column {TIME!r}; got the columns {shown(table.column_names)}. Write the "
            "index of a data frame as a column of this name."
        )
    column, readings = table[TIME], table.drop_columns([TIME])
    # Arrow stores times with a zone in UTC, and numpy has no zones, so they are UTC here.
    times = column.to_numpy() if pyarrow.types.is_timestamp(column.type) else column.to_pylist()
    columns = [column.to_numpy() for column in readings.columns]
    return np.column_stack(columns) if columns else np.empty((len(column), 0)), times, readings.column_names


def _read_readings_npz(file: Path) -> tuple[Any, Any, list[str]]:
    arrays = read_npz(file, ("values", "times", "names"))
    times = arrays["times"]
    names = arrays["names"]
    if names.dtype.kind != "U" or names.ndim != 1:
        raise ValueError(
            f"names in {file} must be an array of strings with one dimension; got {names.dtype} with shape "
            f"{names.shape}."
        )
    return arrays["values"], times if times.dtype.kind == "M" else times.tolist(), names.tolist()


READERS: dict[str, Callable[[Path], tuple[Any, Any, list[str]]]] = {
    "readings.csv": _read_readings_csv,
    "readings.csv.gz": _read_readings_csv,
    "readings.parquet": _read_readings_parquet,
    "readings.npz": _read_readings_npz,
}


def read_npz(file: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Read arrays of an npz file, without pickle; raises ValueError if it is damaged or lacks one of them."""
    try:
        # Opened here, because numpy does not close a damaged file.
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            absent = [name for name in names if name not in archive]
            arrays = {} if absent else {name: archive[name] for name in names}
    except (
        ValueError,
        OSError,
        EOFError,
        AttributeError,
        TypeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ValueError(
            f"{file} cannot be read as an npz file of arrays without objects: {error}"
        ) from error
    if absent:
        raise ValueError(f"{file} must contain the arrays {quoted(names)}; it has no {quoted(absent)}.")
    return arrays


class _Line(NamedTuple):
    """One line of a CSV file with a header, counted from 1; entries by the names of their columns."""

    file: Path
    line_number: int
    entries: dict[str, str]

    def number(self, column: str, above: float = -np.inf) -> float:
        """The finite number in a column; raises ValueError, which says where it is, if there is none."""
        entry = self.entries[column]
        try:
            found = float(entry)
        except ValueError:
            found = np.nan
        if not (np.isfinite(found) and found > above):
            bound = "" if above == -np.inf else f" above {above:g}"
            raise ValueError(
                f"{self.file} must have a finite number{bound} in the column {column!r} of line "
                f"{self.line_number}; got {shown(entry)}."
            )
        return found


def _columns(file: Path, *names: str) -> tuple[list[str], list[_Line]]:
    """Column names and lines of a CSV file that must have the given columns."""
    lines = list(_read_csv(file))
    header = [name.lower() for name in lines.pop(0)[1]] if lines else []
    absent = [name for name in names if name not in header]
    if absent or len(set(header)) < len(header):
        raise ValueError(
            f"{file} must have the columns {quoted(names)}, each once; got the columns {shown(header)}."
        )
    return header, [_Line(file, number, dict(zip(header, line, strict=True))) for number, line in lines]


def _read_edges(file: Path, names: tuple[str, ...], directed: bool) -> Graph:
    header, lines = _columns(file, "from", "to")
    pairs = [(line.entries["from"], line.entries["to"]) for line in lines]
    unknown = sorted({name for pair in pairs for name in pair} - set(names))
    if unknown:
        raise ValueError(
            f"{file} contains {quoted(unknown)}, which {'is' if len(unknown) == 1 else 'are'} not among the "
            f"{len(names)} sensors. Correct the names, or remove these edges."
        )
    weight = [line.number("weight", above=0) for line in lines] if "weight" in header else None
    try:
        return Graph.from_edges(names, pairs, weight, directed=directed)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _read_coordinates(file: Path, names: tuple[str, ...]) -> Floats:
    _, lines = _columns(file, "name", "lat", "lon")
    listed = [line.entries["name"] for line in lines]
    absent = sorted(set(names) - set(listed))
    if absent:
        raise ValueError(f"{file} must contain all {len(names)} sensors, but {quoted(absent)} are not in it.")
    places = {line.entries["name"]: (line.number("lat"), line.number("lon")) for line in lines}
    try:
        to_names(listed, "The names")
        return check_coordinates([places[name] for name in names])
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
