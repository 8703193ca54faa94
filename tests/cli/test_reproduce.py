"""`stablemiss reproduce`: a table in the terminal, rows in a folder, one sentence for mistakes."""

import json


def test_it_prints_the_table_and_keeps_the_rows(run, tmp_path):
    result = run(
        "reproduce", "table6", "patterns", "--budget", "quick", "--folder", "rows", "--method", "ols"
    )
    assert result.exit_code == 0, result.output
    assert "Table 6" in result.stdout
    assert "OLS" in result.stdout
    assert "published" in result.stdout
    rows = [json.loads(line) for line in (tmp_path / "rows" / "quick.jsonl").read_text().splitlines()]
    assert {row.get("label", "a picture") for row in rows} == {
        "ols",
        "constant",
        "linear",
        "optimal",
        "a picture",
    }


def test_mistakes_are_one_sentence_and_leave_no_folder(refuse, tmp_path):
    assert "no 'table99' to reproduce" in refuse("reproduce", "table99", "--folder", "rows")
    assert "table5 needs road networks" in refuse("reproduce", "table5", "--folder", "rows")
    assert "no budget 'cheap'" in refuse("reproduce", "table1", "--budget", "cheap", "--folder", "rows")
    assert "no backend 'spark'" in refuse("reproduce", "table1", "--backend", "spark", "--folder", "rows")
    assert "no method 'magic'" in refuse("reproduce", "table1", "--method", "magic", "--folder", "rows")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_one_sentence(refuse, tmp_path):
    (tmp_path / "rows").write_text("mine")
    assert "rows" in refuse("reproduce", "table6", "--budget", "quick", "--folder", "rows", "--method", "ols")
    assert (tmp_path / "rows").read_text() == "mine"
