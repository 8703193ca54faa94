import json

import pyarrow
import pytest

from stablemiss.cli.writing import write_table

QUICK = (
    "--target",
    "price",
    "--ignore",
    "id",
    "--ignore",
    "expensive",
    "--level",
    "0.5",
    "--mechanism",
    "MCAR",
)


@pytest.fixture
def stress(run):
    """Run `stress --json` and return the facts."""

    def stress(*arguments):
        result = run("stress", *arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return stress


def test_methods_are_cross_fitted_and_compared(run, stress, houses):
    facts = stress(houses, *QUICK, "--method", "ols", "--method", "constant")
    assert facts["models"] == ["ols", "constant"]
    assert facts["cross_fitted"] == ["ols", "constant"]
    assert facts["metric"] == "RMSE"
    assert {score["mechanism"] for score in facts["scores"]} == {"as given", "MCAR"}
    assert facts["columns"][0]["column"] == "size"
    text = run("stress", houses, *QUICK, "--method", "ols", "--method", "constant").stdout
    assert " ".join(text.split()).startswith(facts["verdict"])


def test_classes_are_recognised_and_the_page_is_written(run, houses, tmp_path):
    arguments = ("--target", "expensive", "--ignore", "id", "--ignore", "price", "--method", "ols")
    result = run("stress", houses, *arguments, "--level", "0.5", "--output", "page.html")
    assert result.exit_code == 0, result.output
    assert "log loss" in result.stdout
    assert result.stdout.endswith("Page: page.html\n")
    assert "own masks" in (tmp_path / "page.html").read_text()


def test_masks_of_another_file_are_laid_over_the_rows(stress, houses, tmp_path, error_of):
    other = pyarrow.table({"kind": ["flat", "house"], "size": ["NA", "-"]})
    write_table(other, tmp_path / "new.csv")
    facts = stress(houses, *QUICK, "--method", "ols", "--other", "new.csv")
    (score,) = (score for score in facts["scores"] if score["mechanism"] == "other table")
    (cost,) = (cost for cost in facts["columns"] if cost["column"] == "size")
    assert score["increase"] == pytest.approx(cost["cost"])
    write_table(other.select(["kind"]), tmp_path / "new.csv")
    assert "new.csv has no column 'size'" in error_of("stress", houses, *QUICK, "--other", "new.csv")


def test_invalid_arguments_give_an_error(error_of, houses):
    assert "no column 'prize'" in error_of("stress", houses, "--target", "prize")
    ols = (houses, "--target", "price", "--method", "ols")
    assert "--mechanism must be among 'MCAR'" in error_of("stress", *ols, "--mechanism", "MCAM")
    assert "--level must be" in error_of("stress", *ols, "--level", "50")
    assert "--budget is for the method 'anymask'" in error_of("stress", *ols, "--budget", "fast")
    assert "is the same file as the data" in error_of("stress", *ols, "--output", houses)
    assert "boostin" in error_of("stress", houses, "--target", "price", "--method", "boostin")
