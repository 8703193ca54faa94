from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from stablemiss.datasets import house, load_house_sales, source
from stablemiss.datasets.house import FEATURES, HOUSE_SALES, arff_to_csv, parse_house_sales

COLUMNS = ("id", "date", "price", *FEATURES)


def cells(row: int) -> list[str]:
    """One artificial sale: each feature is its position plus 100 times the row; quotes as in the file."""
    numbers = [str(100 * row + position) for position in range(len(FEATURES))]
    return [f'"712930052{row}"', '"20141013T000000"', str(220_000 + 5_000 * row), *numbers]


def csv_text(columns: tuple[str, ...] = COLUMNS, n_rows: int = 3) -> str:
    order = [COLUMNS.index(name) for name in columns]
    lines = [",".join(cells(row)[i] for i in order) for row in range(n_rows)]
    return "\n".join([",".join(columns), *lines]) + "\n"


def arff_text(n_rows: int = 3) -> str:
    kinds = {"id": "STRING", "date": "STRING", "zipcode": "STRING"}
    names = [f"@ATTRIBUTE {name} {kinds.get(name, 'REAL')}" for name in COLUMNS]
    lines = [",".join(cells(row)).replace('"', "'") for row in range(n_rows)]
    return "\n".join(["% artificial", "@RELATION house_sales", "", *names, "", "@DATA", *lines]) + "\n"


def openml(content: bytes, digest: str | None = None):
    """A mock of the server: first the description, then the file it refers to."""
    about = {"url": "https://openml/house.arff", "md5_checksum": digest or hashlib.md5(content).hexdigest()}

    def download(url: str) -> bytes:
        if url == about["url"]:
            return content
        assert "/42092" in url
        return json.dumps({"data_set_description": about}).encode()

    return download


def test_price_is_in_ten_thousand_dollars_and_sixteen_features_exclude_the_coordinates():
    table = parse_house_sales(csv_text())
    assert table.X.shape == (3, 16)
    np.testing.assert_array_equal(table.y, [22.0, 22.5, 23.0])
    assert not {"id", "date", "price", "lat", "long"} & set(table.feature_names)
    expected = [FEATURES.index(name) for name in table.feature_names]
    np.testing.assert_array_equal(table.X[0], expected)


def test_eighteen_features_include_the_coordinates():
    table = parse_house_sales(csv_text(), n_features=18)
    assert table.feature_names == FEATURES
    np.testing.assert_array_equal(table.X[1], 100 + np.arange(18))


def test_the_order_of_columns_in_the_file_does_not_matter():
    reverse = parse_house_sales(csv_text(COLUMNS[::-1]))
    np.testing.assert_array_equal(reverse.X, parse_house_sales(csv_text()).X)


def test_another_number_of_features_raises():
    with pytest.raises(ValueError, match=r"16 .* or 18 .* got 17"):
        parse_house_sales(csv_text(), n_features=17)


def test_absent_columns_raise():
    columns = tuple(name for name in COLUMNS if name not in ("grade", "price"))
    with pytest.raises(ValueError, match="price, grade"):
        parse_house_sales(csv_text(columns))


def test_arff_and_csv_give_the_same_table():
    by_arff, by_csv = parse_house_sales(arff_to_csv(arff_text())), parse_house_sales(csv_text())
    np.testing.assert_array_equal(by_arff.X, by_csv.X)
    np.testing.assert_array_equal(by_arff.y, by_csv.y)


def test_the_table_is_downloaded_once_and_then_read_from_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(house, "N_ROWS", 3)
    with monkeypatch.context() as network:
        network.setattr(source, "download", openml(arff_text().encode()))
        fetched = load_house_sales(tmp_path)
    np.testing.assert_array_equal(fetched.X, parse_house_sales(csv_text()).X)
    np.testing.assert_array_equal(load_house_sales(tmp_path, n_features=18).y, fetched.y)


def test_a_download_with_another_digest_or_too_few_rows_is_not_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "download", openml(arff_text().encode(), digest="0" * 32))
    with pytest.raises(FileNotFoundError, match="md5 must be 0000"):
        load_house_sales(tmp_path)
    monkeypatch.setattr(source, "download", openml(arff_text().encode()))
    with pytest.raises(FileNotFoundError, match="3 rows instead of 21613"):
        load_house_sales(tmp_path)
    assert not list(tmp_path.rglob("*.csv*"))


def test_the_error_without_network_says_where_to_download_the_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"kc_house_data\.csv from https://www\.kaggle\.com"):
        load_house_sales(tmp_path)


def test_a_corrupt_file_raises(tmp_path):
    file = tmp_path / HOUSE_SALES.path
    file.parent.mkdir()
    file.write_text(csv_text())
    with pytest.raises(ValueError, match=HOUSE_SALES.sha256):
        load_house_sales(tmp_path)


def test_the_real_table_is_complete_and_has_the_known_size_and_prices(real_folder):
    folder = real_folder(HOUSE_SALES)
    table = load_house_sales(folder)
    assert table.X.shape == (21613, 16)
    assert np.isfinite(table.X).all()
    assert table.y.mean() == pytest.approx(54.008814, abs=1e-6)
    assert load_house_sales(folder, n_features=18).X.shape == (21613, 18)
