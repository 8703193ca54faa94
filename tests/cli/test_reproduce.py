"""`stablemiss reproduce` prints tables, stores records, and gives one-line errors."""

from stablemiss.results import Store


def test_the_table_is_printed_and_the_records_are_stored(run, tmp_path):
    result = run("reproduce", "table6", "--budget", "quick", "--folder", "records", "--method", "ols")
    assert result.exit_code == 0, result.output
    assert "Table 6" in result.stdout
    assert "OLS" in result.stdout
    assert "published" in result.stdout
    records = Store(tmp_path / "records" / "quick.jsonl").records()
    assert {record.label for record in records} == {"ols", "constant", "linear", "optimal"}


def test_invalid_arguments_give_an_error_and_create_no_folder(error_of, tmp_path):
    for arguments, facts in {
        ("table99",): "got 'table99'",
        ("table1", "--budget", "cheap"): "got 'cheap'",
        ("table1", "--backend", "spark"): "got 'spark'",
        ("table1", "--method", "magic"): "got 'magic'",
    }.items():
        assert facts in error_of("reproduce", *arguments, "--folder", "records")
    assert list(tmp_path.iterdir()) == []


def test_a_file_as_folder_gives_an_error(error_of, tmp_path):
    (tmp_path / "records").write_text("mine")
    call = ("reproduce", "table6", "--budget", "quick", "--folder", "records", "--method", "ols")
    assert "records" in error_of(*call)
    assert (tmp_path / "records").read_text() == "mine"
