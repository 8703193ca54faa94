from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from stablemiss.datasets import air_quality, load_air_quality, source
from stablemiss.datasets.air_quality import AIR_QUALITY, FILE, parse_air_quality

# As in the real file: two empty columns, empty rows at the end, carriage returns.
TEXT = (
    "Date;Time;CO(GT);PT08.S1(CO);T;;\r\n"
    "10/03/2004;18.00.00;2,6;1360;13,6;;\r\n"
    "10/03/2004;19.00.00;-200;1292;13,3;;\r\n"
    "14/03/2004;00.00.00;2,2;-200;-200,0;;\r\n"
    ";;;;;;\r\n"
    ";;;;;;\r\n"
)


def test_decimal_commas_are_read_and_minus_200_is_missing():
    table = parse_air_quality(TEXT)
    assert table.feature_names == ("PT08.S1(CO)", "T", "hour", "weekday")
    np.testing.assert_array_equal(table.X, [[1360.0, 13.6, 18.0, 2.0], [np.nan, np.nan, 0.0, 6.0]])


def test_rows_without_the_target_are_dropped():
    np.testing.assert_array_equal(parse_air_quality(TEXT).y, [2.6, 2.2])
    by_temperature = parse_air_quality(TEXT, target="T")
    np.testing.assert_array_equal(by_temperature.y, [13.6, 13.3])
    np.testing.assert_array_equal(by_temperature.X[:, 0], [2.6, np.nan])


@pytest.mark.parametrize("target", ["hour", "Date", "", "co"])
def test_only_measured_columns_can_be_targets(target):
    with pytest.raises(ValueError, match=r"one of CO\(GT\), PT08\.S1\(CO\), T"):
        parse_air_quality(TEXT, target)


def zipped(content: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(FILE, content)
    return buffer.getvalue()


def test_the_file_in_the_archive_is_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "download", lambda url: zipped(TEXT))
    with pytest.raises(FileNotFoundError, match=f"sha256 must be {air_quality.SHA256}"):
        load_air_quality(tmp_path)
    assert not list(tmp_path.rglob("*.csv*"))


def test_an_error_page_instead_of_the_archive_raises(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "download", lambda url: b"<html>log in first</html>")
    with pytest.raises(FileNotFoundError, match=f"download {FILE} from https://archive.ics.uci.edu"):
        load_air_quality(tmp_path)


def test_the_error_without_network_says_where_to_download_the_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"download {FILE} from https://archive.ics.uci.edu"):
        load_air_quality(tmp_path)


def test_a_corrupt_file_raises(tmp_path):
    file = tmp_path / AIR_QUALITY.path
    file.parent.mkdir()
    file.write_text(TEXT)
    with pytest.raises(ValueError, match=air_quality.SHA256):
        load_air_quality(tmp_path)


def test_the_real_file_can_be_read_from_an_archive(tmp_path, monkeypatch, real_folder):
    folder = real_folder(AIR_QUALITY)
    text = (folder / AIR_QUALITY.path).read_bytes().decode()
    monkeypatch.setattr(source, "download", lambda url: zipped(text))
    assert load_air_quality(tmp_path).X.shape == load_air_quality(folder).X.shape


def test_the_real_table_has_the_known_size_and_missing_rates(real_folder):
    table = load_air_quality(real_folder(AIR_QUALITY))
    assert table.X.shape == (7674, 14)
    assert np.isfinite(table.y).all()
    assert table.y.min() > 0
    missing = dict(zip(table.feature_names, np.isnan(table.X).mean(axis=0), strict=True))
    assert missing["hour"] == missing["weekday"] == 0
    assert missing["NMHC(GT)"] > 0.8
    assert 0.03 < missing["T"] < 0.06
    # The missingness changes over time: one analyser is always missing in the second half.
    nmhc = np.isnan(table.X[:, table.feature_names.index("NMHC(GT)")])
    assert nmhc[: len(nmhc) // 4].mean() < 0.6
    assert nmhc[len(nmhc) // 2 :].all()
