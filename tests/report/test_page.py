import base64
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from stablemiss.experiments.budgets import BUDGETS, demo_budget
from stablemiss.experiments.tables import PAPER_METHODS, TABLES, demo_table
from stablemiss.pages import document, write_page
from stablemiss.report import page as module
from stablemiss.report.claims import RULES
from stablemiss.report.page import render_page
from stablemiss.report.rules import RULES_OF_COMPARISON
from stablemiss.report.text import title_of
from stablemiss.results import Record

QUICK, STANDARD = BUDGETS["quick"], BUDGETS["standard"]


class Page(HTMLParser):
    """Tags with their attributes, and the cells of the tables in one section."""

    def __init__(self, text: str, section: str = "table1"):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.lines: list[list[str]] = []
        self._wanted, self._section, self._in_cell = section, "", False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self._section = dict(attrs).get("id") or ""
        if self._section == self._wanted:
            if tag == "tr":
                self.lines.append([])
            if tag in ("td", "th"):
                self.lines[-1].append("")
                self._in_cell = True
            if self._in_cell and tag in ("b", "u"):
                self.lines[-1][-1] += f"<{tag}>"
            if self._in_cell and dict(attrs).get("class") in ("relative", "published"):
                self.lines[-1][-1] += " / "

    def handle_endtag(self, tag):
        self._in_cell &= tag not in ("td", "th")

    def handle_data(self, data):
        if self._in_cell:
            self.lines[-1][-1] += data


def test_the_table_has_our_gaps_marked_and_the_published_ones_below(stored):
    lines = Page(render_page(stored, QUICK)).lines
    assert lines[0] == ["tested at", "10%", "50%", "90%"]
    neumiss = [
        "<b>40 / 40.0% / <u>714 78.9%",
        "<u>40* / 20.0% / <u>293 22.1%",
        "<u>120† / 30.0% / <u>680† 39.9%",
    ]
    assert ["NeuMiss", *neumiss] in lines
    assert ["OLS", "<b>30 / 30.0%", "<u>60* / 30.0%", "<u>80 / 20.0%"] in lines
    assert ["EM mixture", "–", "–", "–"] in lines
    # MIWAE failed here; what is in print is shown nevertheless.
    assert next(line for line in lines if line[0] == "MIWAE")[1].startswith("– / 1332")
    assert ["linear", "1 / 1.0%", "1* / 0.5%", "1 / 0.2%"] in lines
    assert ["Optimal, RMSE", "100 / 905", "200 / 1324", "400 / 1706"] in lines


def test_the_standard_deviation_over_instances_is_shown(two_instances):
    lines = Page(render_page(two_instances, STANDARD)).lines
    line = next(line for line in lines if line[0] == "OLS")
    cells = ["<b>35 ±7 / 35.0%", "<u>65* ±7 / 32.5%", "<u>85 ±7 / 21.3%"]
    assert [cell for cell in line[1:] if cell != "–"] == cells


def test_failures_and_missing_runs_are_shown_as_text(stored):
    page = render_page(stored, QUICK)
    assert ["MIWAE", "0", "ValueError: <b>no</b> loss | at all\nline 2"] in Page(page).lines
    assert "57 of 75 cells have no result yet" in page


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</table>&amp;"]
)
def test_html_in_records_is_escaped(stored, name):
    """Whatever a record contains, the page has the same elements."""
    hostile = [
        replace(one, finished=name, versions={name: name}, config={name: name} if one.config else {})
        for one in stored
    ]
    pages = [Page(render_page(records, QUICK)) for records in (hostile, stored)]
    assert [tag for tag, _ in pages[0].tags] == [tag for tag, _ in pages[1].tags]


def test_the_verdict_comes_first_and_every_part_is_linked(complete_page):
    page = complete_page
    sections = re.findall(r'<section id="(\w+)"', page)
    tables = [f"table{number}" for number in range(1, 12)]
    parts = ["overview", "claims", "against", *tables, "figure2", "figure3"]
    assert sections == [*parts, "patterns", "rules", "settings", "reading"]
    places = [page.index(mark) for mark in ("<h1>", 'id="verdict"', "<nav", 'id="overview"', 'id="claims"')]
    assert places == sorted(places)
    links = [attributes["href"] for tag, attributes in Page(page).tags if tag == "a"]
    assert {f"#{name}" for name in sections} <= set(links)
    assert {link[1:] for link in links} <= set(sections)


def test_content_is_in_tables_and_not_in_bullets(stored, complete_page):
    for page in (complete_page, render_page(stored, QUICK)):
        assert not {"ul", "li"} & {tag for tag, _ in Page(page).tags}


def test_results_can_be_switched_without_scripts(stored):
    """Three labelled radio buttons; both is the default."""
    page = render_page(stored, QUICK)
    tags = Page(page).tags
    buttons = [attributes for tag, attributes in tags if tag == "input"]
    assert {button["type"] for button in buttons} == {"radio"}
    assert len({button["name"] for button in buttons}) == 1
    names = [button["id"] for button in buttons]
    assert names == ["show-ours", "show-printed", "show-both"]
    assert [button["id"] for button in buttons if "checked" in button] == ["show-both"]
    assert [attributes["for"] for tag, attributes in tags if tag == "label"] == names
    assert all(f":has(#{name}:checked)" in page for name in names[:2])
    assert "legend" in {tag for tag, _ in tags}


def test_methods_that_the_paper_does_not_have_are_ours(stored):
    """Hidden when only printed numbers are shown."""
    page = render_page(stored, QUICK)
    table = page[page.index('<section id="table1"') :]
    rows = table[: table.index("</table>")].split("<tbody")
    names = ("NeuMiss", "OLS", "GAIN")
    paper, added, further = (next(part for part in rows if f">{name}<" in part) for name in names)
    assert not paper.startswith(' class="ours"')
    assert added.startswith(' class="ours"')
    assert further.startswith(' class="ours"')
    # A line separates the three groups.
    assert len({paper, added, further}) == 3


def section_of(page, name):
    start = page.index(f'<section id="{name}"')
    return page[start : page.index("</section>", start)]


def test_a_table_of_images_has_a_part_for_each_group_of_methods(complete_page):
    """The paper's eight methods, the others, which have no printed numbers, and those trained as tested."""
    parts = section_of(complete_page, "table4").split("<tbody")[1:]
    names = [re.findall(r'<th scope="row">([^<]+)', part) for part in parts]
    assert names[0] == [title_of(label) for label in PAPER_METHODS]
    assert "OLS" in names[1]
    assert names[2] == ["StableMiss trained as tested"]
    assert [part.startswith(' class="ours"') for part in parts] == [False, True, False]


def test_a_table_without_printed_numbers_says_so_instead_of_being_empty(complete_page):
    box = r'<div class="scroll([^"]*)"[^>]*aria-label="{}"'
    table_4, table_5 = section_of(complete_page, "table4"), section_of(complete_page, "table5")
    assert "ours" in re.search(box.format("Table 5"), table_5).group(1).split()
    assert "ours" not in re.search(box.format("Table 4"), table_4).group(1).split()
    sentence = '<p class="quiet only-printed">The paper used other roads'
    assert sentence in table_5
    assert sentence not in table_4


def test_two_rows_of_titles_say_what_was_trained_and_tested(complete_page):
    first, second = Page(complete_page, "table5").lines[:2]
    assert first[1:] == ["other period: trained → tested", "same year: outages imposed in the test"]
    assert second[1:4] == ["2023 → 2024", "2024 → 2023", "Mar–Apr 2023 → Jan–Feb 2024"]
    assert section_of(complete_page, "table5").count('colspan="3"') == 2


def test_values_of_fewer_instances_are_muted_marked_and_explained(complete, complete_page):
    """One method without one instance, one with a single instance, and one with none."""
    assert "‡" not in complete_page
    assert "of a single instance" not in complete_page
    lost = {"ols": {2}, "neumiss": {1, 2}, "dwr": {0, 1, 2}}
    page = render_page(
        [one for one in complete if one.dataset != "mnist" or one.instance not in lost.get(one.label, ())],
        STANDARD,
    )
    lines = {line[0]: line[1:] for line in Page(page, "table4").lines}
    assert all(re.fullmatch(r"\d+\.\d\d‡ ±\d+\.\d\d", cell) for cell in lines["OLS"])
    assert all(re.match(r"\d+\.\d\d‡ / ", cell) for cell in lines["NeuMiss"])
    assert not any("‡" in cell for cell in lines["StableMiss"])
    table = section_of(page, "table4")
    assert table.count('class="ours partial"') == 18
    assert "‡: not ranked" in table
    assert "without ±, of a single instance" in table
    assert "of 182 values, 9 are not there yet (a dash) and 18 are of fewer than 3 instances" in table


def test_claims_have_a_verdict_each_and_the_rule_is_on_the_page(complete_page):
    lines = Page(complete_page, "claims").lines
    verdicts = [line[1].removeprefix("<b>") for line in lines if len(line) == 7][1:]
    assert len(verdicts) == len(TABLES) + 2 + 2  # figures have two each, and there are tables 4 and 5
    assert set(verdicts) <= {"held", "in part", "not held"}
    assert [line[0] for line in lines if len(line) == 2] == list(RULES)


def test_pairs_have_their_interval(two_instances):
    line = next(one for one in Page(render_page(two_instances, STANDARD), "against").lines if one[0] == "OLS")
    assert re.fullmatch(r"[+−]\d+\.\d+%\[−?\d+\.\d+, −?\d+\.\d+\]", line[1])


def test_the_rules_and_the_changes_since_the_first_run_are_on_the_page(complete):
    """The changes are relative to the first run: here half of its errors."""
    half = [
        replace(one, scores=tuple(replace(score, error=score.error / 2) for score in one.scores))
        for one in complete
        if one.label == "ols"
    ]
    page = render_page(complete, STANDARD, first_run=half)
    assert [line[0] for line in Page(page, "rules").lines] == [
        name for rules in RULES_OF_COMPARISON.values() for name in rules
    ]
    [line] = [line for line in Page(page, "changes").lines if line[0] == "OLS"]
    assert line[2:4] == ["+100.0%", "+100.0%"]


def test_row_weights_are_shown_and_old_records_have_a_dash(stored):
    measured = {"effective_share": 0.75, "gamma": 0.5, "critical_gamma": 12.0}
    new = [replace(one, extra=measured) if one.label == "stablemiss" else one for one in stored]
    assert ["StableMiss", "75.0%", "0.5", "12", "1"] in Page(render_page(new, QUICK)).lines
    assert ["StableMiss", "–", "–", "–", "1"] in Page(render_page(stored, QUICK)).lines


def test_every_shown_method_is_described(complete_page):
    names = {line[0] for line in Page(complete_page, "reading").lines}
    shown = {title_of(label) for table in TABLES.values() for label in table.methods}
    assert shown <= names


def test_training_as_published_is_shown_beside_early_stopping(complete, complete_page):
    page = complete_page
    assert "Trained as published" not in page
    late = [replace(one, experiment="as_published") for one in complete if one.instance == 0]
    page = render_page(complete, STANDARD, as_published=late)
    lines = Page(page, "training").lines
    names = [line[0] for line in lines]
    for name in ("StableMiss, stopped early", "StableMiss, 1000 epochs", "StableMiss, in print"):
        assert name in names
    training = page[page.index('<section id="training"') : page.index('<section id="patterns"')]
    # Both plots of figure 2, and of figure 3.
    assert training.count("<svg") == 4
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_any_part_of_the_records_has_a_page(stored, complete):
    for records, budget in ((stored[:1], QUICK), (complete[::7], STANDARD), (complete[:1], STANDARD)):
        assert "</html>" in render_page(records, budget, as_published=stored)


def demo_records(stored):
    return [replace(one, experiment="demo", level=0.1) for one in stored]


def test_the_demo_shows_one_table_with_a_plot_and_contains_its_records(stored):
    records = demo_records(stored)
    page = render_page(records, demo_budget(), demo=demo_table())
    assert "<h1>Gaussian-Mix under MAR, trained at 10% missing</h1>" in page
    assert page.count("<svg") == 1
    lines = Page(page, "demo").lines
    assert lines[0][:2] == ["tested at", "10%"]
    link = next(attributes for _, attributes in Page(page).tags if "download" in attributes)
    text = base64.b64decode(link["href"].split(",")[1]).decode()
    assert [Record.from_json(line) for line in text.splitlines()] == records


def test_the_page_needs_no_other_files(stored):
    for page in (
        render_page(stored, QUICK),
        render_page(demo_records(stored), demo_budget(), demo=demo_table()),
    ):
        tags = Page(page).tags
        assert "script" not in {tag for tag, _ in tags}
        names = ("href", "src", "xlink:href")
        addresses = [value for _, attributes in tags for name, value in attributes.items() if name in names]
        assert addresses
        assert all(address.startswith(("#", "data:")) for address in addresses)
        assert not re.search(r"url\((?!#)|@import", page)


def test_a_failed_write_keeps_the_earlier_page(tmp_path):
    path = write_page("earlier", tmp_path / "page.html")
    with pytest.raises(UnicodeEncodeError):
        write_page("\ud800", path)
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_without_jinja2_the_error_says_how_to_install_it(stored, monkeypatch):
    monkeypatch.setattr(
        "stablemiss.pages.document.find_spec", lambda name: None if name == "jinja2" else object()
    )
    with pytest.raises(ModuleNotFoundError, match=r'pip install "stablemiss\[report\]"'):
        render_page(stored, QUICK)


def test_views_import_neither_torch_nor_scikit_learn(stored, tmp_path):
    """Neither at import nor while the page is rendered."""
    (tmp_path / "records.jsonl").write_text("".join(record.to_json() + "\n" for record in stored))
    script = (
        "import sys\n"
        "from stablemiss.experiments.budgets import BUDGETS\n"
        "from stablemiss.report.markdown import reproduction_markdown\n"
        "from stablemiss.report.page import render_page\n"
        "from stablemiss.report.summary import summarise\n"
        "from stablemiss.results import Store\n"
        "records, quick = Store('records.jsonl').records(), BUDGETS['quick']\n"
        "render_page(records, quick), reproduction_markdown(summarise(records, quick))\n"
        "print(sorted({'torch', 'sklearn', 'lightgbm'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "[]"


def test_the_templates_are_part_of_the_package():
    folder = Path(module.__file__).parent / "templates"
    assert (folder / "page.html.j2").is_file()
    assert (Path(document.__file__).parent / "templates" / "style.css").is_file()


@pytest.mark.slow
def test_a_phone_shows_the_page_without_horizontal_scrolling(complete, open_on_phone):
    """At 390 px only the boxes around tables scroll, and the browser reports no errors."""
    first, *others = complete
    records = [replace(first, failure="x" * 500, scores=()), *others]
    page = render_page(records, STANDARD)
    assert all(f'<section id="{name}">' in page for name in (*TABLES, "overview", "patterns"))
    found = open_on_phone(page)
    assert found["page"] <= found["seen"] <= 390
    assert found["scrolling"]
    assert 0 < found["first"] <= 0.4 * found["seen"]
