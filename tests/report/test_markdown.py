from dataclasses import replace
from statistics import fmean

import pytest
from scipy.stats import ttest_1samp

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.published import read_published
from stablemiss.missingness import LEVELS
from stablemiss.report.markdown import reproduction_markdown, split_page, write_block
from stablemiss.report.summary import summarise
from stablemiss.report.text import interval_text, signed_percent
from stablemiss.report.verdict import verdict

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
    # At 50%, the column of table 2, the means of both instances are alike, so the difference is clear.
    assert "| OLS | 2 of 3 | 1 | 0 | 1 |" in lines
    differences = [
        fmean(a / b - 1 for a, b in zip(ours, ols, strict=True))
        for ours, ols in (((150, 230, 450), (130, 260, 480)), ((160, 240, 460), (140, 270, 490)))
    ]
    interval = tuple(ttest_1samp(differences, 0).confidence_interval(0.95))
    line = next(line for line in lines if line.startswith("| OLS | ") and "[" in line)
    assert line.split(" | ")[1] == f"{signed_percent(fmean(differences))} {interval_text(interval)}"


def test_the_verdict_comes_first_and_claims_and_row_weights_have_tables(complete, complete_summary):
    text = to_markdown(complete, BUDGETS["standard"])
    # Brackets have a meaning in Markdown and are escaped.
    assert text.replace("\\", "").startswith(verdict(complete_summary))
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles.index("## All tables at a glance") < titles.index("## The paper's claims")
    assert "## Row weights" in titles
    assert "## Trained as published" not in titles


def test_early_stopping_and_training_as_published_are_rows_beside_the_printed_gaps(make_records):
    early = {"optimal": [(100.0, 200.0, 400.0)], "neumiss": [(140.0, 240.0, 520.0)]}
    early["stablemiss"] = [(150.0, 230.0, 450.0)]
    late = {**early, "stablemiss": [(250.0, 430.0, 950.0)]}
    levels = (0.1, 0.5, 0.9)
    as_published = replace(BUDGETS["as_published"], levels=levels)
    records = make_records("table1", late, as_published)
    summary = summarise(make_records("table1", early), QUICK, as_published=records)
    lines = reproduction_markdown(summary).splitlines()
    place = lines.index("### Table 1, trained as published")
    rows = [[cell for cell in line.split(" | ")[1:] if cell.strip("| ") != "–"] for line in lines[place:]]
    named = {line.split(" | ")[0].strip("| "): row for line, row in zip(lines[place:], rows, strict=True)}
    assert [cell.strip(" |") for cell in named["StableMiss, stopped early"]] == ["50", "30", "50"]
    assert [cell.strip(" |") for cell in named["StableMiss, 1000 epochs"]] == ["150", "230", "550"]
    assert named["StableMiss, in print"][0] == "431"
    # Methods that were not trained as published have no rows.
    assert "MIWAE, 1000 epochs" not in named


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
