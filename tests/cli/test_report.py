import json

import pytest

from stablemiss.experiments.cells import Cell
from stablemiss.experiments.patterns import pattern_rows
from stablemiss.experiments.run_cell import run_cell
from stablemiss.report.markdown import BEGIN, END


@pytest.fixture
def results(tmp_path):
    """A folder with the least that a page can be made of."""
    folder = tmp_path / "results"
    folder.mkdir()
    lines = [json.dumps(row) for row in pattern_rows("quick")]
    (folder / "quick.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_page_and_docs_are_written(run, results, tmp_path):
    (tmp_path / "docs.md").write_text(f"{BEGIN}\n{END}\n")
    asked = ("--budget", "quick", "--folder", results, "--output", "page.html", "--docs", "docs.md")
    result = run("report", *asked)
    assert result.exit_code == 0, result.output
    assert result.stdout == "Report: page.html\nDocs: docs.md\n"
    assert "The three missing patterns" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "**What was not run?**" in (tmp_path / "docs.md").read_text(encoding="utf-8")


def test_rows_of_other_settings_are_counted(run, results):
    """A default has changed since: the page is made, and who asks for it is told."""
    cell = Cell("quick", "gaussian_ind", "mcar_independent", 0.5, 0, "ols")
    row = run_cell(cell)
    old = {**row, "given": {**row["given"], "n_rows": 7}}
    asked = ("--budget", "quick", "--folder", results, "--output", "page.html")
    for stored, told in ((row, ""), (old, "1 of 4 rows were made with other settings than today's")):
        with (results / "quick.jsonl").open("a") as file:
            file.write(json.dumps(stored) + "\n")
        result = run("report", *asked)
        assert result.exit_code == 0, result.output
        assert result.stderr.startswith(told)
        assert bool(result.stderr) == bool(told)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--budget", "huge"], "There is no budget 'huge'"),
        (["--folder", "absent"], "There is no folder absent with result rows"),
        (["--budget", "standard"], "make some with: stablemiss reproduce table1 --budget standard."),
        (["--output", "no/page.html"], "The folder no for page.html does not exist"),
        (["--docs", "absent.md"], "No such file or directory: absent.md"),
        (["--docs", "bare.md"], "bare.md should hold the line"),
    ],
)
def test_mistakes_are_told_in_one_sentence_and_nothing_is_written(
    refuse, results, tmp_path, arguments, sentence
):
    (tmp_path / "bare.md").write_text("# Nothing here\n")
    given = {"--budget": "quick", "--folder": results, "--output": "page.html"}
    given |= dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert sentence in refuse("report", *(word for pair in given.items() for word in pair))
    assert not (tmp_path / "page.html").exists()
    assert (tmp_path / "bare.md").read_text() == "# Nothing here\n"


def test_a_damaged_file_is_named_with_its_line(refuse, results):
    with (results / "quick.jsonl").open("a") as file:
        file.write("not a row\n")
    sentence = refuse("report", "--budget", "quick", "--folder", results, "--output", "page.html")
    assert "Line 4 of" in sentence
    assert "the file was damaged" in sentence
