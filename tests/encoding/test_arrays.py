"""Encoding of rows that are arrays."""

import copy

import numpy as np
import pytest

from stablemiss.encoding import (
    ArrayEncoder,
    encoder_from_state,
    is_array,
    make_encoder,
    read_array,
    read_rows,
)
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression

N, SHAPE = 30, (3, 4)


def draw(seed=0):
    """Cells of different means and variances, one of them constant, with missing values."""
    rng = to_rng(seed)
    images = rng.normal(size=(N, *SHAPE)) * rng.uniform(0.1, 3.0, size=SHAPE) + rng.normal(size=SHAPE)
    images[:, 0, 0] = 7.0
    images[rng.uniform(size=images.shape) < 0.3] = np.nan
    images[:, 2, 3] = images[:, 2, 2]  # missing together
    return images


def fit(images, rows=None):
    encoder = ArrayEncoder()
    values, mask = encoder.fit_transform(read_array(images), np.arange(N) if rows is None else rows)
    return encoder, values, mask


@pytest.mark.parametrize("seed", range(3))
def test_values_are_flat_centred_per_cell_with_one_scale_and_zero_where_missing(seed):
    images = draw(seed)
    _, values, mask = fit(images)
    flat = images.reshape(N, -1)
    np.testing.assert_array_equal(mask, ~np.isnan(flat))
    assert (values[~mask] == 0).all()
    observed = np.where(mask, values, np.nan)
    np.testing.assert_allclose(np.nanmean(observed, axis=0), 0, atol=1e-9)
    assert np.nanmean(observed**2) == pytest.approx(1.0)
    # One factor between all deviations and all values.
    factors = (flat - np.nanmean(flat, axis=0))[mask & (np.abs(values) > 1e-6)] / values[
        mask & (np.abs(values) > 1e-6)
    ]
    np.testing.assert_allclose(factors, factors[0])


def test_only_training_rows_are_used_and_new_rows_are_encoded_alike():
    images = draw()
    train = np.arange(20)
    other = images.copy()
    other[20:] *= 3.0
    (encoder, values, mask), (_, other_values, _) = fit(images, train), fit(other, train)
    np.testing.assert_array_equal(values[:20], other_values[:20])
    new = encoder.encode(images[:20])
    np.testing.assert_array_equal(new.values, values[:20])
    np.testing.assert_array_equal(new.mask, mask[:20])
    assert new.exceeded == new.unknown == ()


def test_the_array_of_the_caller_is_not_changed():
    images = draw()
    before = images.copy()
    encoder, *_ = fit(images)
    encoder.encode(images)
    encoder.encode(1e3 * images)
    np.testing.assert_array_equal(images, before + 0)


@pytest.mark.parametrize("choice", ["clip", "missing"])
def test_values_far_outside_the_range_of_all_cells_are_clipped_or_missing(choice):
    images = draw()
    encoder, *_ = fit(images)
    image = np.zeros((2, *SHAPE))
    image[1, 1, 1] = 1e6
    encoded = encoder.encode(image, on_out_of_range=choice)
    assert encoded.out_of_range.sum() == 1
    assert encoded.mask[1, 5] == (choice == "clip")
    assert np.abs(encoded.values).max() < 100
    [exceeded] = encoded.exceeded
    assert (exceeded.n_rows, exceeded.largest) == (1, "1e+06")
    with pytest.raises(ValueError, match="1e\\+06"):
        encoder.encode(image, on_out_of_range="raise")


def test_a_cell_that_was_never_missing_is_named_by_its_position():
    images = draw()
    images[:, 1, 2] = 0.5
    encoder, *_ = fit(images)
    images[:4, 1, 2] = np.nan
    assert encoder.unseen_missing(encoder.encode(images)) == {"cell (1, 2)": 4}


def test_cells_without_any_value_and_constant_arrays_give_zeros():
    images = draw()
    images[:, 1, 1] = np.nan
    encoder, values, _ = fit(images)
    assert (values[:, 5] == 0).all()
    assert np.isfinite(encoder.encode(np.zeros((1, *SHAPE))).values).all()
    for constant in (5.0, np.nan):
        _, values, _ = fit(np.full((N, *SHAPE), constant))
        assert (values == 0).all()


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_the_unit_does_not_matter(unit):
    np.testing.assert_allclose(fit(unit * draw())[1], fit(draw())[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "convert",
    [
        lambda images: images.astype(object),
        lambda images: np.where(np.isnan(images), None, images),
        lambda images: images.tolist(),
        list,
        lambda images: np.ma.masked_invalid(images),
        np.asfortranarray,
    ],
    ids=["objects", "None", "nested lists", "list of images", "masked", "Fortran order"],
)
def test_other_containers_give_the_same_cells(convert):
    images = draw()
    rows = read_rows(convert(images))
    assert rows.shape == SHAPE
    np.testing.assert_array_equal(rows.cells, images.reshape(N, -1))


def test_integers_and_booleans_are_numbers():
    assert read_array(np.ones((2, 3, 3), dtype=np.uint8)).cells.dtype == np.float64
    assert read_array(np.ones((2, 3, 3), dtype=bool)).cells.sum() == 18


@pytest.mark.parametrize(
    "X", [np.zeros((3, 2)), [[1, 2]], [1, 2], [], "text", None, [[], []], np.zeros(())], ids=str
)
def test_tables_and_other_objects_are_not_arrays(X):
    assert not is_array(X)


@pytest.mark.parametrize(
    ("X", "fact"),
    [
        (np.full((2, 3, 3), np.inf), "infinite"),
        (np.full((2, 3, 3), "a"), "numbers"),
        (np.full((2, 3, 3), 1j), "numbers"),
        (np.array([[["a", 1], [2, 3]]], dtype=object), "numbers"),
        ([np.zeros((2, 2)), np.zeros((3, 3))], "one shape"),
        (np.zeros((0, 3, 3)), "(0, 3, 3)"),
        (np.zeros((5, 0, 3)), "(5, 0, 3)"),
        (np.zeros((5, 3)), "(5, 3)"),
    ],
    ids=["infinite", "text", "complex", "mixed", "ragged", "no rows", "no cells", "table"],
)
def test_other_content_is_refused_in_a_sentence(X, fact):
    with pytest.raises(ValueError) as caught:
        read_array(X)
    assert fact in str(caught.value)


@pytest.mark.parametrize(
    "X", [np.zeros((2, 4, 3)), np.zeros((2, 1, 3, 4)), np.zeros((2, 12)), None], ids=np.shape
)
def test_rows_of_another_shape_are_refused(X):
    encoder, *_ = fit(draw())
    with pytest.raises(ValueError, match=r"\(n, 3, 4\).*; got"):
        encoder.encode(X)


def test_an_encoder_is_restored_from_its_state():
    images = draw()
    encoder, *_ = fit(images)
    restored = encoder_from_state(encoder.state())
    assert isinstance(restored, ArrayEncoder)
    for image in (images, 1e3 * images):
        for one, other in zip(encoder.encode(image), restored.encode(image), strict=True):
            np.testing.assert_array_equal(one, other)
    assert restored.n_features == len(restored.groups) == 12


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("shape", (3, 5)),
        ("shape", (-3, -4)),
        ("shape", [3, 4]),
        ("centre", lambda old: old[:-1]),
        ("centre", lambda old: old * np.nan),
        ("centre", lambda old: old.astype(np.float32)),
        ("scale", lambda old: -old),
        ("scale", lambda old: old[:1]),
        ("scale", 1.0),
        ("ever_missing", lambda old: old[:-1]),
        ("ever_missing", lambda old: old + 0.0),
        ("ranges", lambda old: {**old, "lower": old["upper"] + 1}),
        ("ranges", lambda old: {**old, "more": old["upper"]}),
        ("ranges", lambda old: {**old, "minimum": np.zeros(13)}),
    ],
)
def test_a_manipulated_state_is_refused(name, change):
    state = copy.deepcopy(fit(draw())[0].state())
    state[name] = change(state[name]) if callable(change) else change
    with pytest.raises(ValueError, match=r"must|upper"):
        ArrayEncoder.from_state(state)


@pytest.mark.parametrize(("X", "unit"), [([[1.0, 2.0]], "column"), (np.zeros((2, 3, 3)), "cell")])
def test_each_kind_of_rows_has_its_encoder(X, unit):
    assert make_encoder(read_rows(X)).unit == unit


def test_the_context_of_a_window_has_its_own_scale_so_that_the_unit_of_the_readings_does_not_matter():
    rng = np.random.default_rng(0)
    readings, calendar = rng.normal(size=(50, 3, 4)), 20 + 9 * rng.normal(size=(50, 2, 4))
    task = Regression.of(readings[:, :, :1], common_scale=True, shape=(3, 1))

    def encode(unit: float) -> np.ndarray:
        windows = np.concatenate([unit * readings, calendar], axis=1)
        return ArrayEncoder().fit_transform(read_array(windows), np.arange(50), task=task)[0]

    np.testing.assert_allclose(encode(1e-4), encode(1.0), rtol=1e-6)
    assert encode(1e-4)[:, :12].std() == pytest.approx(1.0, rel=0.01)
    assert encode(1e-4)[:, 12:].std() == pytest.approx(1.0, rel=0.01)
