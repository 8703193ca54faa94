import io

from rich.console import Console

from stablemiss.report.tables import gap_table
from stablemiss.report.terminal import print_table


def printed(table, width=80, **options) -> str:
    text = io.StringIO()
    print_table(table, Console(file=text, width=width, **options))
    return text.getvalue()


def test_every_gap_is_printed_with_its_marks(rows):
    lines = {line.split("  ")[0].strip(): line.split() for line in printed(gap_table(rows)).splitlines()}
    assert lines["ols"] == ["ols", "50*", "60", "80"]
    assert lines["boosting"] == ["boosting", "20*", "100", "220†"]
    assert lines["Optimal, RMSE"][-3:] == ["100", "200", "400"]


def test_best_is_bold_and_second_underlined(rows):
    text = printed(gap_table(rows), force_terminal=True, color_system="standard", no_color=False)
    line = {name: next(line for line in text.splitlines() if name in line) for name in ("ols", "em_mixture")}
    assert "\x1b[1m4\x1b[0m" in line["em_mixture"]
    assert "\x1b[4m80\x1b[0m" in line["ols"]


def nine_levels(rows):
    """Rows with four digits in every cell and a long name."""
    levels = [level / 10 for level in range(1, 10)]
    wide = [
        {**row, "test_level": level, "rmse": row["rmse"] + 2000.0, "optimal_rmse": 100.0}
        for row in rows
        for level in levels
        if row["test_level"] == 0.1
    ]
    return [
        {**row, "method": "boosting, masked copies"} if row["method"] == "boosting" else row for row in wide
    ]


def test_nine_levels_with_four_digits_fit_on_eighty_columns(rows):
    text = printed(gap_table(nine_levels(rows)))
    assert "…" not in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_on_a_narrow_terminal_lines_are_longer_than_it_rather_than_cut(rows):
    table = gap_table(nine_levels(rows))
    lines = [[line.split() for line in printed(table, width).splitlines()] for width in (30, 60, 79)]
    whole = [line.split() for line in printed(table, 80).splitlines()]
    assert lines == [whole] * 3


def test_names_are_no_markup(rows):
    named = [{**row, "method": "[bold]x[/bold]"} if row["method"] == "ols" else row for row in rows]
    assert "[bold]x[/bold]" in printed(gap_table(named))
