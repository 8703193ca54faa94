"""`stablemiss card` prints the card of a model file, or writes it as Markdown or HTML."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from stablemiss import MissingRegressor
from stablemiss.cli.app import app


@pytest.fixture
def model_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    path = tmp_path / "model.stablemiss"
    MissingRegressor("ols", random_state=0).fit(X, X[:, 0]).save(path)
    return path


def test_the_card_is_printed(model_file):
    result = CliRunner().invoke(app, ["card", str(model_file)])
    assert result.exit_code == 0
    assert "## Limits" in result.output
    result = CliRunner().invoke(app, ["card", str(model_file), "--json"])
    assert json.loads(result.output)["model"]["method"] == "ols"


def test_the_card_is_written_as_markdown_or_html(model_file, tmp_path):
    pytest.importorskip("jinja2")
    for name, start in (("card.md", "# "), ("card.html", "<!doctype html>")):
        assert (
            CliRunner().invoke(app, ["card", str(model_file), "--output", str(tmp_path / name)]).exit_code
            == 0
        )
        assert (tmp_path / name).read_text().startswith(start)


def test_a_file_that_is_no_model_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "notes.txt").write_text("notes")
    result = CliRunner().invoke(app, ["card", str(tmp_path / "notes.txt")])
    assert result.exit_code != 0
    assert "Traceback" not in result.output
