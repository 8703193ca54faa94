"""Dependence between columns and mask indicators: against loops, finite differences, and known cases."""

import itertools

import numpy as np
import pytest
import torch

from stablemiss.decorrelation import TERMS, Dependence, RandomFeatures, dependence


def make_table(seed, n=90, d=4, q=3):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
    mask = rng.random((n, d)) < 0.8
    mask[rng.random(n) < 0.2, 0] = False
    weight = rng.uniform(0.2, 2.0, size=n)
    features = RandomFeatures.draw(d, q, rng)
    return (
        torch.from_numpy(values),
        torch.from_numpy(mask),
        torch.from_numpy(weight / weight.mean()),
        features,
    )


def cosines(features, values, mask):
    """Features of values and indicators as numpy arrays, from the definition."""
    w, b, mw, mb = (
        p.numpy() for p in (features.frequency, features.phase, features.mask_frequency, features.mask_phase)
    )
    u = np.sqrt(2) * np.cos(values.numpy()[:, :, None] * w + b)
    v = np.sqrt(2) * np.cos(mask.numpy()[:, :, None] * mw + mb)
    return u, v


def make_sparse_table(seed, n=90):
    """Pairs of columns that are observed together in 0, 1, 2, 29, 30 and more rows."""
    values, mask, weight, features = make_table(seed, n, d=7)
    mask[:] = False
    for column, rows in enumerate((slice(60), slice(31, 90), slice(30, 90), slice(58, 62), (0, 60), 7)):
        mask[rows, column] = True  # column 6 is never observed
    counts = mask.T.double() @ mask.double()
    assert {0, 1, 2, 29, 30} <= set(counts.triu(1).flatten().int().tolist())
    return values, mask, weight, features


def naive_weighted(values, mask, weight, features):
    """Weighted covariances as loops over pairs of columns and pairs of features."""
    u, v = cosines(features, values, mask)
    observed, w = mask.numpy(), weight.numpy()
    d, q = u.shape[1:]
    totals = dict.fromkeys(TERMS, 0.0)

    def covariance(rows, a, b):
        if rows.sum() < 30:
            return 0.0
        p = w[rows] / w[rows].sum()
        return p @ (a[rows] * b[rows]) - (p @ a[rows]) * (p @ b[rows])

    everywhere = np.ones(len(w), dtype=bool)
    for k, j in itertools.product(range(d), range(d)):
        for s, t in itertools.product(range(q), range(q)):
            if k < j:
                totals["xx"] += covariance(observed[:, k] & observed[:, j], u[:, k, s], u[:, j, t]) ** 2
                totals["mm"] += covariance(everywhere, v[:, k, s], v[:, j, t]) ** 2
            if k != j:
                totals["xm"] += covariance(observed[:, k], u[:, k, s], v[:, j, t]) ** 2
    return totals


def naive_paper(values, mask, weight, features):
    """The paper's partial cross-covariances as loops over pairs, features and rows."""
    u, v = cosines(features, values, mask)
    observed, w = mask.numpy(), weight.numpy()
    n, d, q = u.shape
    totals = dict.fromkeys(TERMS, 0.0)

    def square(a, rows_a, b, rows_b):
        if (rows_a & rows_b).sum() < 2:
            return 0.0
        mean_a = sum(w[i] * a[i] for i in np.flatnonzero(rows_a)) / rows_a.sum()
        mean_b = sum(w[i] * b[i] for i in np.flatnonzero(rows_b)) / rows_b.sum()
        rows = np.flatnonzero(rows_a & rows_b)
        return (sum((w[i] * a[i] - mean_a) * (w[i] * b[i] - mean_b) for i in rows) / (len(rows) - 1)) ** 2

    everywhere = np.ones(n, dtype=bool)
    for k, j in itertools.product(range(d), range(d)):
        for s, t in itertools.product(range(q), range(q)):
            if k < j:
                totals["xx"] += square(u[:, k, s], observed[:, k], u[:, j, t], observed[:, j])
                totals["mm"] += square(v[:, k, s], everywhere, v[:, j, t], everywhere)
            totals["xm"] += square(u[:, k, s], observed[:, k], v[:, j, t], everywhere)
    return totals


@pytest.mark.parametrize("block", [1, 2, 3, 100])
@pytest.mark.parametrize("table", [make_table, make_sparse_table])
@pytest.mark.parametrize(("form", "naive"), [("weighted", naive_weighted), ("paper", naive_paper)])
def test_all_terms_equal_naive_loops_for_any_block_size(form, naive, table, block):
    """Also where few rows are observed: the paper's form needs two, the weighted form skips fewer than 30."""
    values, mask, weight, features = table(0)
    losses, _ = Dependence(values, mask, features, form=form, block=block)(weight)
    expected = naive(values, mask, weight, features)
    for term in TERMS:
        assert losses[term] == pytest.approx(expected[term], abs=1e-10, rel=1e-10)


@pytest.mark.parametrize("block", [2, 100])
@pytest.mark.parametrize("terms", [("xx",), ("mm",), ("xm",), TERMS])
@pytest.mark.parametrize("form", ["weighted", "paper"])
@pytest.mark.parametrize("table", [make_table, make_sparse_table])
def test_gradients_equal_finite_differences(table, form, terms, block):
    values, mask, weight, features = table(1)
    measure = Dependence(values, mask, features, terms=terms, form=form, block=block)
    _, gradient = measure(weight)
    for i in range(0, 90, 9):
        step = torch.zeros_like(weight)
        step[i] = 1e-5
        up, down = (sum(measure(weight + sign * step)[0].values()) for sign in (1, -1))
        assert float(gradient[i]) == pytest.approx((up - down) / 2e-5, abs=1e-7, rel=1e-5)


@pytest.mark.parametrize("form", ["weighted", "paper"])
def test_missing_values_have_no_influence(form):
    values, mask, weight, features = make_table(2)
    other = torch.where(mask, values, 7.0)
    for first, second in zip(
        *(Dependence(v, mask, features, form=form)(weight) for v in (values, other)), strict=True
    ):
        if isinstance(first, dict):
            assert first == second
        else:
            torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_independent_columns_are_near_zero_only_in_the_weighted_form():
    """With weights independent of the table, the weighted form vanishes; the paper's does not."""
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(40000, 3)), np.ones((40000, 3), dtype=bool)
    weight = rng.exponential(size=40000)
    ours = dependence(values, mask, weight, form="weighted", rng=np.random.default_rng(1))
    paper = dependence(values, mask, weight, form="paper", rng=np.random.default_rng(1))
    assert ours["xx"] < 0.02 < 0.2 < paper["xx"]


def test_unknown_terms_and_forms_raise():
    values, mask, _, features = make_table(3)
    with pytest.raises(ValueError, match=r"terms must be a subset .* got \('yy',\)"):
        Dependence(values, mask, features, terms=("yy",))
    with pytest.raises(ValueError, match="form must be 'weighted' or 'paper'; got 'other'"):
        Dependence(values, mask, features, form="other")


@pytest.mark.parametrize("form", ["weighted", "paper"])
@pytest.mark.parametrize("block", [1, 2, 8])
def test_columns_of_one_group_are_not_paired_and_their_indicators_count_once(form, block):
    """Three copies of an indicator in one group equal a single indicator, for any block size."""
    values, mask, weight, features = make_table(3, d=4)
    single = Dependence(values, mask, features, ("mm",), form)(weight)[0]["mm"]
    repeated = [0, 0, 0, 1, 2, 3]
    copied = RandomFeatures(
        *(
            part[repeated]
            for part in (features.frequency, features.phase, features.mask_frequency, features.mask_phase)
        )
    )
    groups = torch.tensor([7, 7, 7, 1, 2, 3])
    grouped = Dependence(values[:, repeated], mask[:, repeated], copied, ("mm",), form, groups, block)
    assert grouped(weight)[0]["mm"] == pytest.approx(single, rel=1e-9)
    together = Dependence(
        values, mask, features, ("xx", "mm"), form, torch.zeros(4, dtype=torch.int64), block
    )
    assert together(weight)[0] == {"xx": 0.0, "mm": 0.0}


@pytest.mark.parametrize(
    ("form", "n_observed", "is_counted"),
    [("weighted", 29, False), ("weighted", 30, True), ("paper", 2, True)],
)
def test_only_the_weighted_form_skips_columns_observed_in_few_rows(form, n_observed, is_counted):
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.normal(size=(200, 2)))
    mask = torch.ones(200, 2, dtype=torch.bool)
    mask[n_observed:, 0] = False
    mask[::3, 1] = False
    features = RandomFeatures.draw(2, 3, rng)
    weight = torch.from_numpy(rng.uniform(0.5, 1.5, size=200))
    other = values.clone()
    other[:, 0] = values[:, 0].flip(0)
    one, two = (Dependence(table, mask, features, form=form)(weight)[0] for table in (values, other))
    # Both columns are observed in even fewer rows: in fewer than thirty, or in a single one.
    assert one["xx"] == two["xx"] == 0.0
    assert (one["xm"] != two["xm"]) == is_counted


@pytest.mark.parametrize(("n_joint", "is_counted"), [(1, False), (2, True), (29, True)])
def test_the_paper_s_form_counts_every_pair_observed_together_in_two_rows(n_joint, is_counted):
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.normal(size=(200, 2)))
    mask = torch.ones(200, 2, dtype=torch.bool)
    mask[:100, 0], mask[100 + n_joint :, 1] = False, False
    features = RandomFeatures.draw(2, 3, rng)
    weight = torch.ones(200, dtype=torch.float64)
    paper, weighted = (
        Dependence(values, mask, features, ("xx",), form)(weight)[0]["xx"] for form in ("paper", "weighted")
    )
    assert (paper > 0) == is_counted
    assert weighted == 0


def test_rows_of_weight_zero_are_ignored():
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(400, 2)), np.ones((400, 2), dtype=bool)
    mask[200:, 1] = False
    weight = np.repeat([0.0, 1.0], 200)
    weighted = dependence(values, mask, weight, rng=np.random.default_rng(1))
    subset = dependence(values[200:], mask[200:], rng=np.random.default_rng(1))
    assert weighted == pytest.approx(subset)
    single = dependence(values.astype(np.float32), mask, rng=np.random.default_rng(1))
    assert single == pytest.approx(dependence(values, mask, rng=np.random.default_rng(1)), abs=1e-4)
