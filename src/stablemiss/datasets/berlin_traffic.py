"""Hourly speeds and flows on roads in Berlin, 2023 and 2024: a sensor network whose missingness shifts."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stablemiss.checks import check_choice, shown
from stablemiss.data import Floats
from stablemiss.datasets.sensors import SensorData, read_npz
from stablemiss.datasets.source import ENVIRONMENT_VARIABLE, data_folder
from stablemiss.datasets.times import Times
from stablemiss.text import quoted
from stablemiss.writing import atomic_write

FOLDER = "berlin_traffic"
CACHE = "berlin_hourly_2023-01_2024-11.npz"
NODES = "berlin_nodes.csv"
STATIONS = "Stammdaten_Verkehrsdetektion_2022_07_20.xlsx"
PAGE = "https://github.com/XavB64/traffic-volume-data-EU-cities"

MONTHS = np.arange("2023-01", "2024-12", dtype="datetime64[M]")
# The publisher's columns: cross-section, day, hour, number of vehicles, their mean speed.
COLUMNS = ("mq_name", "tag", "stunde", "q_kfz_mq_hr", "v_kfz_mq_hr")
# In the cache, and for speeds in the publisher's files, this value marks missing readings.
MISSING_VALUE = -1
QUANTITIES = ("speed", "flow")


def load_berlin_traffic(data_home: str | os.PathLike | None = None, quantity: str = "speed") -> SensorData:
    """Load hourly readings at 232 road cross-sections in Berlin, January 2023 to November 2024.

    The grid has all 16,800 hours, including 303 at which every section is missing. A reading is missing for
    one of two reasons:

    - The publisher's file has no row: fewer than 75 % of the intervals of the hour were valid, or one lane of
      the section was invalid. This makes 33 % of the hours, in long blocks, and more in 2024 than in 2023.
    - The speed is given as -1, almost always because no vehicle passed: 16,522 hours, 0.4 %. Their flow is
      observed, and is 0 except in 25 hours.

    The times are local times, named by their first minute. In spring one or two hours are missing when clocks
    are changed. In autumn the hour from 2:00 to 2:59 occurs twice, but has one row, whose flow is about the
    sum of both.

    Parameters
    ----------
    data_home : path, default=None
        Folder that contains ``berlin_traffic``. None means the environment variable STABLEMISS_DATA or, if it
        is not set, ``.cache/stablemiss`` in the home folder. The folder ``berlin_traffic`` contains either
        ``berlin_hourly_2023-01_2024-11.npz``, or the publisher's files ``raw/mq_hr_2023_01.csv.gz`` to
        ``raw/mq_hr_2024_11.csv.gz`` with the coordinates in ``berlin_nodes.csv`` or, which needs openpyxl, in
        ``raw/Stammdaten_Verkehrsdetektion_2022_07_20.xlsx``. The npz file is written when the publisher's
        files are read for the first time (a few seconds), into ``berlin_traffic`` or, if that is not
        writable, into ``.cache/stablemiss/berlin_traffic`` in the home folder.
    quantity : {"speed", "flow"}, default="speed"
        "speed" is the mean speed of all vehicles in km/h, "flow" their number per hour.

    Returns
    -------
    SensorData
        16,800 hours, 232 sections. It has no graph; the sections are points on directed roads, so the nearest
        one is often the opposite direction of the same road. Devices called TExxxn replaced TExxx and have
        its coordinates.

    See Also
    --------
    SensorWindows : Histories and futures for prediction.
    Graph.nearest : A graph of the coordinates.
    load_sensor_folder : Readings of other networks.

    Examples
    --------
    >>> traffic = load_berlin_traffic()  # doctest: +SKIP
    >>> traffic.values.shape, round(float(np.isnan(traffic.values).mean()), 3)  # doctest: +SKIP
    ((16800, 232), 0.331)
    """
    check_choice({"quantity": quantity}, quantity=QUANTITIES)
    arrays = _read_arrays(data_folder(data_home) / FOLDER)
    values = arrays[quantity].astype(np.float64)
    values[arrays[quantity] == MISSING_VALUE] = np.nan
    meaning = "Mean speed in km/h" if quantity == "speed" else "Number"
    return SensorData(
        values=values,
        times=arrays["time"],
        names=tuple(arrays["mq"].tolist()),
        coordinates=np.column_stack([arrays["lat"], arrays["lon"]]),
        description=(
            f"{meaning} of all vehicles in each hour at cross-sections of roads in Berlin, by direction, "
            "January 2023 to November 2024. Missing: no valid hourly value"
            + (", or no vehicle passed." if quantity == "speed" else ".")
        ),
        licence="Data licence Germany - attribution - version 2.0 (Digitale Plattform Stadtverkehr Berlin)",
        source=PAGE,
    )


def _read_arrays(folder: Path) -> dict[str, NDArray]:
    """The arrays of the cache; without a cache they are read from the publisher's files and cached."""
    if (folder / CACHE).exists():
        return _read_cache(folder / CACHE)
    files = _monthly_files(folder)
    # A cache outside the folder belongs to these files only, so they are part of its name.
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = hashlib.sha256(repr(stats).encode()).hexdigest()[:12]
    fallback = Path.home() / ".cache" / "stablemiss" / FOLDER / f"{Path(CACHE).stem}-{key}.npz"
    if fallback.exists():
        return _read_cache(fallback)
    arrays = read_raw(folder)
    for file in (folder / CACHE, fallback):
        # Without a place for the cache, the files are read again next time.
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(file) as unfinished:
                np.savez_compressed(unfinished, allow_pickle=False, **arrays)
            break
    return arrays


def _read_cache(file: Path) -> dict[str, NDArray]:
    arrays = read_npz(file, ("speed", "flow", "time", "mq", "lat", "lon"))
    n = len(arrays["mq"]) if arrays["mq"].ndim == 1 else 0
    hours = _hours()
    expected = {
        "speed": ((len(hours), n), "i"),
        "flow": ((len(hours), n), "i"),
        "time": ((len(hours),), "M"),
        "mq": ((n,), "U"),
        "lat": ((n,), "f"),
        "lon": ((n,), "f"),
    }
    problems = [
        f"{name} has the type {arrays[name].dtype} and the shape {arrays[name].shape}"
        for name, (shape, kind) in expected.items()
        if arrays[name].shape != shape or arrays[name].dtype.kind != kind
    ]
    if not problems:
        if not np.array_equal(arrays["time"], hours):
            problems.append(f"time does not hold every hour from {hours[0]} to {hours[-1]}")
        problems += [
            f"{name} has values below {MISSING_VALUE}"
            for name in QUANTITIES
            if arrays[name].size and arrays[name].min() < MISSING_VALUE
        ]
        if n == 0 or len(np.unique(arrays["mq"])) < n:
            problems.append("mq does not hold distinct names")
        problems += [
            f"{name} is not finite" for name in ("lat", "lon") if not np.isfinite(arrays[name]).all()
        ]
    if problems:
        raise ValueError(
            f"{file} is not the cache of the traffic in Berlin: {'; '.join(problems)}. Delete it to build it "
            "again from the publisher's files."
        )
    return arrays


def read_raw(folder: Path) -> dict[str, NDArray]:
    """Read the publisher's monthly files and the coordinates into the arrays of the cache.

    Parameters
    ----------
    folder : Path
        Contains ``raw`` with the monthly files.

    Returns
    -------
    dict
        speed (km/h) and flow (vehicles per hour), both (n_times, n_sections) int16 with -1 where missing;
        time (n_times,) datetime64[h]; names mq, and coordinates lat and lon (degrees), each (n_sections,).
    """
    files = _monthly_files(folder)
    months = [_read_month(file, month) for file, month in zip(files, MONTHS, strict=True)]
    names = np.array(sorted({name for month in months for name in np.unique(month["name"]).tolist()}))
    latitude, longitude = _coordinates(folder, names.tolist()).T
    hours = _hours()
    speed, flow = np.full((2, len(hours), len(names)), MISSING_VALUE, dtype=np.int16)
    for file, month in zip(files, months, strict=True):
        hour = (month["time"] - hours[0]).astype(np.int64)
        section = np.searchsorted(names, month["name"])
        if len(np.unique(hour * len(names) + section)) < len(hour):
            raise ValueError(f"{file} has several rows for the same section and hour. Download it again.")
        speed[hour, section], flow[hour, section] = month["speed"], month["flow"]
    return {"speed": speed, "flow": flow, "time": hours, "mq": names, "lat": latitude, "lon": longitude}


def _monthly_files(folder: Path) -> list[Path]:
    stems = [f"mq_hr_{str(month).replace('-', '_')}.csv" for month in MONTHS]
    files = [_existing(folder / "raw", stem) for stem in stems]
    absent = [f"{stem}.gz" for stem, file in zip(stems, files, strict=True) if file is None]
    if absent:
        raise FileNotFoundError(
            f"The traffic in Berlin is not in {folder / CACHE}, and {folder / 'raw'} lacks "
            f"{quoted(absent, 3)}: copy these files and {STATIONS} from Germany/Berlin/raw in {PAGE}, or "
            f"pass the folder that contains {FOLDER} as data_home or in the environment variable "
            f"{ENVIRONMENT_VARIABLE}."
        )
    return [file for file in files if file is not None]


def _read_month(file: Path, month: np.datetime64) -> dict[str, NDArray]:
    """The rows of a monthly file: name, time, speed and flow."""
    try:
        content = file.read_bytes()
        text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode("utf-8-sig")
        header = text.partition("\n")[0].strip().split(";")
        positions = [header.index(column) for column in COLUMNS]
        if not text.partition("\n")[2].strip():
            raise ValueError("it has no rows")
        name, day, hour, flow, speed = np.loadtxt(
            io.StringIO(text),
            dtype=[("name", "U16"), ("day", "U10"), ("hour", "i8"), ("flow", "i8"), ("speed", "i8")],
            delimiter=";",
            skiprows=1,
            usecols=positions,
            unpack=True,
            ndmin=1,
            comments=None,
        )
        days, index = np.unique(day, return_inverse=True)
        dates = np.array(["-".join(text.split(".")[::-1]) for text in days], dtype="datetime64[D]")
        times = dates[index].astype("datetime64[h]") + hour
    except (EOFError, OSError, zlib.error, ValueError) as error:
        raise ValueError(
            f"{file} is damaged, or not a file of the publisher with the columns {';'.join(COLUMNS)} "
            f"({error}). Download it again."
        ) from error
    outside = times.astype("datetime64[M]") != month
    if outside.any() or (hour < 0).any() or (hour > 23).any():
        raise ValueError(f"{file} has rows that are not in {month}, such as {shown(day[outside.argmax()])}.")
    for quantity, lowest in ((speed, MISSING_VALUE), (flow, 0)):
        if quantity.min() < lowest or quantity.max() > np.iinfo(np.int16).max:
            raise ValueError(
                f"{file} has speeds or flows between {quantity.min()} and {quantity.max()}, which cannot be "
                "right. Download it again."
            )
    return {"name": name, "time": times, "speed": speed, "flow": flow}


def _coordinates(folder: Path, names: list[str]) -> Floats:
    """Latitude and longitude of the sections, (n, 2)."""
    nodes, stations = folder / NODES, folder / "raw" / STATIONS
    if nodes.exists():
        file, places = nodes, _places_of_csv(nodes)
    elif stations.exists():
        file, places = stations, _places_of_excel(stations)
    else:
        raise FileNotFoundError(
            f"The coordinates of the traffic in Berlin are neither in {nodes} nor in {stations}: copy the "
            f"latter from Germany/Berlin/raw in {PAGE}."
        )
    # TExxxn replaced the device TExxx at the same place.
    found = [places.get(name) or places.get(name.removesuffix("n")) for name in names]
    absent = [name for name, place in zip(names, found, strict=True) if place is None]
    if absent:
        raise ValueError(f"{file} has no coordinates of {quoted(absent)}. Use the original file.")
    return np.array(found, dtype=np.float64)


def _places_of_csv(file: Path) -> dict[str, tuple[float, float]]:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        try:
            return {row["mq"]: (float(row["lat"]), float(row["lon"])) for row in csv.DictReader(stream)}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{file} must have the columns mq, lat and lon, with coordinates in degrees ({error})."
            ) from error


def _places_of_excel(file: Path) -> dict[str, tuple[float, float]]:
    """Coordinates of the publisher's list of detectors; those of one section share them."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise ImportError(
            f"Reading {file} needs openpyxl: pip install 'stablemiss[excel]', or put {NODES} beside the "
            "folder raw."
        ) from error
    book = load_workbook(file, read_only=True)
    try:
        header, *rows = book.worksheets[0].iter_rows(values_only=True)
    finally:
        book.close()
    columns = ("MQ_KURZNAME", "BREITE (WGS84)", "LÄNGE (WGS84)")
    absent = [column for column in columns if column not in header]
    if absent:
        raise ValueError(f"{file} must have the columns {quoted(columns)}; it has no {quoted(absent)}.")
    name, latitude, longitude = (header.index(column) for column in columns)
    places: dict[str, tuple[float, float]] = {}
    for row in rows:
        if row[name] and row[latitude] is not None and row[longitude] is not None:
            places.setdefault(str(row[name]), (float(row[latitude]), float(row[longitude])))
    return places


def _existing(folder: Path, stem: str) -> Path | None:
    return next((file for file in (folder / f"{stem}.gz", folder / stem) if file.exists()), None)


def _hours() -> Times:
    """Every hour of the months."""
    return np.arange(MONTHS[0], MONTHS[-1] + 1, dtype="datetime64[h]")
