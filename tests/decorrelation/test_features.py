"""Random Fourier features."""

import numpy as np
import torch

from stablemiss.decorrelation import RandomFeatures


def test_features_equal_their_definition():
    features = RandomFeatures.draw(2, q=3, rng=np.random.default_rng(0))
    values = torch.tensor([[0.5, -1.0]], dtype=torch.float64)
    expected = np.sqrt(2) * np.cos(0.5 * features.frequency[0].numpy() + features.phase[0].numpy())
    np.testing.assert_allclose(features.of_values(values)[0, 0], expected)
    zero, step = features.of_mask()
    observed = np.sqrt(2) * np.cos(features.mask_frequency.numpy() + features.mask_phase.numpy())
    np.testing.assert_allclose(zero + step, observed)


def test_frequencies_are_standard_normal_and_phases_uniform():
    features = RandomFeatures.draw(2000, q=5, rng=np.random.default_rng(1))
    for frequency, phase in (
        (features.frequency, features.phase),
        (features.mask_frequency, features.mask_phase),
    ):
        assert abs(float(frequency.mean())) < 0.05
        assert abs(float(frequency.std()) - 1) < 0.05
        assert 0 <= float(phase.min()) < 0.01 < 6.27 < float(phase.max()) < 2 * np.pi


def test_features_are_reproducible_by_seed():
    first, second = (RandomFeatures.draw(3, q=2, rng=np.random.default_rng(5)) for _ in range(2))
    torch.testing.assert_close(first.frequency, second.frequency, rtol=0, atol=0)
