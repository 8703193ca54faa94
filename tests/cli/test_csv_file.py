import io

import pyarrow
import pytest

from stablemiss.cli import csv_file
from stablemiss.cli.csv_file import csv_batches
from stablemiss.cli.dialect import Dialect


def read(content, **options):
    dialect, batches = csv_batches(io.BytesIO(content), "a.csv", **options)
    return dialect, pyarrow.Table.from_batches(list(batches)).to_pydict()


def test_all_entries_are_text_exactly_as_in_the_file():
    _, table = read(b"id,x\n007,1.50\n,NA\n")
    assert table == {"id": ["007", ""], "x": ["1.50", "NA"]}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_are_detected(encoding):
    dialect, table = read("größe;b\nü;1,5\n".encode(encoding))
    assert table == {"größe": ["ü"], "b": ["1,5"]}
    assert dialect == Dialect(";", ",", encoding)


def test_options_replace_what_is_detected():
    dialect, table = read("a:b\nü:1,250\n".encode("cp437"), separator=":", decimal=",", encoding="cp437")
    assert table == {"a": ["ü"], "b": ["1,250"]}
    assert dialect == Dialect(":", ",", "cp437")


def test_line_breaks_inside_quotation_marks_and_empty_lines_work():
    assert read(b'\n\nx,word\n1,"two\nlines"\n\n2,b\n')[1] == {"x": ["1", "2"], "word": ["two\nlines", "b"]}


def test_spaces_around_column_names_are_removed():
    assert list(read(b"a, b \n1,2\n")[1]) == ["a", "b"]


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_all_line_breaks_work(line_break):
    content = line_break.join(["a,b", "1,2", "3,4"])
    for end in ("", line_break):
        assert read((content + end).encode())[1] == {"a": ["1", "3"], "b": ["2", "4"]}


@pytest.mark.parametrize("block", [7, 64, 1000])
def test_rows_do_not_depend_on_the_size_of_the_blocks(monkeypatch, block):
    """Rows that cross the end of a block, also inside quotation marks, are read once."""
    rows = [f'{i},"text {i}\nwith ""quotes"", and commas",é{i}' for i in range(200)]
    content = "\n".join(["id,text,name", *rows]).encode()
    expected = read(content)[1]
    monkeypatch.setattr(csv_file, "SAMPLE_BYTES", 100)
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", block)
    assert read(content)[1] == expected
    assert expected["text"][17] == 'text 17\nwith "quotes", and commas'
    assert len(expected["id"]) == 200


def test_a_single_quotation_mark_inside_an_entry_does_not_stop_the_reading(monkeypatch):
    monkeypatch.setattr(csv_file, "SAMPLE_BYTES", 20)
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 20)
    monkeypatch.setattr(csv_file, "MAX_BLOCK_BYTES", 50)
    content = b"size,n\n" + b"".join(b'5" pipe,%d\n' % i if i == 3 else b"pipe,%d\n" % i for i in range(50))
    table = read(content)[1]
    assert table["n"] == [str(i) for i in range(50)]
    assert table["size"][3] == '5" pipe'


def test_entries_may_be_long():
    assert read(b"a,b\n1," + b"x" * 200_000 + b"\n")[1]["b"] == ["x" * 200_000]


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf-16-le"])
def test_a_byte_order_mark_is_not_part_of_the_first_name(encoding):
    assert list(read("\ufeffa,b\n1,2\n".encode(encoding), encoding=encoding)[1]) == ["a", "b"]


def test_any_number_of_empty_lines_may_precede_the_header():
    assert read(b"\n" * 1000 + b"a,b\n1,2\n")[1] == {"a": ["1"], "b": ["2"]}


@pytest.mark.parametrize("line_break", [b"\n", b"\r\n"])
def test_an_empty_line_is_a_missing_value_of_a_single_column(line_break):
    assert read(line_break.join([b"x", b"1", b"", b"3", b""]))[1] == {"x": ["1", "", "3"]}


@pytest.mark.parametrize(
    ("content", "options", "facts"),
    [
        (b"", {}, ["is empty"]),
        (b"\xff\xfe", {}, ["is empty"]),
        (b"\n\n", {}, ["is empty"]),
        (b'a,b\n1,2\n3,"x\n' + b"1,2\n" * 50_000, {}, ["line 3", "quotation mark", "not closed"]),
        (b'"a,b\n1,2\n', {}, ["line 1", "quotation mark", "not closed"]),
        (b"a,b\n\x81,2\n", {"encoding": "cp1252"}, ["not cp1252 text", "--encoding latin-1"]),
        *(
            (b"a,b\n1,2\n", {"encoding": encoding}, [f"--encoding {encoding}", "cp1252"])
            for encoding in ("hex", "rot13", "idna", "undefined")
        ),
        (bytes(range(256)), {}, ["not a text file", "--format"]),
        (b"a,b\n1,2\n3\n", {}, ["Line 3", "1 fields instead of 2", "--separator"]),
        (b"a,b\n1,2\n3,4,5\n", {}, ["Line 3", "3 fields instead of 2", "3,4,5"]),
        (b"a;b\n1;2\n", {"separator": ","}, ["single column 'a;b'", "';'", "omit --separator"]),
        (b"a,b\n\xe4,2\n", {"encoding": "utf-8"}, ["Line 2", "not UTF-8", "--encoding cp1252"]),
        (b"a,b\n1,2\n", {"encoding": "utf-99"}, ["--encoding utf-99", "cp1252"]),
    ],
)
def test_a_file_that_cannot_be_read_raises(content, options, facts):
    with pytest.raises(ValueError) as caught:
        read(content, **options)
    assert all(fact in str(caught.value) for fact in facts), caught.value
    assert "\n" not in str(caught.value)


def test_the_number_of_the_line_is_right_in_later_blocks(monkeypatch):
    monkeypatch.setattr(csv_file, "SAMPLE_BYTES", 50)
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 50)
    lines = ["a,b", *["1,2"] * 100, "3,4,5", *["1,2"] * 100]
    with pytest.raises(ValueError, match=r"Line 102 of a\.csv"):
        read("\n".join(lines).encode())
