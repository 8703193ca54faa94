import re
from html import unescape

import pytest

from stablemiss.experiments.tables import demo_table
from stablemiss.report.text import title_of


@pytest.mark.slow
def test_a_small_demo_tells_the_story_prints_the_table_and_writes_one_page(run, tmp_path):
    result = run("demo", "--rows", 200, "--seed", 1, "--mechanism", "mcar_window", "--output", "my.html")
    assert result.exit_code == 0, result.output
    for name in (*map(title_of, demo_table().methods), "Optimal, RMSE"):
        assert name in result.stdout
    assert result.stdout.endswith("Report: my.html\n")
    assert "em_mixture: " in result.stderr
    assert "stress test: " in result.stderr
    page = (tmp_path / "my.html").read_text(encoding="utf-8")
    assert headline_of(result.stdout) in unescape(page)
    for section in ("errors", "diagnosis", "stress", "intervals", "code", "part-two", "demo", "settings"):
        assert page.count(f'<section id="{section}">') == 1
    assert not re.search(r'(src|href)="(?!#|data:)(?!http://www.w3.org)', page)
    assert "Gaussian-Mix under MCAR, trained at 10% missing" in page


def headline_of(output):
    """The first paragraph of the story without line breaks."""
    return " ".join(output.split("A column dies\n")[1].split("\n\n")[0].split())


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

    monkeypatch.setattr("stablemiss.experiments.dead_column.run_dead_column", never)
    monkeypatch.setattr("stablemiss.experiments.reproduce.run_demo", never)
    monkeypatch.setattr("stablemiss.pages.document.find_spec", lambda name: None)
    assert 'pip install "stablemiss[report]"' in error_of("demo")


def test_the_exit_code_is_1_if_a_method_failed(run, monkeypatch):
    def fail(*_):
        raise ArithmeticError("no luck")

    # The first part is not what is tested here.
    monkeypatch.setattr("stablemiss.experiments.dead_column.run_dead_column", lambda *_: None)
    monkeypatch.setattr("stablemiss.report.dead_column.print_dead_column", lambda story: None)
    monkeypatch.setattr("stablemiss.experiments.tables._DEMO_METHODS", ("ols",))
    monkeypatch.setattr("stablemiss.methods.ols.OLS.fit", fail)
    result = run("demo", "--rows", 100)
    assert result.exit_code == 1
    assert "failed: OLS, instance 0: ArithmeticError: no luck" in result.stdout
