"""Model cards: they know the data, the masks and the errors, also of a loaded model, and errors grow "
"with masks."""

import re

import numpy as np
import pytest

from stablemiss import AnyMaskRegressor, MissingClassifier, MissingRegressor, load_model, stress_test

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.normal(size=(100, 2)), columns=["area", "<b>|rooms"])
    y = pandas.Series(X.sum(axis=1), name="price")
    X.loc[::5, "area"] = np.nan
    return AnyMaskRegressor(budget="fast", members=["mixture"], random_state=0).fit(X, y), X, y


def test_a_loaded_model_has_the_same_card(fitted, tmp_path):
    model, *_ = fitted
    model.save(tmp_path / "model.stablemiss")
    assert load_model(tmp_path / "model.stablemiss").model_card().to_dict() == model.model_card().to_dict()


def test_the_card_tells_data_masks_and_versions(fitted):
    model, *_ = fitted
    card = model.model_card()
    assert card.model["target"] == "price"
    assert {column.name: column.n_missing for column in card.columns} == {"area": 20, "<b>|rooms": 0}
    assert "'area'" in card.masks[0]
    assert "rooms" in card.masks[1]
    assert set(card.versions) >= {"Python", "numpy", "stablemiss"}


def test_expected_errors_grow_with_the_share_of_missing_columns(fitted):
    model, _, y = fitted
    errors = [row.error for row in model.model_card().expected]
    assert errors == sorted(errors)
    assert errors[0] < 0.5 * errors[-1]
    assert errors[-1] == pytest.approx(y.std(), rel=0.35)


def test_names_of_columns_cannot_break_the_page_or_the_tables(fitted):
    pytest.importorskip("jinja2")
    card = fitted[0].model_card()
    assert "<b>" not in card.to_html()
    assert "<b>" not in card.to_markdown()
    rows = [line for line in card.to_markdown().splitlines() if "rooms" in line and line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows)


def test_a_stress_test_adds_the_mechanisms_that_were_tried(fitted):
    model, X, y = fitted
    stress = stress_test(model, X, y, mechanisms=["MCAR"], levels=[0.5])
    card = model.model_card(stress)
    assert {row.mechanism for row in card.measured} >= {"MCAR"}
    assert card.measured_metric == "RMSE"
    two = stress_test({"one": model, "two": model}, X, y, mechanisms=["MCAR"], levels=[0.5])
    with pytest.raises(ValueError, match="alone"):
        model.model_card(two)


def test_other_methods_have_a_card_without_expected_errors():
    X = np.random.default_rng(0).normal(size=(40, 2))
    card = MissingRegressor("ols", random_state=0).fit(X, X[:, 0]).model_card()
    assert card.expected == []
    assert "new to the model" in " ".join(card.masks)
    classifier = MissingClassifier("constant").fit(X, X[:, 0] > 0)
    assert "classes" in classifier.model_card().to_markdown()
