"""Traffic in Berlin: the publisher's files, the cache, and the real data. Stand-ins have 3 sections."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from stablemiss.datasets import Graph, SensorWindows, berlin_traffic, load_berlin_traffic, source
from stablemiss.datasets.berlin_traffic import CACHE, FOLDER, MONTHS, STATIONS, _places_of_excel, read_raw

NAMES = ("TE001", "TE002", "TE003n")
HEADER = (
    "mq_name;tag;stunde;qualitaet;q_kfz_mq_hr;v_kfz_mq_hr;q_pkw_mq_hr;v_pkw_mq_hr;q_lkw_mq_hr;v_lkw_mq_hr"
)
NODES = "mq,street,lat,lon\nTE001,A,52.1,13.1\nTE003,B,52.3,13.3\nTE002,C,52.2,13.2\nTE009,D,52.9,13.9\n"
N_HOURS = 16_800


def line(name: str, day: str, hour: int, flow: int, speed: int) -> str:
    return f"{name};{day};{hour};1.0;{flow};{speed};{flow};{speed};0;-1"


def month_file(folder: Path, month: str) -> Path:
    return folder / FOLDER / "raw" / f"mq_hr_{month}.csv.gz"


def put(folder: Path, month: str, lines: list[str], header: str = HEADER) -> None:
    file = month_file(folder, month)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress("\n".join([header, *lines, ""]).encode()))


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A data folder with all monthly files: one row each, and more in the first and the last month."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "data"
    for month in MONTHS:
        year, number = str(month).split("-")
        put(folder, f"{year}_{number}", [line("TE001", f"15.{number}.{year}", 12, 600, 50)])
    rows = [
        line("TE001", "01.01.2023", 0, 100, 40),
        line("TE002", "01.01.2023", 0, 0, -1),  # no vehicle passed
        line("TE003n", "01.01.2023", 1, 7, 33),
    ]
    put(folder, "2023_01", rows[::-1])
    put(folder, "2024_11", [line("TE002", "30.11.2024", 23, 5240, 144)])
    (folder / FOLDER / "berlin_nodes.csv").write_text(NODES, encoding="utf-8")
    return folder


def test_absent_rows_and_minus_one_are_missing_on_a_grid_of_all_hours(folder):
    speed, flow = (load_berlin_traffic(folder, quantity) for quantity in ("speed", "flow"))
    assert speed.names == flow.names == NAMES
    assert speed.values.shape == flow.values.shape == (N_HOURS, 3)
    assert (speed.times[0], speed.times[-1]) == (
        np.datetime64("2023-01-01T00"),
        np.datetime64("2024-11-30T23"),
    )
    np.testing.assert_array_equal(speed.values[:2], [[40, np.nan, np.nan], [np.nan, np.nan, 33]])
    np.testing.assert_array_equal(flow.values[:2], [[100, 0, np.nan], [np.nan, np.nan, 7]])
    assert (speed.values[-1, 1], flow.values[-1, 1]) == (144, 5240)
    # 21 months in between have one row, the first month three and the last month one.
    assert (~np.isnan(flow.values)).sum() == 25
    assert (~np.isnan(speed.values)).sum() == 24
    assert len(SensorWindows.of(speed.values, speed.times)) == N_HOURS - 15


def test_replacement_devices_have_the_coordinates_of_the_device_they_replaced(folder):
    places = load_berlin_traffic(folder).coordinates
    np.testing.assert_array_equal(places, [[52.1, 13.1], [52.2, 13.2], [52.3, 13.3]])


def test_coordinates_may_come_from_the_list_of_detectors(folder):
    openpyxl = pytest.importorskip("openpyxl")
    expected = load_berlin_traffic(folder)
    for name in ("berlin_nodes.csv", CACHE):
        (folder / FOLDER / name).unlink()
    with pytest.raises(FileNotFoundError, match=STATIONS):
        load_berlin_traffic(folder)
    book = openpyxl.Workbook()
    book.active.append(["MQ_KURZNAME", "SPUR", "LÄNGE (WGS84)", "BREITE (WGS84)"])
    for row in NODES.splitlines()[1:]:
        name, _, latitude, longitude = row.split(",")
        for lane in ("HF_R", "HF_2vR"):
            book.active.append([name, lane, float(longitude), float(latitude)])
    book.save(folder / FOLDER / "raw" / STATIONS)
    np.testing.assert_array_equal(load_berlin_traffic(folder).coordinates, expected.coordinates)


def test_the_publishers_files_are_read_once_and_then_the_cache(folder):
    first = load_berlin_traffic(folder)
    assert (folder / FOLDER / CACHE).exists()
    for month in MONTHS:
        month_file(folder, str(month).replace("-", "_")).unlink()
    again = load_berlin_traffic(folder)
    np.testing.assert_array_equal(again.values, first.values)
    np.testing.assert_array_equal(again.coordinates, first.coordinates)
    assert again.names == first.names


def test_the_cache_of_a_folder_that_is_not_writable_is_in_the_home_folder_and_only_for_these_files(
    folder, tmp_path, monkeypatch
):
    original = berlin_traffic.atomic_write

    # Permissions would not do, because tests may run as root.

    def atomic_write(path):
        if Path(path).parent == folder / FOLDER:
            raise PermissionError("read-only")
        return original(path)

    monkeypatch.setattr(berlin_traffic, "atomic_write", atomic_write)
    first = load_berlin_traffic(folder)
    cached = list((tmp_path / "home").rglob("*.npz"))
    assert len(cached) == 1
    assert not (folder / FOLDER / CACHE).exists()
    with monkeypatch.context() as unread:
        unread.setattr(berlin_traffic, "read_raw", None)
        np.testing.assert_array_equal(load_berlin_traffic(folder).values, first.values)
    put(folder, "2024_11", [line("TE002", "30.11.2024", 23, 1, 99), line("TE001", "30.11.2024", 23, 1, 9)])
    assert load_berlin_traffic(folder).values[-1, 1] == 99
    with pytest.raises(FileNotFoundError):
        load_berlin_traffic(tmp_path / "other")


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"speed": np.zeros((5, 3), np.int16)}, r"speed .*\(5, 3\)"),
        ({"flow": np.zeros((N_HOURS, 3))}, "flow .*float64"),
        ({"speed": np.full((N_HOURS, 3), -2, np.int16)}, "speed has values below -1"),
        ({"time": np.datetime64("2023-01-01T01") + np.arange(N_HOURS)}, "every hour"),
        ({"mq": np.array(["a", "b", "a"])}, "distinct"),
        ({"lat": np.array([np.nan, 1, 2])}, "lat is not finite"),
        ({"lon": np.zeros(2)}, r"lon .*\(2,\)"),
        ({"lon": None}, "no 'lon'"),
    ],
)
def test_a_wrong_cache_raises_an_error_with_its_path(folder, change, fact):
    load_berlin_traffic(folder)
    file = folder / FOLDER / CACHE
    with np.load(file) as archive:
        arrays = dict(archive) | change
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ValueError, match=fact) as error:
        load_berlin_traffic(folder)
    assert str(file) in str(error.value)


def test_a_truncated_cache_raises(folder):
    load_berlin_traffic(folder)
    file = folder / FOLDER / CACHE
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match=CACHE.replace(".", r"\.")):
        load_berlin_traffic(folder)


@pytest.mark.parametrize(
    ("lines", "fact"),
    [
        ([], "no rows"),
        ([line("TE001", "01.06.2023", 0, 1, 1)], "not in 2023-05"),
        ([line("TE001", "32.05.2023", 0, 1, 1)], "damaged"),
        ([line("TE001", "01.05.2023", 24, 1, 1)], "not in 2023-05"),
        ([line("TE001", "01.05.2023", 0, 1, 1)] * 2, "same section and hour"),
        ([line("TE001", "01.05.2023", 0, -1, 1)], "between -1 and -1"),
        ([line("TE001", "01.05.2023", 0, 1, -2)], "between -2 and -2"),
        ([line("TE001", "01.05.2023", 0, 40_000, 1)], "40000"),
        ([line("TE001", "01.05.2023", 0, 1, 1)[:20]], "damaged"),
        ([line("TE001", "01.05.2023", 0, 1, 1).replace("1.0;1;", "1.0;x;")], "damaged"),
        ([line("TE777", "01.05.2023", 0, 1, 1)], "coordinates of 'TE777'"),
    ],
)
def test_a_wrong_monthly_file_raises(folder, lines, fact):
    put(folder, "2023_05", lines)
    with pytest.raises(ValueError, match=fact):
        load_berlin_traffic(folder)
    assert not (folder / FOLDER / CACHE).exists()


def test_a_truncated_file_and_other_columns_raise(folder):
    put(folder, "2023_05", [line("TE001", "01.05.2023", 0, 1, 1)], HEADER.replace("v_kfz", "v_lkw"))
    with pytest.raises(ValueError, match=r"mq_hr_2023_05.*v_kfz_mq_hr"):
        load_berlin_traffic(folder)
    file = month_file(folder, "2023_05")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ValueError, match="mq_hr_2023_05"):
        load_berlin_traffic(folder)


def test_absent_months_are_named_with_the_way_to_get_them(folder, tmp_path):
    month_file(folder, "2023_05").unlink()
    with pytest.raises(FileNotFoundError) as error:
        load_berlin_traffic(folder)
    for fact in ("'mq_hr_2023_05.csv.gz'", "https://", "data_home", source.ENVIRONMENT_VARIABLE, str(folder)):
        assert fact in str(error.value)
    with pytest.raises(FileNotFoundError, match="and 20 more"):
        load_berlin_traffic(tmp_path)


def test_another_quantity_raises(folder):
    with pytest.raises(ValueError, match="'speed' or 'flow'; got 'noise'"):
        load_berlin_traffic(folder, quantity="noise")


def test_the_real_data_have_the_known_size_and_missing_rates(real_folder):
    folder = real_folder(f"{FOLDER}/{CACHE}")
    speed, flow = (load_berlin_traffic(folder, quantity) for quantity in ("speed", "flow"))
    assert speed.values.shape == flow.values.shape == (N_HOURS, 232)
    missing = np.isnan(speed.values)
    assert missing.all(axis=1).sum() == 303
    assert missing.mean() == pytest.approx(0.3307, abs=1e-4)
    is_2023 = speed.times < np.datetime64("2024-01-01")
    assert missing[is_2023].mean() == pytest.approx(0.262, abs=1e-3)
    assert missing[~is_2023].mean() == pytest.approx(0.405, abs=1e-3)
    assert (missing & ~np.isnan(flow.values)).sum() == 16_522
    graph = Graph.nearest(speed.coordinates, k=8, names=speed.names)
    assert not len(graph.isolated)


def test_the_mean_by_hour_of_week_predicts_the_real_speeds_of_the_next_year(real_folder):
    traffic = load_berlin_traffic(real_folder(f"{FOLDER}/{CACHE}"))
    windows = SensorWindows.of(traffic.values, traffic.times)
    train, test = windows.between(None, "2024-01-01"), windows.between("2024-01-01")[::20]
    assert len(train) == 8_745
    error = test.future() - test.seasonal(train.hour_of_week_mean())
    # An independent computation gave 7.85 km/h, with another rule for hours without readings.
    assert np.sqrt(np.nanmean(error**2)) == pytest.approx(7.85, abs=0.1)


def test_the_publishers_real_files_give_exactly_the_ready_made_arrays(real_folder):
    folder = real_folder(f"{FOLDER}/raw/mq_hr_2023_01.csv.gz") / FOLDER
    arrays = read_raw(folder)
    with np.load(folder / CACHE) as ready:
        assert set(ready) == set(arrays)
        for name in ready:
            np.testing.assert_array_equal(arrays[name], ready[name])


def test_the_real_list_of_detectors_has_the_coordinates_of_the_ready_made_table(real_folder):
    folder = real_folder(f"{FOLDER}/raw/{STATIONS}")
    places = _places_of_excel(folder / FOLDER / "raw" / STATIONS)
    traffic = load_berlin_traffic(folder)
    found = [places.get(name) or places[name.removesuffix("n")] for name in traffic.names]
    np.testing.assert_array_equal(traffic.coordinates, found)
