"""Arrays in, arrays out: incomplete images are completed by StableMiss with an architecture for arrays."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from stablemiss import (
    AnyMaskRegressor,
    MissingClassifier,
    MissingRegressor,
    StableMissClassifier,
    StableMissRegressor,
    load_model,
)
from stablemiss.architectures import CNN
from stablemiss.estimators import (
    ArchiveError,
    OutOfRangeWarning,
    SuspiciousDataWarning,
    UnseenMissingWarning,
)
from stablemiss.estimators.archive import read_tree, write_tree
from stablemiss.methods import METHODS, StableMiss
from stablemiss.seeding import to_rng

N = 60
GENERATE = pytest.mark.parametrize("generate", ["global", "local"])


def small(generate="global", **settings):
    defaults = {"max_epochs": 4, "learning_rate": 1e-2, "random_state": 0}
    return StableMissRegressor(CNN(channels=(4, 4, 4), generate=generate, rank=4), **defaults | settings)


def draw(n=N, seed=0, channels=None, missing=0.3):
    """Smooth blobs of 8 × 8 pixels: incomplete images, and complete ones."""
    rng = to_rng(seed)
    place = np.stack(np.meshgrid(np.arange(8), np.arange(8), indexing="ij"))
    centre = rng.uniform(0, 8, size=(n, 2, 1, 1))
    images = 100 * np.exp(-((place - centre) ** 2).sum(axis=1) / 10)
    if channels is not None:
        images = images[:, None] * np.arange(1, channels + 1)[:, None, None]
    return np.where(rng.uniform(size=images.shape) < missing, np.nan, images), images


@GENERATE
@pytest.mark.parametrize("channels", [None, 2])
def test_predictions_have_the_shape_of_the_targets_and_are_finite(generate, channels):
    X, images = draw(channels=channels)
    model = small(generate, max_epochs=1).fit(X, images)
    X[0], X[1] = np.nan, images[1]  # nothing and everything observed
    prediction = model.predict(X)
    assert prediction.shape == images.shape
    assert np.isfinite(prediction).all()
    assert model.n_features_in_ == model.n_outputs_ == images[0].size


def test_channels_of_input_and_target_may_differ():
    X, images = draw(channels=2)
    assert small(max_epochs=1).fit(X, images[:, 0]).predict(X[:3]).shape == (3, 8, 8)
    X, _ = draw()
    assert small(max_epochs=1).fit(X, images).predict(X[:3]).shape == (3, 2, 8, 8)


@GENERATE
def test_new_images_are_completed_better_than_by_the_mean_image_and_by_the_observed_pixels(generate):
    X, images = draw(n=200)
    model = small(generate, max_epochs=8).fit(X, images)
    new, truth = draw(n=100, seed=1)
    mean_image = images.mean(axis=0)
    filled = np.where(np.isnan(new), mean_image, new)
    error, mean_error, filled_error = (
        np.sqrt(np.mean((guess - truth) ** 2)) for guess in (model.predict(new), mean_image, filled)
    )
    assert error < 0.6 * mean_error
    assert error < filled_error
    assert model.validation_scores_["rmse"] < 0.6 * model.validation_scores_["rmse_constant"]
    assert model.score(new, truth) > 0.6


@GENERATE
def test_other_images_have_no_influence_on_a_prediction(generate):
    X, images = draw()
    model = small(generate, max_epochs=2).fit(X, images)
    together = model.predict(X)
    order = to_rng(0).permutation(N)
    np.testing.assert_allclose(model.predict(X[order]), together[order], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.predict(X[5:6])[0], together[5], rtol=1e-9, atol=1e-9)


def test_the_same_seed_gives_the_same_images():
    X, images = draw()
    np.testing.assert_array_equal(*(small().fit(X, images).predict(X) for _ in range(2)))


def test_the_unit_of_the_images_does_not_matter():
    X, images = draw()
    expected = small(max_epochs=2).fit(X, images).predict(X)
    scaled = small(max_epochs=2).fit(1e-3 * X, 1e-3 * images).predict(1e-3 * X)
    np.testing.assert_allclose(1e3 * scaled, expected, rtol=0.02, atol=0.5)


def test_cells_of_the_target_that_are_not_observed_are_left_out():
    X, images = draw()
    seen = to_rng(1).uniform(size=images.shape) < 0.6
    y = np.where(seen, images, np.nan)
    y[3] = np.nan  # a row without any target is dropped
    model = small().fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    without = small().fit(np.delete(X, 3, axis=0), np.delete(y, 3, axis=0))
    np.testing.assert_array_equal(model.predict(X), without.predict(X))
    assert model.validation_scores_["rmse"] < model.validation_scores_["rmse_constant"]


def test_missing_targets_stay_an_error_in_tables():
    X, images = draw()
    y = images[:, 0, :3].copy()
    y[4, 1] = np.nan
    for rows in (X, X.reshape(N, -1)):
        with pytest.raises(ValueError, match=r"Input y contains NaN.*row 4"):
            small().fit(rows, y)


def test_row_weights_decorrelate_cells():
    X, images = draw()
    model = small(max_epochs=1, decorrelate="intra", form="paper", gamma=0.01)
    model.fit(X[:, :4, :4], images[:, :4, :4])
    assert 0 < model.predictor_.effective_share < 1


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].reads_arrays])
def test_methods_that_read_each_cell_as_a_column_accept_images(name):
    X, images = draw(n=40)
    brief = METHODS[name](**METHODS[name].brief)
    model = MissingRegressor(brief, random_state=0).fit(X, images)
    assert model.predict(X).shape == images.shape
    single = MissingRegressor(brief, random_state=0).fit(X, images[:, 0, 0])
    assert single.predict(X).shape == (40,)
    classifier = MissingClassifier(brief, random_state=0).fit(X, np.arange(40) % 2)
    assert classifier.predict_proba(X).shape == (40, 2)


@pytest.mark.parametrize("name", [name for name in METHODS if not METHODS[name].reads_arrays])
def test_methods_for_tables_say_what_to_do_with_images(name):
    X, images = draw(n=20)
    for estimator in (MissingRegressor(name), AnyMaskRegressor(), StableMissRegressor("mlp")):
        with pytest.raises(ValueError, match=r"reads? tables") as error:
            estimator.fit(X, images)
        is_stablenet = getattr(estimator, "method", None) == "stablenet"
        advice = "StableNet(architecture=CNN(generate='none'))" if is_stablenet else "architecture=CNN()"
        for fact in ("X.reshape(len(X), -1)", advice, "GraphTemporal(graph"):
            assert fact in str(error.value)
    with pytest.raises(ValueError, match="tables"):
        MissingClassifier(name).fit(X, np.arange(20) % 2)


def test_an_architecture_for_images_says_what_to_do_with_other_data():
    X, images = draw(n=20)
    cases = [
        (small(), X.reshape(20, -1), images[:, 0, 0], "Reshape X"),
        (small(), X, images[:, 0, 0], "y must have shape"),
        (small(), X, images[:, :4], "y must have shape"),
        (small(), X, images[:10], "X has 20 rows but y has 10"),
        (small(), X[:, 0], images, "y should be"),
        (StableMissClassifier(CNN()), X, np.arange(20) % 2, "reshape X to a table"),
    ]
    for estimator, rows, target, fact in cases:
        with pytest.raises(ValueError, match=fact):
            estimator.fit(rows, target)


def test_targets_that_can_be_copied_from_the_input_cause_a_warning():
    X, images = draw()
    with pytest.warns(SuspiciousDataWarning, match="learns to copy") as caught:
        small(max_epochs=1).fit(X, X)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "y has no value", SuspiciousDataWarning)
        small(max_epochs=1).fit(X, images)
        # Another image of the same size is no copy.
        small(max_epochs=1).fit(images, images[:, ::-1])


def test_a_warning_names_only_some_of_many_missing_cells():
    _, images = draw()
    model = small(max_epochs=1).fit(images, images[:, ::-1])
    with pytest.warns(UnseenMissingWarning, match=r"and 61 (more|other) cells"):
        model.predict(np.full_like(images, np.nan))


def test_unusual_values_and_missing_cells_cause_the_warnings_of_tables():
    X, images = draw()
    X[:, 2, 2] = images[:, 2, 2]
    model = small(max_epochs=1).fit(X, images)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)
    new = X.copy()
    new[:3, 2, 2] = np.nan
    with pytest.warns(UnseenMissingWarning, match=r"cells.*cell \(2, 2\)' \(3 rows\)") as caught:
        model.predict(new)
    assert caught[0].filename == __file__
    new = X.copy()
    new[0, 0, 0] = 1e9
    with pytest.warns(OutOfRangeWarning, match="1e\\+09"):
        model.predict(new)
    with pytest.raises(ValueError, match="1e\\+09"):
        clone(model).set_params(on_out_of_range="raise").fit(X, images).predict(new)
    with pytest.raises(ValueError, match=r"\(n, 8, 8\)"):
        model.predict(X[:, :4])


@pytest.mark.parametrize("channels", [None, 2])
def test_a_single_image_is_refused_with_its_shape_and_what_to_pass(channels):
    X, images = draw(n=20, channels=channels)
    model = small(max_epochs=1).fit(X, images)
    with pytest.raises(ValueError, match=r"got shape \((2, )?8, 8\), a single row\. Pass X\[None\]\.$"):
        model.predict(X[0])
    assert model.predict(X[0][None]).shape == images[:1].shape


@GENERATE
def test_a_model_is_the_same_after_saving_and_loading(generate, tmp_path):
    X, images = draw()
    model = small(generate, max_epochs=1).fit(X, images)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.architecture == model.architecture
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_an_architecture_in_a_dictionary_of_parameters_is_stored(tmp_path):
    X, images = draw()
    params = {"architecture": CNN(channels=(2, 2, 2), rank=None), "max_epochs": 1}
    for estimator in (MissingRegressor("stablemiss", params=params), MissingRegressor(StableMiss(**params))):
        model = estimator.set_params(random_state=0).fit(X, images)
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))


HUGE = 10**9
MANIPULATIONS = [
    (("predictor", "network"), "GeneratedMLP"),
    (("predictor", "network"), "Linear"),
    (("predictor", "network"), 5),
    (("predictor", "config", "channels"), (HUGE, HUGE, HUGE)),
    (("predictor", "config", "channels"), (4, 4)),
    (("predictor", "config", "kernel"), HUGE),
    (("predictor", "config", "kernel"), -3),
    (("predictor", "config", "kernel"), "3"),
    (("predictor", "config", "rank"), HUGE),
    (("predictor", "config", "shape"), (1, HUGE, HUGE)),
    (("predictor", "config", "shape"), (1, 8, -8)),
    (("predictor", "config", "shape"), (2, 4, 8)),
    (("predictor", "config", "d_out"), HUGE),
    (("predictor", "config", "d_out"), 2),
    (("task", "shape"), (8, 9)),
    (("task", "shape"), None),
    (("encoder", "shape"), (8, 9)),
    (("encoder", "kind"), "table"),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    small(max_epochs=1).fit(*draw()).save(path)
    return read_tree(path)


@pytest.mark.parametrize(("path", "value"), MANIPULATIONS, ids=str)
def test_a_manipulated_model_is_refused_or_predicts_finite_images(path, value, tree, tmp_path):
    tree = copy.deepcopy(tree)
    node = tree
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    write_tree(tmp_path / "model", tree)
    if path == ("task", "shape") and value is None:  # flat predictions: another model, but an intact one
        assert load_model(tmp_path / "model").predict(draw()[0]).shape == (N, 64)
        return
    with pytest.raises(ArchiveError):
        load_model(tmp_path / "model")


def test_architectures_are_searched_by_scikit_learn():
    X, images = draw(n=30)
    search = GridSearchCV(
        small(max_epochs=1), {"architecture": [CNN((2, 2, 2)), CNN((2, 2, 2), kernel=5)]}, cv=2
    ).fit(X, images)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(X).shape == images.shape
