from dataclasses import replace
from statistics import fmean

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.published import read_published
from stablemiss.missingness import LEVELS
from stablemiss.report.markdown import reproduction_markdown, split_page, write_block
from stablemiss.report.summary import summarise

QUICK = BUDGETS["quick"]
BEGIN, END = "<!-- cost: begin -->", "<!-- cost: end -->"


def to_markdown(records, budget=QUICK):
    return reproduction_markdown(summarise(records, budget))


def test_tables_contain_our_gaps_and_the_published_ones_in_brackets(stored):
    lines = to_markdown(stored).splitlines()
    place = lines.index("### Table 1: Gaussian-Mix under MAR, trained at 50% missing")
    assert "Instances here: 1." in lines[place + 2]
    assert lines[place + 4] == "| tested at | 10% | 50% | 90% |"
    assert "| NeuMiss | **40** (_714_) | _40_\\* (_293_) | _120_† (_680_†) |" in lines[place:]
    assert "| OLS | **30** | _60_\\* | _80_ |" in lines[place:]
    assert "| MIWAE | – | – | – |" in lines[place:]
    assert "| Optimal, RMSE | 100 (905) | 200 (1324) | 400 (1706) |" in lines[place:]


def test_the_overview_has_the_mean_relative_gap_of_every_table(complete):
    lines = to_markdown(complete, BUDGETS["standard"]).splitlines()
    place = lines.index("## All tables at a glance")
    assert lines[place + 4].startswith("|  | Table 1 | Table 2 | Table 3 | Table 6 ")
    published = read_published("table1")
    relative_gap = fmean(published["neumiss", level] / published["reference", level] for level in LEVELS)
    line = next(line for line in lines[place:] if line.startswith("| NeuMiss"))
    assert f" ({100 * relative_gap:.1f}%) |" in line
    # House prices have no exact linear predictor.
    assert next(line for line in lines[place:] if line.startswith("| linear")).split(" | ")[3] == "–"


def test_head_to_head_results_count_columns_and_clear_differences(two_instances):
    lines = to_markdown(two_instances, BUDGETS["standard"]).splitlines()
    # In each instance the RMSE of OLS is 20 lower, 30 higher and 30 higher than that of StableMiss.
    # The mean increases of 2.13% and 2.17% are alike, so the difference is clear.
    assert "| OLS | 2 of 3 | 1 | 0 | 0 |" in lines


def test_settings_are_escaped(stored):
    hostile = [replace(one, versions={"*x* <script>": END}) for one in stored]
    text = to_markdown(hostile)
    assert END not in text
    assert "\\*x\\* \\<script\\>" in text


def test_a_block_is_replaced_in_place_and_writing_twice_changes_nothing(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Über\n\n{BEGIN}\nold\n{END}\n\nThe end.\n", encoding="utf-8")
    assert split_page(page, "cost")[1] == "old"
    write_block(page, "cost", "new")
    once = page.read_text(encoding="utf-8")
    assert once == f"# Über\n\n{BEGIN}\nnew\n{END}\n\nThe end.\n"
    write_block(page, "cost", "new")
    assert page.read_text(encoding="utf-8") == once


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_the_markers_raises_and_is_unchanged(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="must contain the line <!-- cost: begin -->"):
        write_block(page, "cost", "new")
    assert page.read_text() == text
