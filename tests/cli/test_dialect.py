import pytest

from stablemiss.cli.dialect import (
    Dialect,
    complete_lines,
    decode,
    detect_decimal,
    detect_encoding,
    detect_separator,
    split,
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
def test_the_detected_encoding_reads_the_text(encoding):
    text = "größe,naïve\x81\n" if encoding == "latin-1" else "größe,naïve\n"
    content = text.encode(encoding)
    assert decode(content, detect_encoding(content)) == text


def test_a_character_that_is_cut_at_the_end_of_the_sample_does_not_change_the_encoding():
    assert detect_encoding("aü".encode()[:-1]) == "utf-8"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_gives_all_lines_the_same_number_of_fields(separator):
    rows = [["size", "kind", "price"], ["1", "flat", "2"], ["3", "house", "4"]]
    assert detect_separator([separator.join(row) for row in rows]) == separator


@pytest.mark.parametrize(
    ("lines", "separator"),
    [
        (["a;b", "1,5;2,5", "1,0;2,0"], ";"),
        (["a,b", '"x;y",2', '"z;w",3'], ","),
        (["a\tb", "one, two\t3", "three, four\t5"], "\t"),
        (["name,text", 'x,"one, two"', "y,three"], ","),
        (["a,b", "1,2", "1,2,3", "1,2"], ","),
    ],
)
def test_separators_inside_entries_do_not_mislead(lines, separator):
    assert detect_separator(lines) == separator


def test_a_single_column_is_not_split_at_the_commas_of_its_entries():
    assert detect_separator(["price", "1,5", "2,5"]) != ","
    assert detect_separator(["text", "one, two", "three"]) != ","
    assert detect_separator(["price", "1", "2"]) == ","


@pytest.mark.parametrize(
    ("cells", "separator", "decimal"),
    [
        (["1,5", "2", "NA", "3,25"], ";", ","),
        (["1.5", "2", "3.25"], ";", "."),
        (["1", "2"], ";", "."),
        (["1.234.567,5"], ";", ","),
        (["1,234.5"], ";", "."),
        # Ambiguous: one and a quarter, or a thousand.
        (["1,250"], ";", ","),
        (['"1,250"'], ",", "."),
        (['"1,5"'], ",", ","),
        (['"0,274"', '"79,434"'], ",", ","),
        (["31.12.2024", "1.1.2025"], ";", "."),
        (["a, b", "c"], ";", "."),
        ([""], ";", "."),
    ],
)
def test_the_decimal_mark_is_that_of_the_numbers(cells, separator, decimal):
    assert detect_decimal(["x", *cells], separator) == decimal


def test_the_majority_of_the_columns_decides_on_the_decimal_mark():
    lines = ["a;b;version", "1,5;2,5;1.1", "2,5;3,5;2.1"]
    assert detect_decimal(lines, ";") == ","


@pytest.mark.parametrize(
    ("lines", "separator", "usual", "decimal"),
    [
        (["a;b", "1.234;5"], ";", ",", ","),
        (["a;b", "1,234;5"], ";", ".", "."),
        (["a;b", "1;5"], ";", ",", ","),
        (["a", "1.234"], ",", ",", ","),
        (["a,b", '"1,234",5'], ",", ",", ","),
        # Numbers that show their decimal mark decide.
        (["a;b", "1.5;1,234"], ";", ",", "."),
        (["a;b", "1,5;1.234"], ";", ".", ","),
        # A comma-separated file without commas in its numbers.
        (["a,b", "1.234,5"], ",", ",", "."),
    ],
)
def test_the_usual_decimal_mark_is_that_of_numbers_that_do_not_show_theirs(lines, separator, usual, decimal):
    assert detect_decimal(lines, separator, usual) == decimal


def test_numbers_that_show_their_decimal_mark_outweigh_those_that_do_not():
    assert detect_decimal(["a;b;c", "1.5;1,234;1,250"], ";") == "."


def test_the_last_line_is_dropped_if_it_may_be_cut():
    assert complete_lines("a\r\nb\r\nc") == ["a", "b"]
    assert complete_lines("a\nb\n") == ["a", "b"]
    assert complete_lines("a") == ["a"]


def test_quoted_fields_may_contain_separators_and_line_breaks():
    assert split(["a,b", '"1', '2","3,4"', ""], ",") == [["a", "b"], ["1\n2", "3,4"]]


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (Dialect(), ""),
        (Dialect(encoding="utf-8-sig"), ""),
        (Dialect("\t", ",", "cp1252"), "tab-separated, decimal comma, cp1252"),
        (Dialect(":"), "':'-separated"),
    ],
)
def test_the_description_names_only_what_is_unusual(dialect, text):
    assert dialect.describe() == text
