import pytest

from stablemiss.experiments.tables import demo_table
from stablemiss.report.text import title_of


def test_a_small_demo_prints_progress_and_the_table_and_writes_the_report(run, tmp_path):
    result = run("demo", "--rows", 200, "--seed", 1, "--mechanism", "mcar_window", "--output", "my.html")
    assert result.exit_code == 0, result.output
    for name in (*map(title_of, demo_table().methods), "Optimal, RMSE"):
        assert name in result.stdout
    assert result.stdout.endswith("Report: my.html\n")
    assert "em_mixture: " in result.stderr
    page = (tmp_path / "my.html").read_text(encoding="utf-8")
    assert "Gaussian-Mix under MCAR, trained at 10% missing" in page


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--mechanism", "mnar"], "mar, mcar_window, mcar_independent; got 'mnar'"),
        (["--train-level", "10"], "train_level must lie between 0 and 1; got 10"),
        (["--output", "no/report.html"], "no for report.html does not exist"),
    ],
)
def test_invalid_arguments_give_an_error(error_of, tmp_path, arguments, facts):
    assert facts in error_of("demo", *arguments)
    assert not list(tmp_path.iterdir())


def test_a_report_that_cannot_be_written_gives_an_error_before_the_first_fit(error_of, monkeypatch):
    def never(*arguments):
        raise AssertionError("the demo ran")

    monkeypatch.setattr("stablemiss.experiments.reproduce.run_demo", never)
    monkeypatch.setattr("stablemiss.pages.document.find_spec", lambda name: None)
    assert 'pip install "stablemiss[report]"' in error_of("demo")


def test_the_exit_code_is_1_if_a_method_failed(run, monkeypatch):
    def fail(*_):
        raise ArithmeticError("no luck")

    monkeypatch.setattr("stablemiss.experiments.tables._DEMO_METHODS", ("ols",))
    monkeypatch.setattr("stablemiss.methods.ols.OLS.fit", fail)
    result = run("demo", "--rows", 100)
    assert result.exit_code == 1
    assert "failed: OLS, instance 0: ArithmeticError: no luck" in result.stdout
