"""`stablemiss reproduce`: a table in the terminal, records in a folder, one sentence for mistakes."""

from stablemiss.results import Store


def test_it_prints_the_table_and_stores_the_records(run, tmp_path):
    result = run("reproduce", "table6", "--budget", "quick", "--folder", "records", "--method", "ols")
    assert result.exit_code == 0, result.output
    assert "Table 6" in result.stdout
    assert "OLS" in result.stdout
    assert "published" in result.stdout
    records = Store(tmp_path / "records" / "quick.jsonl").records()
    assert {record.label for record in records} == {"ols", "constant", "linear", "optimal"}


def test_mistakes_are_one_sentence_and_leave_no_folder(refuse, tmp_path):
    for arguments, facts in {
        ("table99",): "got 'table99'",
        ("table5",): "table5 needs road networks",
        ("table1", "--budget", "cheap"): "got 'cheap'",
        ("table1", "--backend", "spark"): "got 'spark'",
        ("table1", "--method", "magic"): "got 'magic'",
    }.items():
        assert facts in refuse("reproduce", *arguments, "--folder", "records")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_refused(refuse, tmp_path):
    (tmp_path / "records").write_text("mine")
    call = ("reproduce", "table6", "--budget", "quick", "--folder", "records", "--method", "ols")
    assert "records" in refuse(*call)
    assert (tmp_path / "records").read_text() == "mine"
