import numpy as np
import pytest
import torch

from stablemiss.tasks import Classification, Regression, task_from_state


@pytest.mark.parametrize("shape", [(50,), (50, 1), (50, 3)])
def test_decode_is_the_inverse_of_encode_in_regression(shape):
    y = np.random.default_rng(0).normal(1e3, 7.0, size=shape)
    task = Regression.of(y)
    target = task.encode(y)
    np.testing.assert_allclose(target.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(target.std(axis=0), 1)
    np.testing.assert_allclose(task.decode(target), y)
    assert task.decode(target).shape == shape


def test_a_constant_target_is_centred_but_not_scaled():
    """The mean of a thousand equal numbers has a rounding error, which must not be taken for their scale."""
    y = np.full(1000, 0.1)
    assert y.mean() != 0.1
    for weight in (None, np.linspace(0.1, 1, 1000)):
        task = Regression.of(y, weight)
        assert np.abs(task.encode(y)).max() < 1e-12
        np.testing.assert_allclose(task.decode(np.ones((1, 1))), 1.1)


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e-13, 1e13, 1e160, 1e300])
def test_the_unit_of_the_target_does_not_matter(unit):
    y = np.random.default_rng(0).normal(3.0, 2.0, size=50)
    task = Regression.of(unit * y)
    np.testing.assert_allclose(task.encode(unit * y), Regression.of(y).encode(y), rtol=1e-9)
    np.testing.assert_allclose(task.decode(task.encode(unit * y)), unit * y, rtol=1e-9)


def test_mean_and_scale_are_weighted():
    """Weights 3 and 1 are equivalent to three rows at 0 and one at 4."""
    task = Regression.of(np.array([0.0, 4.0]), np.array([3.0, 1.0]))
    assert (task.mean[0], task.scale[0]) == pytest.approx((1.0, np.sqrt(3.0)))


@pytest.mark.parametrize("label", ["a", "bb", "z"])
def test_an_unknown_label_raises(label):
    with pytest.raises(ValueError, match=f"classes b, c; got {label}"):
        Classification(np.array(["b", "c"])).encode(np.array(["b", label]))


@pytest.mark.parametrize("labels", [["a", "b", "c"], [3, 7, 11], [False, True]])
def test_decode_is_the_inverse_of_encode_in_classification(labels):
    y = np.array(labels * 4)
    task = Classification.of(y)
    outputs = np.eye(len(labels))[task.encode(y)]
    np.testing.assert_array_equal(task.decode(outputs), y)


def test_probabilities_are_the_softmax_of_the_outputs_without_overflow():
    task = Classification(np.array([0, 1]))
    outputs = np.array([[0.0, np.log(3.0)], [1e4, -1e4]])
    np.testing.assert_allclose(task.probabilities(outputs), [[0.25, 0.75], [1.0, 0.0]])


def test_losses_equal_squared_error_and_cross_entropy():
    regression, classes = Regression.of(np.zeros((4, 2))), Classification(np.array([0, 1]))
    output, target = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0]])
    assert regression.row_loss(output, target).tolist() == [5.0]
    loss = classes.loss(np.array([[0.0, 0.0], [0.0, np.log(3.0)]]), np.array([0, 1]), np.array([1.0, 3.0]))
    assert loss == pytest.approx((np.log(2) - 3 * np.log(0.75)) / 4)


@pytest.mark.parametrize(
    "task", [Regression.of(np.arange(6.0).reshape(3, 2)), Classification(np.array(["x", "y"]))]
)
def test_a_task_is_restored_from_its_state(task):
    restored = task_from_state(task.state())
    outputs = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(restored.decode(outputs), task.decode(outputs))


@pytest.mark.parametrize("shape", [(4, 5), (2, 4, 5)])
def test_arrays_keep_their_shape_and_share_one_scale(shape):
    rng = np.random.default_rng(0)
    y = rng.normal(size=(40, *shape)) * rng.uniform(0.1, 3.0, size=shape)
    y[:, 0] = 7.0  # constant cells
    task = Regression.of(y, common_scale=True, shape=shape)
    target = task.encode(y)
    assert target.shape == (40, task.d_output)
    assert task.output_shape == shape
    np.testing.assert_allclose(target.mean(axis=0), 0, atol=1e-9)
    assert (target**2).mean() == pytest.approx(1.0)
    # Cells keep their proportions: a cell that varies more counts more.
    np.testing.assert_allclose(target.std(axis=0).reshape(shape) * task.scale[0], y.std(axis=0), atol=1e-12)
    np.testing.assert_allclose(task.decode(target), y, atol=1e-9)
    restored = task_from_state(task.state())
    np.testing.assert_array_equal(restored.decode(target), task.decode(target))


def test_cells_that_are_not_observed_have_no_influence_on_mean_scale_and_loss():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(30, 3, 3))
    y[rng.uniform(size=y.shape) < 0.4] = np.nan
    y[:, 1, 1] = np.nan  # never observed
    task = Regression.of(y, common_scale=True, shape=(3, 3))
    flat = y.reshape(30, 9)
    seen = ~np.isnan(flat)
    others = np.arange(9) != 4
    np.testing.assert_allclose(task.mean[others], np.nanmean(flat[:, others], axis=0))
    assert task.mean[4] == pytest.approx(task.mean[others].mean())
    assert task.scale[0] == pytest.approx(np.sqrt(np.nanmean((flat - task.mean) ** 2)))
    output, target = torch.zeros(30, 9), torch.as_tensor(np.where(seen, task.encode(y), 1e6))
    expected = np.nansum(task.encode(y) ** 2, axis=1)
    np.testing.assert_allclose(task.row_loss(output, target, torch.as_tensor(seen)), expected)


@pytest.mark.parametrize("shape", [(2, 4), (-3, -3), [3, 3], (9.0,), "33"])
def test_a_stored_shape_that_does_not_fit_the_mean_is_refused(shape):
    state = Regression.of(np.zeros((5, 3, 3)), common_scale=True, shape=(3, 3)).state()
    with pytest.raises(ValueError, match="shape"):
        task_from_state(state | {"shape": shape})
