"""StableMiss+ as we read it: StableMiss with row weights found by optimal transport.

Of the follow-up (ICASSP 2024) only the released code was at hand, and that cannot decorrelate columns. What
stands here is our own variant of its idea; `stablemiss.decorrelation.transport` says where it differs.

Deviations: all of the weighting. More in `decorrelation/transport.py`, `base/generated.py` and
`networks/hyper.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from stablemiss.base.generated import GeneratedRegression
from stablemiss.base.method import check_at_least
from stablemiss.base.search_space import Range, Space
from stablemiss.data import MaskedData
from stablemiss.decorrelation import TransportDecorrelator, Weighting
from stablemiss.progress import Progress
from stablemiss.seeding import Rng


class StableMissPlus(GeneratedRegression):
    """StableMiss whose row weights bring the table close to one with independent columns.

    The weighted rows are compared, along random directions and by optimal transport, with rows whose columns
    were permuted apart from each other. Unlike StableMiss's covariances that compares whole distributions.

    Parameters
    ----------
    architecture, hidden, layers, g_hidden, rank, learning_rate, weight_decay, batch_size, max_epochs, \
patience, device
        As in `StableMiss`.
    strength : float
        How dear uneven weights are, as a share of the price at which they stay equal. Towards one they
        become equal; towards zero rows get closer to independent columns and few carry all the weight.
    n_directions : int
        Directions looked along at a time. More see more, at a cost in proportion.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + X[:, 1]
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=StableMissPlus(hidden=16), random_state=0).fit(X, y)
    >>> model.predict([[1.0, 1.0], [np.nan, 1.0]]).round().tolist()
    [2.0, 1.0]
    """

    name: ClassVar[str] = "stablemiss_plus"
    space: ClassVar[Space] = {**GeneratedRegression.space, "strength": Range(0.05, 0.8, log=True)}
    brief: ClassVar[Mapping[str, Any]] = {"n_directions": 10, "learning_rate": 1e-2, "max_epochs": 15}

    def __init__(
        self,
        architecture: Literal["linear", "mlp"] = "linear",
        hidden: int = 128,
        layers: int = 1,
        g_hidden: Sequence[int] = (32,),
        rank: int | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 3.0,
        batch_size: int = 256,
        max_epochs: int = 200,
        patience: int = 4,
        device: str = "auto",
        strength: float = 0.15,
        n_directions: int = 50,
    ):
        super().__init__(
            architecture,
            hidden,
            layers,
            g_hidden,
            rank,
            learning_rate,
            weight_decay,
            batch_size,
            max_epochs,
            patience,
            device,
        )
        self.strength = strength
        self.n_directions = n_directions

    def weigh(self, train: MaskedData, rng: Rng, progress: Progress) -> Weighting:
        check_at_least(self, strength=0.0, n_directions=1)
        # DEVIATION: one distance to permuted columns along directions that mix columns and mask bits, because
        # the released code compares each column apart, and permuted columns have the right margins already.
        decorrelator = TransportDecorrelator(self.strength, self.n_directions, device=self.device)
        return decorrelator.weigh(
            train.values, train.mask, rng=rng, weight=train.weight, groups=train.groups, progress=progress
        )
