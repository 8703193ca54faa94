import json

import numpy as np
import pytest

from stablemiss.datasets import make_gaussian_ind, make_gaussian_mix
from stablemiss.evaluation import ResultRow, score_under_shift
from stablemiss.methods import OLS
from stablemiss.missingness import MAR, MCARIndependent, Resampled
from stablemiss.progress import NullProgress

SMALL = {"dataset": "toy", "test_levels": (0.1, 0.9), "n_rows": 2000, "n_test_rows": 2000}
CLOCK = ("fit_seconds", "finished")


def score(seed=0, methods=None, **changed):
    population = make_gaussian_mix(10, random_state=seed)
    return score_under_shift(
        population,
        MAR(0.1),
        {"ols": OLS()} if methods is None else methods,
        **{**SMALL, "seed": seed, **changed},
    )


def rmse(rows):
    return {(row["method"], row["test_level"]): row["rmse"] for row in rows}


def test_rows_are_plain_data_with_every_field():
    rows = score()
    assert json.loads(json.dumps(rows)) == rows
    for row in rows:
        assert set(row) == set(ResultRow.__annotations__)
        assert row["gap"] == row["rmse"] - row["optimal_rmse"]
        assert row["gap_share"] == row["gap"] / row["optimal_rmse"]
        assert (row["dataset"], row["mechanism"], row["train_level"], row["n_features"]) == (
            "toy",
            "MAR",
            0.1,
            10,
        )


def test_references_come_first_then_methods_each_at_every_level():
    assert [(row["method"], row["role"], row["test_level"]) for row in score()] == [
        (method, role, level)
        for method, role in [
            ("optimal", "reference"),
            ("linear", "reference"),
            ("constant", "reference"),
            ("ols", "method"),
        ]
        for level in (0.1, 0.9)
    ]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_same_seed_gives_the_same_rows_but_for_the_clock(seed):
    first, second = (
        [{key: value for key, value in row.items() if key not in CLOCK} for row in score(seed)]
        for _ in range(2)
    )
    assert first == second
    assert rmse(score(seed + 1)) != rmse(score(seed))


def test_a_score_does_not_depend_on_what_else_is_scored():
    """More methods, another order or more levels leave the scores of the others as they are."""
    alone = rmse(score(methods={"ols": OLS()}))
    beside = rmse(score(methods={"other": OLS(), "ols": OLS()}))
    assert alone.items() <= beside.items()
    assert beside["other", 0.9] == alone["ols", 0.9]
    assert rmse(score(test_levels=(0.1,)))["ols", 0.1] == alone["ols", 0.1]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_predictor_beats_optimal_and_hiding_more_makes_it_worse(seed):
    rows = score(seed)
    assert all(row["gap_share"] > -0.02 for row in rows)
    optimal = [row["rmse"] for row in rows if row["method"] == "optimal"]
    assert optimal[0] < optimal[1]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_scores_are_those_of_the_known_truth(seed):
    """With all cells observed Optimal errs by the noise alone, with none it predicts the mean of y."""
    population = make_gaussian_ind(5, random_state=seed)
    rows = score_under_shift(
        population,
        MCARIndependent(0.1),
        {},
        **{**SMALL, "test_levels": (0.0, 1.0), "n_test_rows": 20_000},
        seed=seed,
    )
    scores = rmse(rows)
    spread = np.hypot(population.signal_sd, population.noise_sd)
    assert scores["optimal", 0.0] == pytest.approx(population.noise_sd, rel=0.03)
    assert scores["optimal", 1.0] == pytest.approx(spread, rel=0.03)
    assert scores["constant", 0.0] == pytest.approx(spread, rel=0.03)


def test_the_mechanism_is_the_same_in_training_and_at_test():
    """Drivers are never hidden, at whatever level; hiding all that can be hidden leaves them."""
    seen = []

    class Watched(MAR):
        def keep(self, table, rng):
            seen.append((self.level, tuple(self.drivers)))
            return super().keep(table, rng)

    score_under_shift(make_gaussian_mix(10, random_state=0), Watched(0.1), {}, **SMALL)
    assert [level for level, _ in seen] == [0.1, 0.1, 0.9]
    assert len({drivers for _, drivers in seen}) == 1


def test_progress_is_told_each_piece_and_its_end():
    told = []

    class Listener(NullProgress):
        def start(self, what, total=None):
            told.append((what, total))

        def finish(self):
            told.append("end")

    score(progress=Listener())
    assert told == [
        ("optimal and linear references", 2),
        "end",
        ("constant", 2),
        "end",
        ("ols", 2),
        "end",
    ]


def test_what_cannot_be_scored_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="constant, optimal are scored as references"):
        score(methods={"optimal": OLS(), "constant": OLS()})
    with pytest.raises(ValueError, match="at least one level"):
        score(test_levels=())
    with pytest.raises(ValueError, match="n_test_rows is 0"):
        score(n_test_rows=0)
    with pytest.raises(ValueError, match="level of its own"):
        score_under_shift(make_gaussian_mix(3, random_state=0), Resampled(), {}, dataset="toy")
