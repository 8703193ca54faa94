import io
from dataclasses import replace

from rich.console import Console

from stablemiss.experiments.array_comparison import compare_arrays
from stablemiss.experiments.array_tables import ARRAY_TABLES
from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.comparison import compare
from stablemiss.experiments.tables import TABLES
from stablemiss.report.terminal import print_arrays, print_comparison

QUICK = BUDGETS["quick"]


def printed(records, width=80, budget=QUICK, **options) -> str:
    text = io.StringIO()
    print_comparison(compare(TABLES["table1"], records, budget), Console(file=text, width=width, **options))
    return text.getvalue()


def test_every_gap_is_printed_with_its_marks_and_the_published_one_below(stored):
    lines = [line.split() for line in printed(stored).splitlines()]
    place = lines.index(["NeuMiss", "40", "40*", "120†"])
    assert lines[place + 1] == ["published", "714", "293", "680†"]
    assert ["OLS", "30", "60*", "80"] in lines
    assert ["Optimal,", "RMSE", "100", "200", "400"] in lines
    assert ["EM", "mixture", "–", "–", "–"] in lines


def test_best_is_bold_and_second_underlined(stored):
    text = printed(stored, force_terminal=True, color_system="standard", no_color=False)
    line = {name: next(line for line in text.splitlines() if name in line) for name in ("NeuMiss", "OLS")}
    assert "\x1b[1m40\x1b[0m" in line["NeuMiss"]
    assert "\x1b[4m80\x1b[0m" in line["OLS"]


def test_a_narrow_terminal_wraps_lines_instead_of_truncating_numbers(complete):
    standard = BUDGETS["standard"]
    texts = [printed(complete, width, standard) for width in (30, 60, 300)]
    assert len({tuple(tuple(line.split()) for line in text.splitlines()) for text in texts}) == 1
    assert "…" not in texts[0]


def test_failures_are_printed_as_text(stored):
    hostile = [replace(one, failure="[bold]x[/bold]") if one.failure else one for one in stored]
    assert "failed: MIWAE, instance 0: [bold]x[/bold]" in printed(hostile)


def test_arrays_have_a_part_for_each_group_and_marks_of_fewer_instances(complete):
    """The paper's methods end with StableMiss; an empty line follows."""
    standard = BUDGETS["standard"]
    records = [one for one in complete if (one.label, one.instance) != ("ols", 2)]
    text = io.StringIO()
    print_arrays(compare_arrays(ARRAY_TABLES["table4"], records, standard), Console(file=text, width=200))
    lines = text.getvalue().splitlines()
    names = [line.split("  ")[0].strip() for line in lines]
    place = names.index("StableMiss")
    assert names[place + 1 : place + 4] == ["", "", "constant"]  # the second line begins with two spaces
    assert lines[names.index("OLS")].count("‡") == 9
    assert lines[names.index("constant")].count("‡") == 0
