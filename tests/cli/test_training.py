import numpy as np
import pyarrow
import pytest

from stablemiss.cli.reading import ReadOptions
from stablemiss.cli.training import Roles, check_column, read_training_rows
from stablemiss.cli.writing import write_table


@pytest.fixture
def read(tmp_path):
    def read(content, target, *, options=None, **roles):
        (tmp_path / "a.csv").write_text(content)
        return read_training_rows(tmp_path / "a.csv", Roles(target, **roles), options or ReadOptions())

    return read


def test_rows_without_a_target_are_dropped_from_all_parts(read):
    rows = read("x,y,g,t\n1,5,a,3\n2,NA,b,2\n3,7,c,1\n", "y", groups="g", time="t")
    assert rows.features.to_pydict() == {"x": [1, 3], "t": [3, 1]}
    assert rows.target.tolist() == [5, 7]
    assert rows.n_dropped == 1
    assert rows.numbers.tolist() == [1, 3]
    assert {name: labels.tolist() for name, labels in rows.split.items()} == {
        "groups": ["a", "c"],
        "time": [3, 1],
    }


def test_groups_and_ignored_columns_are_no_features_but_the_time_is(read):
    rows = read("x,y,g,t,id\n1,5,a,3,9\n2,6,b,2,8\n", "y", groups="g", time="t", ignore=["id"])
    assert rows.features.column_names == ["x", "t"]
    assert rows.unused == {"id": "--ignore", "g": "--groups"}
    for role in ("groups", "time"):
        both = read("x,y,t\n1,5,3\n2,6,2\n", "y", ignore=["t"], **{role: "t"})
        assert both.features.column_names == ["x"]
        assert both.split[role].tolist() == [3, 2]


def test_entries_of_ignored_columns_do_not_matter(read):
    numbers = "\n".join(f"{i},{i},{i}" for i in range(40))
    content = f"x,y,id\n{numbers}\n1,1,unreadable\n"
    assert read(content, "y", ignore=["id"]).features.column_names == ["x"]
    with pytest.raises(ValueError, match="'unreadable'"):
        read(content, "y")


@pytest.mark.parametrize(
    ("values", "classify", "labels"),
    [
        (["0", "1"] * 10, True, [0, 1]),
        (["yes", "no"] * 10, None, ["no", "yes"]),
        (["true", "false"] * 10, None, [False, True]),
        (["01", "1"] * 10, None, [1]),
    ],
)
def test_labels_have_the_type_of_their_entries(read, values, classify, labels):
    rows = read("x,y\n" + "\n".join(f"{i},{value}" for i, value in enumerate(values)), "y", classify=classify)
    assert np.unique(rows.target).tolist() == labels
    assert rows.classify == (labels != [1])


def test_decimal_commas_and_missing_values_of_the_user_are_used(read):
    rows = read("x;y\n1,5;2\n-99;3,5\n", "y", options=ReadOptions(missing_values=("-99",)))
    assert rows.features.to_pydict() == {"x": [1.5, None]}
    assert rows.target.tolist() == [2.0, 3.5]
    assert rows.remarks.of_column("x") == ["1 entry of '-99' read as missing"]


@pytest.mark.parametrize(
    ("values", "classify", "words"),
    [
        ([0, 1] * 20, None, "only the values 0 and 1; use --classify"),
        ([1, 2, 3, 4] * 20, None, "only the values 1, 2, 3 and 4"),
        ([0, 1] * 20, False, None),
        ([0, 1] * 20, True, None),
        ([0.5, 1.5] * 20, None, None),
        (list(range(40)), None, None),
        ([7] * 40, None, None),
        ([f"house {i}" for i in range(40)], None, "40 classes in 40 rows"),
    ],
)
def test_a_target_that_looks_like_classes_or_names_has_a_remark(read, values, classify, words):
    rows = read("x,y\n" + "\n".join(f"{i},{value}" for i, value in enumerate(values)), "y", classify=classify)
    remarks = rows.remarks.of_column("y")
    assert (words in remarks[0]) if words else not remarks


@pytest.mark.parametrize("target", ["2024-01-31", "31.12.2024", "1/2/2024 12:30"])
def test_a_target_of_dates_raises(read, target):
    with pytest.raises(ValueError, match=f"'y' .* contains {target}"):
        read(f"x,y\n1,{target}\n2,{target}\n", "y")


def test_a_target_of_typed_dates_raises(tmp_path):
    write_table(
        pyarrow.table({"x": [1], "y": np.array(["2024-01-31"], dtype="M8[s]")}), tmp_path / "a.parquet"
    )
    with pytest.raises(ValueError, match=r"'y' .* contains 2024-01-31"):
        read_training_rows(tmp_path / "a.parquet", Roles("y"), ReadOptions())


@pytest.mark.parametrize(
    ("content", "roles", "facts"),
    [
        ("x,y\n1,\n2,NA\n", {"target": "y"}, ["'y'", "has no values"]),
        ("x,y\n1,2\n", {"target": "z"}, ["no column 'z'", "x, y"]),
        ("x,y\n1,2\n", {"target": "y", "groups": "g"}, ["no column 'g'"]),
        ("x,y\n1,2\n", {"target": "y", "ignore": ["x"]}, ["no columns left"]),
        ("x,y\n1,2\n", {"target": "y", "ignore": ["y"]}, ["'y' is the target", "--ignore"]),
        ("x,y\n1,2\n", {"target": "y", "groups": "y"}, ["'y' is the target", "--groups"]),
        ("x,y\n1,2\n", {"target": "y", "time": "y"}, ["'y' is the target", "--time"]),
        ("x,y\n1,a\n2,b\n", {"target": "y", "classify": False}, ["not numeric", "--classify"]),
        ("x,y\n1,1\n2,inf\n", {"target": "y"}, ["infinite in row 2"]),
    ],
)
def test_rows_that_cannot_be_used_raise(read, content, roles, facts):
    with pytest.raises(ValueError) as caught:
        read(content, **roles)
    assert all(fact in str(caught.value) for fact in facts), caught.value


def test_the_error_for_an_unknown_column_lists_the_columns():
    with pytest.raises(ValueError, match=r"a\.csv has no column 'size'; its columns are: height, weight\."):
        check_column(["height", "weight"], "size", "a.csv")


@pytest.mark.parametrize(
    ("entry", "decimal", "has_remark"),
    [
        ('"1,234"', None, True),
        ('"1,234"', ".", False),
        ('"1,234"', ",", False),
        ('"1,234,567"', None, False),
        ("1.5", None, False),
    ],
)
def test_commas_that_may_be_decimal_marks_cause_a_remark(read, entry, decimal, has_remark):
    rows = read(f'x,z,y\n"1,250",{entry},5\n,{entry},6\n', "y", options=ReadOptions(decimal=decimal))
    for name in ("x", "z") if entry == '"1,234"' else ("x",):
        assert any("--decimal ," in remark for remark in rows.remarks.of_column(name)) is has_remark


@pytest.mark.parametrize(("n_classes", "n_rows", "is_accepted"), [(101, 302, False), (101, 303, True)])
@pytest.mark.parametrize(("entry", "roles"), [("c{}", {}), ("{}", {"classify": True}), ("{}%", {})])
def test_too_many_classes_raise(read, entry, roles, n_classes, n_rows, is_accepted):
    content = "\n".join(["x,y", *(f"{i},{entry.format(i % n_classes)}" for i in range(n_rows))])
    if is_accepted:
        assert read(content, "y", **roles).classify
        return
    with pytest.raises(ValueError, match=r"'y' .*101 different entries in 302 rows, .*--decimal"):
        read(content, "y", **roles)


@pytest.mark.parametrize("category", [[], ["t"]])
@pytest.mark.parametrize("role", ["groups", "time"])
@pytest.mark.parametrize("day", ["2024-01-02", "7", "7.5"])
def test_missing_groups_and_times_raise_with_the_row_of_the_file(read, role, category, day):
    content = f"x,y,t\n1,,{day}\n2,6,{day}\n3,7,\n4,8,{day}\n"
    with pytest.raises(ValueError, match=rf"'t' \(--{role}\) .* 1 of 3 rows, first in row 3 \(the first"):
        read(content, "y", category=category, **{role: "t"})


def test_numbers_with_fractions_are_no_classes_unless_they_are_categorical(read):
    content = "x,y\n1,0.5\n2,1\n3,0.5\n"
    with pytest.raises(ValueError, match=r"'y' .*0\.5, .*--classify .*--category 'y'"):
        read(content, "y", classify=True)
    assert read(content, "y", category=["y"]).target.tolist() == ["0.5", "1", "0.5"]
