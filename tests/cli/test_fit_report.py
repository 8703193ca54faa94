import numpy as np
import pyarrow
import pytest

from stablemiss import MissingRegressor, SuspiciousDataWarning
from stablemiss.cli.fit_report import (
    MAX_COLUMNS,
    render_facts,
    show_number,
    suggested_options,
    table_lines,
    validation_lines,
)

COLUMN = {"name": "size", "read_as": "number", "n_levels": None, "n_missing": 5, "remarks": []}
FACTS = {
    "target": "price",
    "target_remarks": [],
    "task": "regression",
    "method": "anymask",
    "params": {"budget": "fast"},
    "n_rows": 100,
    "n_rows_without_target": 0,
    "n_columns": 1,
    "missing_share": 0.05,
    "columns": [COLUMN],
    "validation": {"rmse": 123456.7, "rmse_constant": 367000.2, "r2": 0.887, "n_rows": 2594},
    "validation_rows": {"chosen_by": "random"},
    "learns_from_all_rows": False,
    "dialect": None,
    "seconds": 12.34,
    "model": "m.stablemiss",
}


def test_the_text_contains_the_facts():
    text = render_facts(FACTS)
    for fact in (
        "anymask (budget fast)",
        "12.3 s",
        "'price'",
        "100 rows",
        "5.0%",
        "123,457",
        "367,000",
        "2,594",
    ):
        assert fact in text
    assert text.splitlines()[-1].split() == ["Model", "m.stablemiss"]
    assert "Dropped" not in text
    assert "\nFile" not in text


def test_what_looks_wrong_is_shown():
    category = COLUMN | {
        "name": "town",
        "read_as": "category",
        "n_levels": 70,
        "remarks": ["odd", "very odd"],
    }
    unused = COLUMN | {"name": "id", "read_as": "ignored", "n_missing": None, "remarks": ["--ignore"]}
    facts = FACTS | {
        "columns": [COLUMN, category, unused],
        "target_remarks": ["has only the values 0 and 1"],
        "n_rows_without_target": 3,
        "dialect": {"separator": ";", "decimal": ".", "encoding": "utf-8"},
    }
    text = render_facts(facts)
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    assert "category, 70 levels" in lines["town"]
    assert lines["town"].endswith("odd; very odd")
    assert "ignored" in lines["id"]
    assert lines["Target"].endswith("price has only the values 0 and 1")
    assert "3 rows" in lines["Dropped"]
    assert lines["File"].endswith("semicolon-separated")


def test_of_many_columns_those_with_remarks_are_listed_first():
    columns = [COLUMN | {"name": f"x{i}", "remarks": ["odd"] if i > 45 else []} for i in range(50)]
    text = render_facts(FACTS | {"columns": columns})
    names = [line.split()[0] for line in text.splitlines() if line.startswith("x")]
    assert len(names) == MAX_COLUMNS
    assert names[-4:] == ["x46", "x47", "x48", "x49"]
    assert "20 more; --all-columns" in text
    assert "x45" in render_facts(FACTS | {"columns": columns}, all_columns=True)


def test_the_validation_error_of_classes_and_its_absence():
    scores = {
        "log_loss": 0.25,
        "log_loss_constant": 0.6,
        "accuracy": 0.9,
        "accuracy_constant": 0.7,
        "n_rows": 30,
    }
    text = " ".join(validation_lines(FACTS | {"task": "classification", "validation": scores}))
    for fact in ("0.2500", "0.6000", "90.0%", "70.0%", "30 rows"):
        assert fact in text
    for learns_from_all_rows in (True, False):
        facts = FACTS | {"validation": None, "learns_from_all_rows": learns_from_all_rows}
        (line,) = validation_lines(facts)
        assert "stablemiss evaluate m.stablemiss" in line
        assert ("because anymask learns from all rows" in line) == learns_from_all_rows
    undefined = FACTS["validation"] | {"r2": None}
    assert "R²" not in validation_lines(FACTS | {"validation": undefined})[0]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (1234567.8, "1,234,568"),
        (-1234.5, "-1,234"),
        (99.996, "100"),
        (1.5, "1.5"),
        (0.0012345, "0.001234"),
        (1.2e-12, "1.2e-12"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_have_four_digits(number, text):
    assert show_number(number) == text


def test_tables_are_aligned():
    lines = table_lines(["name", "n", ""], [["a", "10", "x"], ["long name", "9", ""]], right=[1])
    assert lines == ["name        n", "a          10  x", "long name   9"]


def test_options_are_suggested_for_what_looks_wrong():
    n = 60
    rng = np.random.default_rng(0)
    size = rng.uniform(0, 5, size=n).round(1)
    size[:4] = -999
    table = pyarrow.table(
        {"house id": rng.permutation(n) + 1000, "size": size, "name": [f"h{i}" for i in range(n)]}
    )
    with pytest.warns(SuspiciousDataWarning):
        model = MissingRegressor("ols", random_state=0).fit(table, np.arange(n))
    columns = [
        {"name": column.name, "read_as": column.kind, "remarks": column.remarks}
        for column in model.column_report_
    ]
    assert suggested_options(columns) == ["--ignore 'house id'", "--missing-value -999"]
