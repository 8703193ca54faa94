import pytest

from stablemiss.cli.formats import EXTENSIONS, NAMES, Format
from stablemiss.cli.options import TABLE_HELP, check_model_file, read_options
from stablemiss.cli.reading import ReadOptions


def test_options_are_collected():
    options = read_options(";", ",", "cp1252", Format.csv, ["-99", "x"])
    assert options == ReadOptions(";", ",", "cp1252", Format.csv, ("-99", "x"))
    assert read_options(None, None, None, None, None) == ReadOptions()


@pytest.mark.parametrize("spelling", ["tab", "\\t", "\t"])
def test_a_tab_can_be_written_in_several_ways(spelling):
    assert read_options(spelling, None, None, None, None).separator == "\t"


@pytest.mark.parametrize(
    ("separator", "decimal", "fact"),
    [
        ("::", None, "'::'"),
        ("", None, "''"),
        ('"', None, "single ASCII character"),
        ("é", None, "single ASCII character"),
        (None, ";", "';'"),
        (",", ",", "differ"),
    ],
)
def test_invalid_options_raise(separator, decimal, fact):
    with pytest.raises(ValueError, match=fact):
        read_options(separator, decimal, None, None, None)


def test_the_error_without_a_model_says_how_to_create_one(tmp_path):
    with pytest.raises(ValueError, match=r"no model file .*absent; .*stablemiss fit"):
        check_model_file(tmp_path / "absent", tmp_path / "a.csv")


def test_the_help_promises_compression_for_the_formats_that_have_it():
    compressed = {NAMES[name] for extension, name in EXTENSIONS.items() if extension.endswith(".gz")}
    promised, _ = TABLE_HELP.split(" (may be gzipped)")
    assert {name for name in NAMES.values() if name in promised} == compressed
