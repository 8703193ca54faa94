"""The documentation site builds strictly and offline, and is complete; links and quoted numbers are right."""

import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOADED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="https?:')
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s]+)\)")


@pytest.fixture(scope="module")
def generate():
    """The module that writes the generated pages."""
    pytest.importorskip("sphinx", reason="needs stablemiss[docs]")
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it, all examples executed."""
    pytest.importorskip("sphinx", reason="needs stablemiss[docs]")
    folder = tmp_path_factory.mktemp("site")
    source = folder / "docs"
    ignored = shutil.ignore_patterns("gallery", "api", "__pycache__")
    # A copy, because the build writes generated pages beside the others.
    shutil.copytree(ROOT / "docs", source, ignore=ignored)
    for name in ("examples", "src", "CHANGELOG.md"):
        (folder / name).symlink_to(ROOT / name)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-b",
        "html",
        "-q",
        "-W",
        "--keep-going",
        source,
        folder / "site",
    ]
    environment = {**os.environ, "MPLBACKEND": "Agg", "http_proxy": "http://localhost:9"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_to_files_of_the_repository(name):
    for link in LINK.findall((ROOT / name).read_text()):
        assert (ROOT / link.split("#")[0]).exists(), link


def test_the_list_of_deviations_has_every_mark_of_the_source(generate):
    marks = generate.find_marks()
    written = sum(
        len(re.findall(r"^ *# (?:DEVIATION|PAPER): ", path.read_text(), re.MULTILINE))
        for path in (ROOT / "src").rglob("*.py")
    )
    assert len(marks) == written > 100
    assert all("\n" not in mark.text and mark.text for mark in marks)


def test_marks_span_all_their_lines_and_end_at_the_next_mark(generate, tmp_path):
    (tmp_path / "one.py").write_text(
        "x = 1\n# PAPER: eq. (7),\n#   and its text.\n# DEVIATION: here, because\n# of this.\ny = 2\n"
    )
    assert generate.find_marks(tmp_path) == [
        ("one.py", 2, "PAPER", "eq. (7),   and its text."),
        ("one.py", 4, "DEVIATION", "here, because of this."),
    ]


def test_every_public_name_of_the_package_is_in_the_reference(generate):
    import stablemiss

    assert set(generate.public_names("stablemiss")) == set(stablemiss.__all__)
    assert "CNN" in generate.public_names("stablemiss.architectures")
    assert "Space" not in generate.documented_names("stablemiss.tuning")


# Of numpydoc's rules, those that our docstrings do not follow everywhere: an extended summary and an example
# for each name, a description of each result, capital letters at the start of one.
NOT_FOLLOWED = {"ES01", "EX01", "PR01", "PR07", "PR08", "RT01", "RT02", "RT03", "SS02"}


@pytest.mark.slow
def test_docstrings_of_public_names_pass_the_validation_of_numpydoc(generate):
    validate = pytest.importorskip("numpydoc.validate", reason="needs stablemiss[docs]").validate
    for module in generate.MODULES:
        imported = importlib.import_module(module)
        for name in generate.documented_names(module):
            if callable(getattr(imported, name)):
                codes = {code for code, _ in validate(f"{module}.{name}")["errors"]}
                assert codes <= NOT_FOLLOWED, name


def test_the_table_of_dead_columns_has_the_stored_records():
    lines = (ROOT / "benchmarks" / "results" / "dead_column.jsonl").read_text().splitlines()
    records = {record["label"]: record for record in map(json.loads, lines)}
    page = (ROOT / "docs" / "methods" / "anymask.md").read_text().partition("<!-- dead column: begin -->")[2]
    for label in ("LightGBM", "AnyMask, fast", "AnyMask", "LightGBM, retrained without it"):
        r2 = [f"{score['extra']['r2']:.2f}" for score in records[label]["scores"]]
        row = re.search(rf"^\| {label} \|(.*)\|$", page, re.MULTILINE)[1]
        assert re.findall(r"[\d.]+", row) == r2


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_the_site_has_every_page_and_asks_the_network_for_nothing(site, generate):
    for module in generate.MODULES:
        for name in generate.documented_names(module):
            assert (site / "api" / f"{module}.{name}.html").exists()
    for name in ("index", "faq", "deviations", "changelog", "how_to/add_method", "explanation/oracle"):
        assert (site / f"{name}.html").exists()
    for page in site.rglob("*.html"):
        assert not LOADED.search(page.read_text()), page


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_every_example_has_its_pictures(site):
    examples = sorted((ROOT / "examples").glob("plot_*.py"))
    assert len(examples) >= 6
    for example in examples:
        page = (site / "gallery" / f"{example.stem}.html").read_text()
        assert f"sphx_glr_{example.stem}_001.png" in page
        assert (site / "_images" / f"sphx_glr_{example.stem}_thumb.png").exists()


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_the_search_finds_pages_without_a_server(site, tmp_path):
    chromium = find_chromium()
    done = subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=20000",
            "--dump-dom",
            (site / "search.html").as_uri() + "?q=ignorability",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    results = done.stdout[done.stdout.index('id="search-results"') :]
    assert "explanation/ignorability.html" in results


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_pages_pass_axe_at_two_widths_and_in_both_themes(site):
    """Needs axe-core and puppeteer-core in the folder STABLEMISS_AXE; see CONTRIBUTING.md."""
    folder = os.environ.get("STABLEMISS_AXE")
    if not folder or shutil.which("node") is None:
        pytest.skip("needs node, and axe-core in the folder STABLEMISS_AXE")
    names = ("index", "methods/anymask", "gallery/plot_1_dead_column", "api/stablemiss.AnyMaskRegressor")
    pages = [site / f"{name}.html" for name in names]
    done = subprocess.run(
        ["node", ROOT / "tests" / "pages.mjs", folder, find_chromium(), *pages],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 4 * len(pages)
    for one in found:
        assert not one["errors"], one
        assert not one["requests"], one
        assert not one["violations"], one
        assert one["overflow"] <= 0, one


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    pytest.importorskip("nbclient", reason="needs stablemiss[docs]")
    code = "import sys, nbformat, nbclient; nbclient.NotebookClient(nbformat.read(sys.argv[1], 4)).execute()"
    # In a process of its own: a client leaves an event loop open, which is a warning.
    command = [sys.executable, "-c", code, ROOT / "examples" / "first_model.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "rents.stablemiss").exists()


def find_chromium():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("needs Chromium")
    return found
