"""Partial VAE as a method."""

import numpy as np
import pytest
import torch

from stablemiss.data import MaskedData
from stablemiss.methods import PartialVAE
from stablemiss.progress import NullProgress
from stablemiss.tasks import Regression


@pytest.mark.parametrize("drop", [0.0, 0.3, 0.7, 1.0])
def test_cells_are_dropped_at_the_published_rate(drop):
    """The chance of each is min(U, p): p − p²/2 on average."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        keep = PartialVAE(drop=drop)._keep(torch.ones(2000, 20))
    assert float(1 - keep.mean()) == pytest.approx(drop - drop**2 / 2, abs=0.01)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"noise": 0.0}, "noise=0.0 is too small; give at least 1e-12"),
        ({"label_noise": 1e-13}, "label_noise=1e-13 is too small; give at least 1e-12"),
        ({"noise": np.inf}, "noise=inf must be a finite number"),
        ({"label_noise": np.nan}, "label_noise=nan must be a finite number"),
        ({"encoder": (8, 0)}, r"encoder=\(8, 0\) must hold whole numbers"),
        ({"decoder": 50}, r"decoder=50 must be a sequence .* give \(50,\)"),
        ({"d_code": 2.5}, "d_code=2.5 must be a whole number"),
        ({"drop": 1.5}, "chance"),
    ],
)
def test_impossible_parameters_are_refused_in_words(params, message):
    data = MaskedData.of(np.zeros((4, 1)), np.ones((4, 1)), np.zeros((4, 1)))
    task = Regression.of(np.zeros(4))
    with pytest.raises(ValueError, match=message):
        PartialVAE(**params).fit(data, data, task, np.random.default_rng(0), NullProgress())
