"""Training rows as tensors on one device, and mini-batches of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from stablemiss.checks import shown
from stablemiss.data import MaskedData
from stablemiss.seeding import Rng

# Number of rows processed at a time when no gradients are needed.
CHUNK_SIZE = 1024


def to_device(name: str) -> torch.device:
    """The torch device called `name`; "auto" is the first GPU if torch sees one, otherwise the CPU.

    Examples
    --------
    >>> to_device("cpu")
    device(type='cpu')
    """
    if isinstance(name, str) and name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        if not isinstance(name, str | torch.device):
            raise TypeError("torch would take an integer for the number of a GPU")
        device = torch.device(name)
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f'device="{name}" needs a GPU, but torch sees none; use device="auto" or "cpu".')
        # Torch accepts the names of devices that do not exist and fails only when one is used.
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f'device={shown(name)} is not available to torch on this machine; use device="auto", "cpu" or '
            '"cuda".'
        ) from error
    return device


@dataclass(frozen=True)
class Rows:
    """`MaskedData` in single precision on one device.

    All rows are kept on the device, and a batch selects some of them by index. For tables this is much faster
    than a DataLoader that collates single rows.

    Attributes
    ----------
    values : (n, …) float32
        Zero where missing.
    mask : (n, …) float32
        1 = observed.
    target : (n, d_target) float32, or (n,) int64 class codes
    weight : (n,) float32
        Mean one over all rows, not necessarily within a batch.
    index : (n,) int64
        Position of each row among all rows, for losses that keep one parameter per row.
    target_mask : (n, d_target) float32, or None
        1 = observed target. None means that all are observed.

    Examples
    --------
    >>> data = MaskedData.of([[1.0], [2.0]], [[True], [False]], [[0.0], [1.0]])
    >>> Rows.of(data, torch.device("cpu")).take(torch.tensor([1])).values
    tensor([[0.]])
    """

    values: Tensor
    mask: Tensor
    target: Tensor
    weight: Tensor
    index: Tensor
    target_mask: Tensor | None = None

    @classmethod
    def of(cls, data: MaskedData, device: torch.device) -> Rows:
        """Copy `data` to the device."""
        target = torch.as_tensor(data.target)
        return cls(
            values=torch.as_tensor(data.values, dtype=torch.float32, device=device),
            mask=torch.as_tensor(data.mask, dtype=torch.float32, device=device),
            target=target.to(device, torch.float32 if target.is_floating_point() else torch.int64),
            weight=torch.as_tensor(data.weight, dtype=torch.float32, device=device),
            index=torch.arange(len(data), device=device),
            target_mask=None
            if data.target_mask is None
            else torch.as_tensor(data.target_mask, dtype=torch.float32, device=device),
        )

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: Tensor) -> Rows:
        """Select rows by position, in the given order."""
        parts = (getattr(self, field.name) for field in fields(self))
        return Rows(*(None if part is None else part[index] for part in parts))  # type: ignore[arg-type]

    def observed_share(self) -> Tensor:
        """Share of the target that is observed in each row, (n,): 1 if all of it is."""
        return torch.ones_like(self.weight) if self.target_mask is None else self.target_mask.mean(dim=1)

    def batches(self, size: int, rng: Rng | None = None) -> Iterator[Rows]:
        """Split all rows into batches of at most `size` rows whose sizes differ by at most one.

        With a small last batch, one or two rows would change the parameters as much as a full batch does.

        Parameters
        ----------
        size : int
            Maximum number of rows in a batch.
        rng : numpy Generator, default=None
            Shuffles the rows; None keeps their order.
        """
        order = np.arange(len(self)) if rng is None else rng.permutation(len(self))
        for batch in np.array_split(order, self.n_batches(size)):
            yield self.take(torch.as_tensor(batch, device=self.index.device))

    def n_batches(self, size: int) -> int:
        """Number of batches of at most `size` rows."""
        return max(1, -(-len(self) // size))


def mean_loss(row_loss: Callable[[Rows], Tensor], rows: Rows, chunk_size: int = CHUNK_SIZE) -> float:
    """Weighted mean of a loss over all rows, computed in chunks and without gradients.

    If targets are observed in part, cells are pooled as in an RMSE over all observed cells: a row counts in
    proportion to the share of its target that is observed.

    Parameters
    ----------
    row_loss : callable
        Function from `Rows` to one loss per row, (n,): a sum over the observed cells of its target.
    rows : Rows
    chunk_size : int, default=1024
        Maximum number of rows in a call of `row_loss`. A larger value needs more memory.

    Examples
    --------
    >>> data = MaskedData.of([[1.0], [3.0]], [[True], [True]], [[0.0], [0.0]])
    >>> mean_loss(lambda rows: rows.values[:, 0], Rows.of(data, torch.device("cpu")))
    2.0
    """
    total = 0.0
    with torch.no_grad():
        for chunk in rows.batches(chunk_size):
            total += float((row_loss(chunk) * chunk.weight).sum(dtype=torch.float64))
    return total / float((rows.weight * rows.observed_share()).sum(dtype=torch.float64))
