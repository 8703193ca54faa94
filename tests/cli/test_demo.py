import pytest

from stablemiss.experiments.demo import DEMO_METHODS


def test_a_small_demo_prints_progress_and_the_table_and_writes_the_report(run, tmp_path):
    result = run("demo", "--rows", 200, "--seed", 1, "--mechanism", "mcar_window", "--output", "my.html")
    assert result.exit_code == 0, result.output
    for name in (*DEMO_METHODS, "constant", "linear", "Optimal, RMSE"):
        assert name in result.stdout
    assert result.stdout.endswith("Report: my.html\n")
    assert "em_mixture: " in result.stderr
    page = (tmp_path / "my.html").read_text(encoding="utf-8")
    assert "Gaussian-Mix under MCARWindow, trained at 10% missing" in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--mechanism", "mnar"],
            "mechanism should be one of mar, mcar_window, mcar_independent, but is 'mnar'.",
        ),
        (["--train-level", "10"], "train_level should lie between 0 and 1"),
        (["--output", "no/report.html"], "The folder no for report.html does not exist"),
    ],
)
def test_mistakes_are_told_in_one_sentence(refuse, tmp_path, arguments, sentence):
    assert sentence in refuse("demo", *arguments)
    assert not list(tmp_path.iterdir())


def test_a_report_that_could_not_be_written_is_noticed_before_the_work(refuse, monkeypatch):
    def never(**settings):
        raise AssertionError("the demo ran")

    monkeypatch.setattr("stablemiss.experiments.demo.run_demo", never)
    monkeypatch.setattr("stablemiss.report.html.find_spec", lambda name: None)
    assert 'pip install "stablemiss[report]"' in refuse("demo")
