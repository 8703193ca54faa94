from dataclasses import replace

import pytest

from stablemiss.experiments.execute import execute
from stablemiss.experiments.reproduce import Reproduction
from stablemiss.results import Score, Store

BEGIN, END = "<!-- reproduction: begin -->", "<!-- reproduction: end -->"


@pytest.fixture(scope="module")
def computed():
    """Records of Table 6 with one method."""
    return [execute(run) for run in Reproduction(["table6"], "quick", ["ols"]).runs]


@pytest.fixture
def store(tmp_path, computed):
    (tmp_path / "results").mkdir()
    store = Store(tmp_path / "results" / "quick.jsonl")
    with store.appending() as append:
        for record in computed:
            append(record)
    return store


ASKED = ("--budget", "quick", "--folder", "results", "--output", "page.html")


def test_page_and_docs_are_written(run, store, tmp_path):
    (tmp_path / "docs.md").write_text(f"{BEGIN}\n{END}\n")
    result = run("report", *ASKED, "--docs", "docs.md")
    assert result.exit_code == 0, result.output
    assert result.stdout == "Report: page.html\nDocs: docs.md\n"
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The three missing patterns" in page
    assert "Table 6: " in page
    assert "63 of 72 cells have no result yet" in page
    assert "### Table 6: " in (tmp_path / "docs.md").read_text(encoding="utf-8")


def test_records_trained_as_published_are_read_beside_those_of_standard(run, tmp_path):
    """One column of invented records is enough to see that the file is read."""
    (tmp_path / "results").mkdir()
    for name, error in (("standard", 100.0), ("as_published", 200.0)):
        with Store(tmp_path / "results" / f"{name}.jsonl").appending() as append:
            for planned in Reproduction(["table1"], name, ["stablemiss"]).runs:
                scores = tuple(Score(test.mechanism, test.level, error) for test in planned.tests)
                if planned.instance == 0:
                    append(planned.record(scores=scores, finished="2025-01-01"))
    result = run("report", "--folder", "results", "--output", "page.html")
    assert result.exit_code == 0, result.output
    assert "Trained as published" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_records_with_different_settings_are_skipped_and_counted(run, store, computed, tmp_path):
    assert run("report", *ASKED).stderr == ""
    old = next(record for record in computed if record.label == "optimal")
    with store.appending() as append:
        append(replace(old, settings={**old.settings, "seed": 7}))
    assert "Skipped 1 records that were computed with different settings" in run("report", *ASKED).stderr
    assert "Table 6: " not in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--budget", "huge"], "got 'huge'"),
        (["--folder", "absent"], "There is no folder absent"),
        (["--budget", "standard"], "stablemiss reproduce table1 --budget standard"),
        (["--output", "no/page.html"], "no for page.html does not exist"),
        (["--docs", "absent.md"], "absent.md"),
        (["--docs", "bare.md"], "bare.md must contain the line"),
    ],
)
def test_invalid_arguments_give_an_error_and_nothing_is_written(error_of, store, tmp_path, arguments, facts):
    (tmp_path / "bare.md").write_text("# Nothing here\n")
    settings = dict(zip(ASKED[::2], ASKED[1::2], strict=True))
    settings |= dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert facts in error_of("report", *(word for pair in settings.items() for word in pair))
    assert not (tmp_path / "page.html").exists()
    assert (tmp_path / "bare.md").read_text() == "# Nothing here\n"


def test_the_error_for_a_damaged_file_contains_the_line(error_of, store):
    with store.path.open("a") as file:
        file.write("not a record\n")
    assert "Line 5 of" in error_of("report", *ASKED)
