"""The network of the partial VAE: what it holds while it predicts."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stablemiss.networks import PartialVAENet
from stablemiss.networks.latent import MOST_HELD


class Largest(TorchDispatchMode):
    """Numbers in the largest tensor that any operation made."""

    n_numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        # A view holds nothing of its own.
        if isinstance(made, torch.Tensor) and not func.is_view:
            self.n_numbers = max(self.n_numbers, made.numel())
        return made


def net(d, d_code, n_draws):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return PartialVAENet(d, 1, False, 3, d_code, 4, (8,), (8,), n_draws)


@pytest.mark.parametrize(("d_code", "n_draws"), [(50, 2), (2, 50)])
def test_many_columns_are_predicted_in_parts_of_bounded_memory(d_code, n_draws):
    """Wide codes in the encoder, or many draws in the decoder: 20 million numbers for 1,024 rows at once."""
    wide = net(400, d_code, n_draws)
    rng = torch.Generator().manual_seed(1)
    values, mask = torch.randn(1024, 400, generator=rng), (torch.rand(1024, 400, generator=rng) < 0.7).float()
    with torch.no_grad():
        with Largest() as largest:
            found = wide(values, mask)
        assert largest.n_numbers <= MOST_HELD
        torch.testing.assert_close(found[-5:], wide(values[-5:], mask[-5:]), rtol=1e-4, atol=1e-5)
    assert found.shape == (1024, 1)


def test_no_rows_have_no_predictions():
    assert net(3, 4, 2)(torch.zeros(0, 3), torch.zeros(0, 3)).shape == (0, 1)
