"""Wrong arguments of public functions: the error names the argument, what was given and what to do."""

import numpy as np
import pytest

from stablemiss import AnyMaskRegressor, MissingRegressor, load_model
from stablemiss.datasets import (
    Population,
    load_air_quality,
    load_house_sales,
    make_gaussian,
    make_gaussian_ind,
    make_gaussian_mix,
)
from stablemiss.decorrelation import (
    BalancingDecorrelator,
    Memory,
    RandomFeatures,
    RatioDecorrelator,
    TransportDecorrelator,
    dependence,
    learn_weights,
    permute_columns,
    sliced_distance,
)
from stablemiss.missingness import (
    MAR,
    MNAR,
    MaskAugmentation,
    MCARIndependent,
    MCARWindow,
    Only,
    Outage,
    Resampled,
)
from stablemiss.tuning import Choice, Range, tune

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(40, 3))
MASK = np.ones((40, 3), dtype=bool)
POPULATION = make_gaussian(n_features=3, random_state=0)

# Name → a call, and what its error must contain.
MECHANISMS = {
    "level is text": (lambda: MCARIndependent("a"), ["level", "'a'", "from 0 to 1"]),
    "level above one": (lambda: MCARIndependent(2), ["level", "got 2"]),
    "level is None": (lambda: MCARWindow(None), ["level", "None"]),
    "level is True": (lambda: MCARWindow(True), ["level", "True"]),
    "level is NaN": (lambda: MAR(np.nan), ["level", "nan"]),
    "level is an array": (lambda: MNAR(np.array([0.1, 0.2])), ["level", "array"]),
    "another level": (lambda: MAR(0.5).at("a"), ["level", "'a'"]),
    "spread": (lambda: MCARIndependent(0.5, spread=-1), ["spread", "-1"]),
    "driver_share": (lambda: MAR(0.5, driver_share="a"), ["driver_share", "'a'"]),
    "slope": (lambda: MNAR(0.5, slope=np.inf), ["slope", "inf"]),
    "text to fit": (lambda: MAR(0.5).fit([["a", "b"]], RNG), ["X", "numbers", "str", "Encode"]),
    "None to fit": (lambda: MAR(0.5).fit(None, RNG), ["X", "table", "Reshape"]),
    "one row to fit": (lambda: MNAR(0.5).fit(TABLE[0], RNG), ["X", "(3,)", "Reshape"]),
    "no rows to fit": (lambda: MAR(0.5).fit(TABLE[:0], RNG), ["X", "at least one row"]),
    "ragged rows": (lambda: MCARIndependent(0.5).draw([[1, 2], [3]], RNG), ["X", "[[1, 2], [3]]", "length"]),
    "infinity": (lambda: MCARIndependent(0.5).hide([[np.inf]], RNG), ["X", "infinite", "Replace"]),
    "no generator to fit": (lambda: MAR(0.5).fit(TABLE, None), ["rng", "None", "default_rng"]),
    "a seed to draw": (lambda: MCARIndependent(0.5).draw(TABLE, 0), ["rng", "got 0", "default_rng"]),
    "drawn before fit": (lambda: MAR(0.5).draw(TABLE, RNG), ["MAR", "fitted before"]),
    "drivers before fit": (lambda: MAR(0.5).drivers, ["MAR", "fitted before"]),
    "masks before fit": (lambda: Resampled().draw(TABLE, RNG), ["Resampled", "fitted before"]),
    "other columns": (lambda: MAR(0.5).fit(TABLE, RNG).draw(TABLE[:, :2], RNG), ["3 columns", "X has 2"]),
    "columns of text": (lambda: Outage("a"), ["columns", "'a'", "[0, 3]"]),
    "columns of fractions": (lambda: Outage([0.5]), ["columns", "[0.5]"]),
    "one column": (lambda: Only(MCARIndependent(0.5), 5), ["columns", "got 5"]),
    "absent column": (lambda: Outage([9]).draw(TABLE, RNG), ["[9]", "0 to 2"]),
    "no mechanism": (lambda: Only("mar", [0]), ["mechanism", "'mar'", "MCARIndependent"]),
    "numbers as masks": (lambda: Resampled([[1, 0]]), ["masks", "[[1, 0]]", "boolean"]),
    "ragged masks": (lambda: Resampled([[True], [True, False]]), ["masks", "[[True], [True, False]]"]),
    "groups": (lambda: MaskAugmentation.of("a"), ["groups", "'a'"]),
    "importance": (
        lambda: MaskAugmentation.of([0, 1], importance=[1.0]),
        ["importance", "(1,)", "2 columns"],
    ),
}
DECORRELATION = {
    "no generator": (lambda: dependence(TABLE, MASK, rng=None), ["rng", "None"]),
    "one row": (lambda: dependence(TABLE[0], MASK[0], rng=RNG), ["values", "(3,)", "Reshape"]),
    "no table": (lambda: dependence(None, None, rng=RNG), ["values", "()"]),
    "text": (lambda: dependence("a", MASK, rng=RNG), ["values", "'a'"]),
    "shorter mask": (lambda: dependence(TABLE, MASK[:5], rng=RNG), ["mask", "(5, 3)", "(40, 3)"]),
    "fewer weights": (lambda: dependence(TABLE, MASK, np.ones(3), rng=RNG), ["weight", "(3,)"]),
    "negative weights": (lambda: dependence(TABLE, MASK, -np.ones(40), rng=RNG), ["Weights", "negative"]),
    "weights of text": (lambda: dependence(TABLE, MASK, ["a"] * 40, rng=RNG), ["weight", "'a'"]),
    "NaN": (lambda: dependence(TABLE * np.nan, MASK, rng=RNG), ["finite", "mask"]),
    "q": (lambda: dependence(TABLE, MASK, q=0, rng=RNG), ["q", "got 0"]),
    "form": (lambda: dependence(TABLE, MASK, form=None, rng=RNG), ["form", "None", "'paper'"]),
    "terms is text": (lambda: learn_weights(TABLE, MASK, terms="xx", rng=RNG), ["terms", "'xx'"]),
    "terms is None": (lambda: learn_weights(TABLE, MASK, terms=None, rng=RNG), ["terms", "None"]),
    "unknown term": (lambda: learn_weights(TABLE, MASK, terms=["yy"], rng=RNG), ["terms", "['yy']"]),
    "strength": (lambda: learn_weights(TABLE, MASK, strength="a", rng=RNG), ["strength", "'a'"]),
    "unknown name": (lambda: learn_weights(TABLE, MASK, rng=RNG, depth=3), ["'depth'", "max_epochs"]),
    "batch_size": (lambda: learn_weights(TABLE, MASK, rng=RNG, batch_size=1), ["batch_size", "got 1"]),
    "learning_rate": (lambda: learn_weights(TABLE, MASK, rng=RNG, learning_rate=-1), ["learning_rate", "-1"]),
    "device": (lambda: learn_weights(TABLE, MASK, rng=RNG, device="gpu"), ["device", "'gpu'"]),
    "progress": (lambda: learn_weights(TABLE, MASK, rng=RNG, progress="a"), ["progress", "'a'"]),
    "groups": (lambda: learn_weights(TABLE, MASK, rng=RNG, groups=[0, 1]), ["groups", "(2,)"]),
    "no rows": (lambda: learn_weights(TABLE[:0], MASK[:0], rng=RNG), ["row", "(0, 3)"]),
    "n_directions": (lambda: TransportDecorrelator(n_directions=0), ["n_directions", "got 0"]),
    "penalty": (lambda: BalancingDecorrelator(penalty=None), ["penalty", "None"]),
    "balanced text": (lambda: BalancingDecorrelator().learn_weights("a", rng=RNG), ["columns", "'a'"]),
    "no rows to balance": (
        lambda: BalancingDecorrelator().learn_weights(TABLE[:0], rng=RNG),
        ["row", "(0, 3)"],
    ),
    "clip": (lambda: RatioDecorrelator(clip="a"), ["clip", "'a'", "0.5"]),
    "no rows for a ratio": (lambda: RatioDecorrelator().learn_weights(TABLE[:0], rng=RNG), ["row", "(0, 3)"]),
    "two tables": (
        lambda: sliced_distance(TABLE, MASK, TABLE[:, :2], MASK[:, :2], rng=RNG),
        ["3", "2 columns"],
    ),
    "permuted without a generator": (lambda: permute_columns(TABLE, MASK, None), ["rng", "None"]),
    "kind of memory": (lambda: Memory("heap", 3), ["kind", "'heap'", "'queue'"]),
    "number of features": (lambda: RandomFeatures.draw(-1, 5, RNG), ["d must", "-1"]),
}
DATASETS = {
    "negative n_features": (lambda: make_gaussian(n_features=-1), ["n_features", "-1"]),
    "n_features of text": (lambda: make_gaussian_ind(n_features="a"), ["n_features", "'a'"]),
    "huge n_features": (lambda: make_gaussian_mix(n_features=10**30), ["n_features", "10000", "from 1"]),
    "n_components": (lambda: make_gaussian_mix(n_components=None), ["n_components", "None"]),
    "random_state": (lambda: make_gaussian(random_state="a"), ["random_state", "'a'", "None"]),
    "number of rows": (lambda: POPULATION.draw(-1, RNG), ["n must", "-1"]),
    "no generator": (lambda: POPULATION.draw(5, None), ["rng", "None"]),
    "other columns": (lambda: POPULATION.bayes([[1.0, 2.0]]), ["X", "3 columns", "(1, 2)"]),
    "text": (lambda: POPULATION.bayes([["a", "b", "c"]]), ["X", "str"]),
    "shapes of a population": (
        lambda: Population(np.ones(1), np.zeros((1, 2)), np.ones((1, 3, 3)), np.ones(2), 0.0, 1.0),
        ["covariances", "(1, 3, 3)", "(K, d, d)"],
    ),
    "singular covariance": (
        lambda: Population(np.ones(1), np.zeros((1, 2)), np.ones((1, 2, 2)), np.ones(2), 0.0, 1.0).draw(
            3, RNG
        ),
        ["covariances", "positive definite", "Add"],
    ),
    "negative noise": (
        lambda: Population(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)), np.ones(1), 0.0, -1.0),
        ["noise_sd", "-1"],
    ),
    "folder of houses": (lambda: load_house_sales(data_home=5), ["data_home", "got 5", "path"]),
    "folder of air quality": (lambda: load_air_quality(data_home=[]), ["data_home", "[]", "path"]),
}


def tune_ols(**arguments):
    settings = {"n_trials": 1, "space": {"ridge": Range(1e-3, 1.0)}, **arguments}
    return tune(settings.pop("estimator", MissingRegressor("ols")), TABLE, TABLE[:, 0], **settings)


TUNING = {
    "n_trials of text": (lambda: tune_ols(n_trials="a"), ["n_trials", "'a'"]),
    "no trials": (lambda: tune_ols(n_trials=0), ["n_trials", "got 0"]),
    "study": (lambda: tune_ols(study=5), ["study", "got 5", "path"]),
    "space of text": (lambda: tune_ols(space="a"), ["space", "'a'", "dictionary"]),
    "empty space": (lambda: tune_ols(space={}), ["space", "'ols'", "Range"]),
    "value of the space": (lambda: tune_ols(space={"ridge": 5}), ["space['ridge']", "got 5", "Range"]),
    "name in the space": (lambda: tune_ols(space={"rigde": Choice(1)}), ["space", "'rigde'", "'ridge'"]),
    "holdout_fraction": (lambda: tune_ols(holdout_fraction="a"), ["holdout_fraction", "'a'"]),
    "everything held out": (lambda: tune_ols(holdout_fraction=1), ["holdout_fraction", "got 1"]),
    "random_state": (lambda: tune_ols(random_state=None), ["random_state", "None"]),
    "n_jobs": (lambda: tune_ols(n_jobs=0), ["n_jobs", "got 0", "-1"]),
    "timeout": (lambda: tune_ols(timeout="a"), ["timeout", "'a'", "None"]),
    "test_mechanism": (lambda: tune_ols(test_mechanism="mar"), ["test_mechanism", "'mar'"]),
    "unfitted test_mechanism": (lambda: tune_ols(test_mechanism=MAR(0.5)), ["MAR", "fitted before"]),
    "progress": (lambda: tune_ols(progress=5), ["progress", "got 5"]),
    "sample_weight": (lambda: tune_ols(sample_weight="a"), ["sample_weight", "'a'"]),
    "estimator is a name": (lambda: tune_ols(estimator="ols"), ["estimator", "'ols'", "MissingRegressor"]),
    "AnyMask": (lambda: tune_ols(estimator=AnyMaskRegressor()), ["estimator", "AnyMaskRegressor()"]),
    "range of text": (lambda: Range("a", 1), ["low", "'a'"]),
    "infinite range": (lambda: Range(0, np.inf), ["high", "inf"]),
    "reversed range": (lambda: Range(2, 1), ["low", "low=2, high=1"]),
    "no choice": (lambda: Choice(), ["Choice", "at least one"]),
}
FILES = {
    "load_model(None)": (lambda: load_model(None), ["path", "None"]),
    "load_model(5)": (lambda: load_model(5), ["path", "got 5"]),
    "save(None)": (lambda: MissingRegressor("constant").fit(TABLE, TABLE[:, 0]).save(None), ["path", "None"]),
}
TOPICS = {
    "missingness": MECHANISMS,
    "decorrelation": DECORRELATION,
    "datasets": DATASETS,
    "tuning": TUNING,
    "files": FILES,
}


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        pytest.param(*case, id=f"{topic}-{name}")
        for topic, cases in TOPICS.items()
        for name, case in cases.items()
    ],
)
def test_a_wrong_argument_is_refused(call, facts, refuses):
    refuses(call, *facts)


def test_a_folder_is_no_study(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        tune_ols(study=tmp_path)
