"""The rows a network is trained on, as tensors on one device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from stablemiss.data import MaskedData
from stablemiss.seeding import Rng

CHUNK = 1024


def to_device(name: str) -> torch.device:
    """The device called `name`; "auto" is the first GPU that torch sees, else the processor.

    Examples
    --------
    >>> to_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(
                f'device="{name}" was asked for but torch sees no GPU; use device="auto" or "cpu".'
            )
        # Torch knows names of devices that are not there, and says so only when one is used.
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f'device={name!r} is none that torch can use here; use device="auto", "cpu" or "cuda".'
        ) from error
    return device


@dataclass(frozen=True)
class Rows:
    """`MaskedData` in single precision on one device, for networks.

    All rows live on the device at once and a batch is a selection of them, which for tables is far quicker
    than to collate row by row.

    Attributes
    ----------
    values : (n, …) float32
        Zero where hidden.
    mask : (n, …) float32
        1 = observed.
    target : (n, d_target) float32, or (n,) int64 class codes
    weight : (n,) float32
        Mean one over all rows; in a batch it need not be.
    index : (n,) int64
        Place of each row among all rows, for losses that keep something per row.

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
        )

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: Tensor) -> Rows:
        """The chosen rows, in that order."""
        return Rows(*(getattr(self, field.name)[index] for field in fields(self)))

    def batches(self, size: int, rng: Rng | None = None) -> Iterator[Rows]:
        """Every row once, in batches of at most `size` whose sizes differ by at most one.

        Even batches, because a last batch of one or two left-over rows would move the parameters as far as
        a full one does. In random order if there is an `rng`.
        """
        order = np.arange(len(self)) if rng is None else rng.permutation(len(self))
        for part in np.array_split(order, self.n_batches(size)):
            yield self.take(torch.as_tensor(part, device=self.index.device))

    def n_batches(self, size: int) -> int:
        """How many batches of at most `size` rows it takes."""
        return max(1, -(-len(self) // size))


def mean_loss(row_loss: Callable[[Rows], Tensor], rows: Rows) -> float:
    """Weighted mean of `row_loss` (batch → one loss per row) over all rows, without gradients, in chunks.

    Examples
    --------
    >>> data = MaskedData.of([[1.0], [3.0]], [[True], [True]], [[0.0], [0.0]])
    >>> mean_loss(lambda rows: rows.values[:, 0], Rows.of(data, torch.device("cpu")))
    2.0
    """
    total = 0.0
    with torch.no_grad():
        for chunk in rows.batches(CHUNK):
            total += float((row_loss(chunk) * chunk.weight).sum(dtype=torch.float64))
    return total / float(rows.weight.sum(dtype=torch.float64))
