import json
from dataclasses import replace

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


def test_rows_of_other_settings_are_left_out_and_counted(run, results, tmp_path):
    """A default has changed since: they are left out, and who asks for the page is told."""
    cell = Cell("quick", "gaussian_ind", "mcar_independent", 0.5, 0, "ols")
    row = run_cell(cell)
    old = {**row, "given": {**row["given"], "seed": 7}}
    asked = ("--budget", "quick", "--folder", results, "--output", "page.html")
    add(results, run_cell(replace(cell, label="optimal")), row)
    assert run("report", *asked).stderr == ""
    page = tmp_path / "page.html"
    assert "Table 6: " in page.read_text(encoding="utf-8")
    add(results, old)
    assert run("report", *asked).stderr.startswith(
        "Left out, because made with other settings than today's: 1 of the rows. "
    )
    assert "Table 6: " not in page.read_text(encoding="utf-8")


def add(folder, *rows):
    with (folder / "quick.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


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
