"""The text and the page of a stress test."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline

from stablemiss import stress_test
from stablemiss.evaluation.stress.verdict import phrase
from stablemiss.missingness import Outage


def imputed(model):
    return make_pipeline(SimpleImputer(keep_empty_features=True), model)


def make_result(d=3, models=1, **arguments):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, d))
    y = 2 * X[:, 0] + X[:, 1] + 0.2 * rng.normal(size=200)
    X[rng.random(X.shape) < 0.05] = np.nan
    frame = pd.DataFrame(X, columns=[f"<b>{j}" for j in range(d)])
    named = {f"model {i}": imputed(Ridge(10.0**i)) for i in range(models)}
    return stress_test(named, frame, y, **({"levels": [0.2, 0.5, 0.8]} | arguments))


@pytest.fixture(scope="module")
def one():
    return make_result()


@pytest.fixture(scope="module")
def two():
    return make_result(models=2)


class Ids(HTMLParser):
    """Collects the ids and the links within the page."""

    def __init__(self, page):
        super().__init__()
        self.ids, self.links = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a" and attributes["href"].startswith("#"):
            self.links.append(attributes["href"][1:])


@pytest.mark.parametrize("name", ["one", "two"])
def test_the_page_needs_nothing_else_and_its_ids_are_unique(request, name):
    page = request.getfixturevalue(name).to_html()
    found = Ids(page)
    assert len(found.ids) == len(set(found.ids))
    assert set(found.links) <= set(found.ids)
    assert "<script" not in page
    # The names of XML dialects in drawings are no addresses that a browser opens.
    assert not re.search(r'(src|href)="(?!#|data:)(?!http://www.w3.org)', page)
    assert len(page) < 1e6


def test_names_of_columns_are_escaped(one):
    page = one.to_html()
    assert "<b>0" not in page
    assert "&lt;b&gt;0" in page


def test_the_verdict_comes_first_with_its_numbers(one, two):
    page = one.to_html()
    assert page.index('id="verdict"') < page.index("<nav")
    given, headline = one.baseline("model 0"), one.headline("model 0", "MCAR")
    assert headline.level == 0.5
    share = headline.increase / (one.constant - given.error)
    assert f"loses {100 * share:.0f}% of its advantage over a constant when 50% of the values" in one.verdict
    assert "losing column '<b>0' alone raises its RMSE" in one.verdict
    assert str(one).startswith("model 0 loses")
    assert "of 2 models" in two.verdict or "most robust of 2" in two.verdict
    assert "95% interval" in two.verdict


def test_a_model_that_is_no_better_than_a_constant_is_called_so():
    X, y = np.random.default_rng(0).normal(size=(50, 2)), np.arange(50.0)
    result = stress_test(DummyRegressor(strategy="constant", constant=1e3).fit(X, y), X, y, ["MCAR"], [0.5])
    assert "not better than a constant even on the table as given" in result.verdict
    assert result.first_worse(result.models[0], "MCAR").level == 0.5
    assert "from 50%" in str(result)


def test_every_mechanism_has_a_phrase_and_a_row(one):
    for mechanism in one.mechanisms:
        assert "%" in phrase(one.curve("model 0", mechanism)[0])
        assert f'<th scope="row">{mechanism}</th>' in one.to_html()
        assert re.search(f"^{mechanism} ", str(one), flags=re.MULTILINE)


def test_models_are_compared_only_if_there_are_several(one, two):
    assert 'id="comparison"' not in one.to_html()
    assert 'id="comparison"' in two.to_html()
    assert two.to_html().count("<svg") == len(two.mechanisms) + 1
    assert one.to_html().count("<svg") == 2


def test_a_table_of_many_columns_shows_the_most_important_first_and_folds_the_others():
    result = make_result(d=120, mechanisms=["MCAR"], levels=[0.5])
    page = result.to_html()
    folded = page[page.index("<summary>105 further columns") :]
    most, least = result.columns[0].column, result.columns[-1].column
    assert most.replace("<b>", "&lt;b&gt;") + "</th>" not in folded[: folded.index("</details>")]
    assert least.replace("<b>", "&lt;b&gt;") + "</th>" in folded
    assert len(page) < 3e5
    assert "110 more in columns_frame()" in str(result)


def test_numbers_have_the_decimals_of_the_constant():
    X = np.random.default_rng(0).normal(size=(80, 2))
    result = stress_test(imputed(LinearRegression()), X, 1e6 * X[:, 0], ["MCAR"], [0.5])
    assert result.number(1234567.8) == "1,234,568"
    assert result.number(-0.2) == "0"


def test_it_shows_itself_in_notebooks_and_is_written_to_a_file(one, tmp_path):
    assert "<iframe" in one._repr_html_()
    assert one.save_html(tmp_path / "stress.html").read_text() == one.to_html()


def test_names_of_mechanisms_may_have_any_characters():
    X = np.random.default_rng(0).normal(size=(80, 2))
    result = stress_test(imputed(LinearRegression()), X, X[:, 0], {"50% {off} & <on>": Outage([0])}, [1.0])
    assert "'50% {off} & <on>' reaches 100%" in result.verdict
    assert "50% {off} &amp; &lt;on&gt;" in result.to_html()


@pytest.mark.slow
def test_a_phone_shows_the_page_without_horizontal_scrolling(two, open_on_phone):
    found = open_on_phone(two.to_html())
    assert found["page"] <= found["seen"] <= 390
