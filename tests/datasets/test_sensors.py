"""Folders of readings: every format gives the same data, and errors name the file and the place."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stablemiss.datasets import Graph, SensorData, SensorWindows, load_sensor_folder

NAMES = ("a", "b", "c")
TIMES = np.array(["2024-01-01T00", "2024-01-01T01", "2024-01-01T02", "2024-01-01T04"], dtype="datetime64[s]")
VALUES = np.array([[1.0, 2.0, 3.0], [np.nan, 5.0, 6.0], [7.5, -1.0, np.nan], [0.0, 1e3, -2.0]])
READINGS = """time,a,b,c
2024-01-01T00:00,1,2,3
2024-01-01T01:00,,5.0,6
2024-01-01T02:00,7.5,-1,NA
2024-01-01T04:00,0,1e3,-2
"""
GRID = np.insert(VALUES, 3, np.nan, axis=0)


def write(folder: Path, readings: str = READINGS, **others: str) -> Path:
    (folder / "readings.csv").write_text(readings, encoding="utf-8")
    for name, text in others.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


def write_gzip(folder: Path) -> None:
    (folder / "readings.csv.gz").write_bytes(gzip.compress(READINGS.encode()))


def write_semicolons(folder: Path) -> None:
    write(folder, "\ufeff" + READINGS.replace(",", ";").replace("\n", "\r\n"))


def write_shuffled(folder: Path) -> None:
    header, *lines = READINGS.splitlines()
    write(folder, "\n".join([header, *lines[::-1], ""]))


def write_zone(folder: Path) -> None:
    write(folder, READINGS.replace("T0", " 0").replace(":00,", ":00Z,"))


def write_parquet(folder: Path) -> None:
    pd.DataFrame(VALUES, columns=NAMES).assign(time=TIMES).to_parquet(folder / "readings.parquet")


def write_parquet_of_text_and_integers(folder: Path) -> None:
    frame = pd.DataFrame(VALUES, columns=NAMES, dtype="Float32").assign(time=TIMES.astype(str))
    frame.astype({"b": "int16"}).to_parquet(folder / "readings.parquet", index=False)


def write_npz(folder: Path) -> None:
    np.savez(folder / "readings.npz", values=VALUES, times=TIMES, names=np.array(NAMES))


def write_npz_of_text(folder: Path) -> None:
    times = TIMES.astype(str)
    np.savez_compressed(folder / "readings.npz", values=VALUES, times=times, names=np.array(NAMES))


@pytest.mark.parametrize(
    "writer",
    [
        write,
        write_gzip,
        write_semicolons,
        write_shuffled,
        write_zone,
        write_parquet,
        write_parquet_of_text_and_integers,
        write_npz,
        write_npz_of_text,
    ],
)
def test_all_formats_give_the_same_readings_on_a_regular_grid(tmp_path, writer):
    writer(tmp_path)
    data = load_sensor_folder(tmp_path)
    assert data.names == NAMES
    np.testing.assert_array_equal(data.values, GRID)
    np.testing.assert_array_equal(data.times, TIMES[0] + np.arange(5) * np.timedelta64(1, "h"))
    assert data.coordinates is None
    assert data.graph is None
    assert len(SensorWindows.of(data.values, data.times, past=2, future=2)) == 2


def test_a_marker_of_missing_readings_is_replaced(tmp_path):
    values = load_sensor_folder(write(tmp_path), missing_value=-1).values
    np.testing.assert_array_equal(values, np.where(GRID == -1, np.nan, GRID))


def test_a_step_can_be_given(tmp_path):
    data = load_sensor_folder(write(tmp_path), step=np.timedelta64(30, "m"))
    np.testing.assert_array_equal(data.values[::2], GRID)
    assert np.isnan(data.values[1::2]).all()


def test_edges_are_undirected_by_default_and_sensors_without_edges_are_isolated(tmp_path):
    write(tmp_path, edges="from,to,weight,street\nb,a,0.5,X\nb,b,1,Y\n")
    graph = load_sensor_folder(tmp_path).graph
    assert graph == Graph.from_edges(NAMES, [("a", "b")], weight=[0.5])
    assert graph.isolated.tolist() == [2]
    directed = load_sensor_folder(tmp_path, directed=True).graph
    assert directed == Graph.from_edges(NAMES, [("b", "a")], weight=[0.5], directed=True)


def test_an_empty_list_of_edges_is_a_graph_without_edges(tmp_path):
    assert load_sensor_folder(write(tmp_path, edges="from,to\n")).graph == Graph.none(NAMES)


def test_names_that_look_like_numbers_are_names(tmp_path):
    readings = READINGS.replace("time,a,b,c", "time,2,1,0")
    graph = load_sensor_folder(write(tmp_path, readings, edges="from,to\n2,1\n")).graph
    assert graph == Graph.from_edges(["2", "1", "0"], [(0, 1)])


def test_coordinates_follow_the_order_of_the_sensors_and_other_places_are_ignored(tmp_path):
    write(tmp_path, coordinates="lat,lon,name\n52.3,13.3,c\n52.1,13.1,a\n0,0,other\n52.2,13.2,b\n")
    data = load_sensor_folder(tmp_path)
    np.testing.assert_array_equal(data.coordinates, [[52.1, 13.1], [52.2, 13.2], [52.3, 13.3]])
    assert Graph.nearest(data.coordinates, k=1, names=data.names).n_edges == 4


@pytest.mark.parametrize(
    ("files", "facts"),
    [
        ({"readings": ""}, ["'time'", "[]"]),
        ({"readings": "time,a\n"}, ["at least one row"]),
        ({"readings": READINGS.replace("time", "when")}, ["'time'", "'when'"]),
        ({"readings": READINGS.replace("a,b,c", "a,a,c")}, ["distinct", "'a'"]),
        ({"readings": READINGS.replace("a,b,c", "a,,c")}, ["empty"]),
        ({"readings": READINGS.replace("7.5", "x")}, ["2024-01-01T02:00", "'x'"]),
        ({"readings": READINGS.replace("7.5", "inf")}, ["infinite"]),
        ({"readings": READINGS.replace("6\n", "6,7\n")}, ["Line 3", "5 entries", "has 4"]),
        ({"readings": READINGS.replace("01T02", "01T01")}, ["2024-01-01T01", "more than once"]),
        ({"readings": READINGS.replace("T02:00", "T02:07")}, ["2024-01-01T02:07", "step"]),
        ({"readings": READINGS.replace("2024-01-01T02:00", "1.1.2024")}, ["'1.1.2024'", "ISO 8601"]),
        ({"edges": "a,b\n"}, ["'from', 'to'", "edges.csv"]),
        ({"edges": "from,to\na,x\ny,b\n"}, ["'x', 'y'", "3 sensors", "edges.csv"]),
        ({"edges": "from,to\na,b\na,b\n"}, ["'a'", "'b'", "twice", "edges.csv"]),
        ({"edges": "from,to\na,b\nb,a\n"}, ["twice", "directed=True"]),
        ({"edges": "from,to\na\n"}, ["Line 2", "1 entries"]),
        ({"edges": "from,to,weight\na,b,0\n"}, ["above 0", "edges.csv", "line 2", "'weight'"]),
        ({"edges": "from,to,weight\n\na,b,1\na,c,x\n"}, ["'x'", "edges.csv", "line 4", "'weight'"]),
        ({"coordinates": "name,lat,lon\na,52,13\n"}, ["'b', 'c'", "coordinates.csv"]),
        ({"coordinates": "name,lat,lon\na,1,1\na,2,2\nb,1,1\nc,1,1\n"}, ["'a'", "2 times"]),
        ({"coordinates": "name,lat,lon\na,1,1\nb,95,2\nc,1,1\n"}, ["latitudes", "95"]),
        ({"coordinates": "name,lat,lon\na,1,1\nb,,2\nc,1,1\n"}, ["coordinates.csv", "''", "line 3", "'lat'"]),
    ],
)
def test_the_error_for_a_wrong_file_says_what_and_where(tmp_path, files, facts):
    with pytest.raises(ValueError) as error:
        load_sensor_folder(write(tmp_path, **files))
    for fact in (*facts, str(tmp_path)):
        assert fact in str(error.value)


@pytest.mark.parametrize(
    ("arrays", "fact"),
    [
        ({"values": VALUES, "times": TIMES}, "no 'names'"),
        ({"values": VALUES, "times": TIMES, "names": np.array(NAMES[:2])}, "2 names"),
        ({"values": VALUES[:3], "times": TIMES, "names": np.array(NAMES)}, "3 rows"),
        ({"values": VALUES[0], "times": TIMES, "names": np.array(NAMES)}, r"\(3,\)"),
        ({"values": VALUES, "times": TIMES, "names": np.arange(3)}, "array of strings"),
        ({"values": VALUES, "times": np.arange(4), "names": np.array(NAMES)}, "ISO 8601"),
        ({"values": VALUES.astype(object), "times": TIMES, "names": np.array(NAMES)}, "objects"),
        ({"values": VALUES.astype(str), "times": TIMES, "names": np.array(NAMES)}, "numbers"),
    ],
)
def test_the_error_for_wrong_arrays_says_which(tmp_path, arrays, fact):
    np.savez(tmp_path / "readings.npz", **arrays)
    with pytest.raises(ValueError, match=fact):
        load_sensor_folder(tmp_path)


@pytest.mark.parametrize("name", ["readings.npz", "readings.parquet", "readings.csv.gz"])
@pytest.mark.parametrize("damage", ["cut", "empty", "text"])
def test_a_damaged_file_is_named(tmp_path, name, damage):
    {"npz": write_npz, "parquet": write_parquet, "gz": write_gzip}[name.rpartition(".")[2]](tmp_path)
    file = tmp_path / name
    content = file.read_bytes()
    file.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "text": b"no such format"}[damage])
    with pytest.raises(ValueError, match=name):
        load_sensor_folder(tmp_path)


def test_parquet_without_a_time_column_says_so(tmp_path):
    pd.DataFrame(VALUES, columns=NAMES).to_parquet(tmp_path / "readings.parquet")
    with pytest.raises(ValueError, match="column 'time'"):
        load_sensor_folder(tmp_path)


def test_the_folder_must_contain_exactly_one_file_of_readings(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"readings\.parquet"):
        load_sensor_folder(tmp_path)
    write(tmp_path)
    write_npz(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"readings\.csv and readings\.npz"):
        load_sensor_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder"):
        load_sensor_folder(tmp_path / "other")
    with pytest.raises(TypeError, match="path"):
        load_sensor_folder(5)


@pytest.mark.parametrize("options", [{"step": 5}, {"missing_value": "x"}, {"directed": "x"}])
def test_wrong_options_raise(tmp_path, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        load_sensor_folder(write(tmp_path), **options)


def test_sensor_data_must_agree_in_length_and_order():
    times = TIMES[:3]
    for wrong in (
        {"values": np.zeros((4, 3))},
        {"coordinates": np.zeros((2, 2))},
        {"graph": Graph.none("abd")},
    ):
        with pytest.raises(ValueError):
            SensorData(**{"values": np.zeros((3, 3)), "times": times, "names": NAMES} | wrong)
