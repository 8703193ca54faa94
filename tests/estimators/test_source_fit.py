"""A fit to rows in batches is a fit to the same rows in memory, up to the sample that it uses."""

import weakref
from pathlib import Path
from typing import Any

import dask.dataframe
import numpy as np
import polars
import pyarrow
import pytest
from pyarrow import dataset as arrow_dataset
from pyarrow import parquet

from stablemiss import (
    AnyMaskClassifier,
    AnyMaskRegressor,
    MissingRegressor,
    SuspiciousDataWarning,
    load_model,
)
from stablemiss.estimators import source_fit
from stablemiss.sources import open_source

N_ROWS = 3000
FAST: dict[str, Any] = {"budget": "fast", "random_state": 0}


def make_rows(n: int = N_ROWS) -> pyarrow.Table:
    """Numbers, a rare number, text with two and with many categories, dates, and two targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    town = rng.integers(30, size=n)
    colour = rng.choice(["red", "blue"], size=n)
    y = X @ [2.0, 1.0, 0.0] + 0.1 * town + (colour == "red") + 0.1 * rng.normal(size=n)
    X[rng.random(X.shape) < 0.2] = np.nan
    columns = {name: pyarrow.array(column, from_pandas=True) for name, column in zip("abc", X.T, strict=True)}
    alarm = np.zeros(n)
    alarm[7] = 1.0
    day = np.datetime64("2024-01-01") + rng.integers(700, size=n)
    further = {"alarm": alarm, "town": [f"town {t}" for t in town], "colour": colour, "day": day, "y": y}
    return pyarrow.table(columns | further)


@pytest.fixture(scope="module")
def rows() -> pyarrow.Table:
    return make_rows()


@pytest.fixture
def folder(rows: pyarrow.Table, tmp_path: Path) -> Path:
    folder = tmp_path / "rows"
    folder.mkdir()
    for number in range(3):
        path = folder / f"{number}.parquet"
        parquet.write_table(rows.slice(1000 * number, 1000), path, row_group_size=400)
    return folder


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows above 800 are streamed."""
    monkeypatch.setattr(source_fit, "MAX_SAMPLE_ROWS", 800)


def rmse(model: Any, rows: pyarrow.Table) -> float:
    return float(np.sqrt(np.mean((model.predict(rows.drop(["y"])) - np.asarray(rows["y"])) ** 2)))


def test_few_rows_give_exactly_the_model_of_the_table(rows: pyarrow.Table, folder: Path) -> None:
    small = rows.slice(0, 400)
    for path in folder.glob("*.parquet"):
        path.unlink()
    parquet.write_table(small, folder / "rows.parquet", row_group_size=150)
    # Any method, because these rows fit into memory.
    expected = MissingRegressor("ols", random_state=0).fit(small.drop(["y"]), small["y"])
    for X in (folder, arrow_dataset.dataset(str(folder)), polars.scan_parquet(folder / "*.parquet")):
        model = MissingRegressor("ols", random_state=0).fit(X, "y")
        np.testing.assert_array_equal(model.predict(small.drop(["y"])), expected.predict(small.drop(["y"])))
        assert model.target_name_ == "y"


@pytest.mark.usefixtures("streamed")
def test_statistics_are_those_of_all_training_rows(
    rows: pyarrow.Table, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The sample is from the middle, the validation rows are the last ones.
    positions = np.arange(1000, 1800), np.arange(2900, N_ROWS)
    monkeypatch.setattr(source_fit._StreamedFit, "_draw_rows", lambda self: positions)
    model = AnyMaskRegressor(**FAST, members=["mixture"]).fit(folder, "y")
    encoder, names = model.encoder_, model.encoder_.names
    assert names == rows.column_names[:-1]
    # Exact counts over all rows, not over the sample.
    n_missing = {column.name: column.n_missing for column in model.column_report_}
    assert n_missing == {name: rows[name].null_count for name in names}
    # Means and scales are exact, without the validation rows.
    training = rows.slice(0, 2900)
    a, y = np.asarray(training["a"].drop_null()), np.asarray(training["y"])
    assert encoder._mean[0] == pytest.approx(a.mean(), rel=1e-12)
    assert encoder._scale[0] == pytest.approx(a.std(), rel=1e-12)
    assert model.task_.mean[0] == pytest.approx(y.mean(), rel=1e-12)
    # The alarm in row 7 is not in the sample, but known.
    kinds = dict(zip(names, encoder.kinds, strict=True))
    assert kinds["alarm"] == "numbers"
    assert (kinds["town"], kinds["day"]) == ("categories", "dates")


@pytest.mark.usefixtures("streamed")
@pytest.mark.slow
def test_a_streamed_fit_is_as_accurate_as_a_fit_in_memory(rows: pyarrow.Table, folder: Path) -> None:
    new = make_rows(6000).slice(N_ROWS)
    in_memory = AnyMaskRegressor(**FAST).fit(rows.drop(["y"]), rows["y"])
    model = AnyMaskRegressor(**FAST).fit(folder, "y")
    assert rmse(model, new) < 1.1 * rmse(in_memory, new)
    assert set(model.member_weights_) <= {"constant", "mixture", "boosting", "residual boosting", "net"}
    lower, upper = model.predict_interval(new.drop(["y"]), 0.8).T
    covered = (lower <= np.asarray(new["y"])) & (np.asarray(new["y"]) <= upper)
    assert 0.7 < covered.mean() < 0.9
    model.save(folder / "model")
    loaded = load_model(folder / "model")
    np.testing.assert_array_equal(loaded.predict(new.drop(["y"])), model.predict(new.drop(["y"])))


@pytest.mark.usefixtures("streamed")
@pytest.mark.slow
def test_classes(rows: pyarrow.Table, folder: Path, tmp_path: Path) -> None:
    y = np.asarray(rows["y"])
    labels = np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    parquet.write_table(
        rows.drop(["y"]).append_column("label", pyarrow.array(labels)), tmp_path / "c.parquet"
    )
    model = AnyMaskClassifier(**FAST, members=["mixture", "boosting"]).fit(tmp_path / "c.parquet", "label")
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert model.validation_scores_["accuracy"] > 0.75
    assert (model.predict(rows.drop(["y"])) == labels).mean() > 0.8


@pytest.mark.usefixtures("streamed")
def test_rare_categories_and_classes_are_known(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "blue"], size=N_ROWS).astype(object)
    label = np.where(colour == "red", "yes", "no").astype(object)
    colour[[11, 1711]], label[[12, 1712, 1713]] = "mauve", "perhaps"
    table = pyarrow.table({"colour": colour, "b": rng.normal(size=N_ROWS), "label": label})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=500)
    model = AnyMaskClassifier(**FAST, members=["boosting"]).fit(tmp_path / "rows.parquet", "label")
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert model.encoder_._categories[0].categories == ["blue", "mauve", "red"]


@pytest.mark.usefixtures("streamed")
def test_classes_outside_of_the_sample_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=N_ROWS)
    label = (x > 0).astype(int)
    # One class is in a row outside of the sample, and one only in a validation row.
    label[2000], label[1050] = 2, 3
    parquet.write_table(pyarrow.table({"x": x, "label": label}), tmp_path / "rows.parquet")
    rows = np.arange(800), np.arange(1000, 1200)
    monkeypatch.setattr(source_fit._StreamedFit, "_draw_rows", lambda self: rows)
    model = AnyMaskClassifier(**FAST, members=["boosting"]).fit(tmp_path / "rows.parquet", "label")
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.validation_scores_["n_rows"] == 199
    assert np.isfinite(model.predict_proba([[0.0], [1.0]])).all()


@pytest.mark.usefixtures("streamed")
def test_statistics_of_earlier_batches_are_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most = []
    original = source_fit.Reader.statistics

    def counted(*arguments: Any) -> Any:
        statistics = original(*arguments)
        alive.add(statistics)
        most.append(len(alive))
        return statistics

    monkeypatch.setattr(source_fit.Reader, "statistics", counted)
    monkeypatch.setattr(source_fit._StreamedFit, "_encode_sample", interrupt)
    with pytest.raises(InterruptedError):
        AnyMaskRegressor(**FAST).fit(folder, "y")
    assert len(most) == 9
    assert max(most) <= 3


def test_a_list_of_one_column_is_one_target(folder: Path) -> None:
    with open_source(folder) as source:
        assert source_fit._check_target(["y"], source, AnyMaskRegressor()) == "y"
        assert source_fit._check_target(("a", "y"), source, AnyMaskRegressor()) == ["a", "y"]


@pytest.mark.parametrize("n_rows", [400, N_ROWS])
@pytest.mark.usefixtures("streamed")
def test_an_error_in_a_row_names_its_position_among_all_rows(
    n_rows: int, rows: pyarrow.Table, tmp_path: Path
) -> None:
    table = rows.slice(0, n_rows)
    y, a = np.asarray(table["y"]).copy(), np.asarray(table["a"]).copy()
    # Rows without a target are left out, but they count.
    y[:10], a[n_rows - 17] = np.nan, np.inf
    columns = {"a": a, "b": table["b"], "y": pyarrow.array(y, from_pandas=True)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "rows.parquet", row_group_size=150)
    with pytest.raises(ValueError, match=f"inf in row {n_rows - 17}"):
        source_fit.fit_source(
            AnyMaskRegressor(**FAST), tmp_path / "rows.parquet", "y", drop_missing_target=True
        )


@pytest.mark.parametrize("n_rows", [400, N_ROWS])
@pytest.mark.usefixtures("streamed")
def test_rows_without_any_target_are_one_sentence(n_rows: int, tmp_path: Path) -> None:
    table = pyarrow.table({"a": np.arange(float(n_rows)), "y": pyarrow.nulls(n_rows, pyarrow.float64())})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=150)
    with pytest.raises(ValueError, match=f"Only 0 of {n_rows:,} rows have a target"):
        source_fit.fit_source(
            AnyMaskRegressor(**FAST), tmp_path / "rows.parquet", "y", drop_missing_target=True
        )


@pytest.mark.usefixtures("streamed")
def test_a_constant_target_is_reported_with_the_number_of_training_rows(
    rows: pyarrow.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows.select(["a"]).append_column("y", pyarrow.array(np.ones(N_ROWS)))
    parquet.write_table(table, tmp_path / "rows.parquet")
    monkeypatch.setattr(source_fit._StreamedFit, "_fit_encoder", interrupt)
    with pytest.warns(SuspiciousDataWarning, match="in all 2,550 rows"), pytest.raises(InterruptedError):
        AnyMaskRegressor(**FAST).fit(tmp_path / "rows.parquet", "y")


def interrupt(*arguments: Any) -> None:
    raise InterruptedError


@pytest.mark.usefixtures("streamed")
def test_wrong_input_is_one_sentence(rows: pyarrow.Table, folder: Path, tmp_path: Path) -> None:
    def refused(message: str, X: Any = folder, y: Any = "y", model: Any = None, **options: Any) -> None:
        model = AnyMaskRegressor(**FAST) if model is None else model
        with pytest.raises(ValueError, match=message) as raised:
            model.fit(X, y, **options)
        assert "\n" not in str(raised.value)

    refused("no column 'price'", y="price")
    refused("name of the column", y=[1.0, 2.0])
    refused("must be numeric", y="town")
    refused("sample_weight is not available", sample_weight=[1.0])
    refused("time is not available", time=[1.0])
    refused("needs all rows in memory", model=MissingRegressor("ols"))
    refused("classes", model=AnyMaskClassifier(**FAST))
    refused("no file or folder", X="nowhere")
    refused("Dask", y=dask.dataframe.from_pandas(rows["y"].to_pandas(), npartitions=2))
    refused("never_missing contains column 'a'", model=AnyMaskRegressor(**FAST, never_missing=["a"]))
    y = np.asarray(rows["y"]).copy()
    y[1234] = np.nan
    table = rows.drop(["y"]).append_column("y", pyarrow.array(y, from_pandas=True))
    parquet.write_table(table, tmp_path / "without.parquet")
    refused("missing in row 1,234", X=tmp_path / "without.parquet")


@pytest.mark.usefixtures("streamed")
@pytest.mark.slow
def test_adapt_uses_the_sample_of_a_streamed_fit(rows: pyarrow.Table, folder: Path) -> None:
    model = AnyMaskRegressor(**FAST, members=["mixture"], keep_training_rows=True).fit(folder, "y")
    new = rows.drop(["y"]).slice(0, 50).to_pandas().assign(a=np.nan)
    assert model.adapt(new).predict(new).shape == (50,)
