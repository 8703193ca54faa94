import io

from rich.console import Console

from stablemiss.report.tables import gap_table
from stablemiss.report.terminal import terminal_table


def printed(table, **options) -> str:
    text = io.StringIO()
    Console(file=text, width=80, **options).print(terminal_table(table))
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


def test_nine_levels_with_four_digits_fit_on_eighty_columns(rows):
    levels = [level / 10 for level in range(1, 10)]
    wide = [
        {**row, "test_level": level, "rmse": row["rmse"] + 2000.0, "optimal_rmse": 100.0}
        for row in rows
        for level in levels
        if row["test_level"] == 0.1
    ]
    wide = [{**row, "method": "boosting, thinned"} if row["method"] == "boosting" else row for row in wide]
    text = printed(gap_table(wide))
    assert "…" not in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_names_are_no_markup(rows):
    named = [{**row, "method": "[bold]x[/bold]"} if row["method"] == "ols" else row for row in rows]
    assert "[bold]x[/bold]" in printed(gap_table(named))
