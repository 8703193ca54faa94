"""StableMiss+: StableMiss with row weights fitted by optimal transport (our interpretation).

Only the released code of the follow-up paper (ICASSP 2024) was available, and that code cannot decorrelate
columns. This is our variant of its idea; `stablemiss.decorrelation.transport` explains the difference.

Deviations: the row weights minimise a single distance to permuted columns, along directions that mix columns
and mask indicators. More are in `decorrelation/transport.py`, `base/hypernetwork.py`, `networks/hyper.py` and
`networks/cnn.py`. Each is explained at its DEVIATION comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from stablemiss.architectures import Architecture
from stablemiss.base.hypernetwork import HypernetworkMethod
from stablemiss.base.search_space import Range, Space
from stablemiss.checks import check_integer, check_number
from stablemiss.data import MaskedData
from stablemiss.decorrelation import TransportDecorrelator, Weighting
from stablemiss.progress import Progress
from stablemiss.seeding import Rng


class StableMissPlus(HypernetworkMethod):
    """StableMiss with row weights that bring the table close to one with independent columns.

    The weighted rows are compared, along random directions and by optimal transport, with rows whose columns
    were permuted independently. Unlike the covariances of StableMiss, this compares whole distributions.

    Parameters
    ----------
    architecture : {"linear", "mlp"} or Architecture, default="linear"
        Architecture of g: linear in the observed values, or an MLP, which is more flexible and slower. An
        object of `stablemiss.architectures`, such as ``CNN()`` for images, reads arrays.
    hidden : int, default=128
        Width of each hidden layer of φ. A larger value distinguishes more masks and overfits earlier.
    layers : int, default=1
        Number of hidden layers of φ. More layers represent more complex functions of the mask.
    g_hidden : sequence of int, default=(128,)
        Widths of the hidden layers of g, for "mlp". Wider and more layers are more flexible and cost more.
    rank : int, default=None
        Dimension of the subspace in which the parameters of g vary with the mask. A higher rank is more
        flexible, None the most.
    learning_rate : float, default=1e-3
        Initial learning rate. A larger value trains faster and less reliably.
    weight_decay : float, default=3.0
        Weight decay of φ. A larger value makes the predictors of different masks more similar.
    batch_size : int, default=64
        Maximum number of rows in a step. A larger value gives faster epochs and fewer steps.
    max_epochs : int, default=200
        Maximum number of epochs.
    patience : int or None, default=8
        Epochs without a better validation loss after which the learning rate is lowered, at most three times;
        then training ends. A larger value finds late improvements and takes longer. None turns early stopping
        off: all epochs are run, and the network of the last one is kept.
    device : str, default="auto"
        "cpu", "cuda" or "auto" (a GPU if there is one), for training.
    strength : float, default=0.15
        Strength of the penalty on uneven weights: its coefficient γ as a fraction of the critical value, at
        which all weights stay equal. Larger values therefore decorrelate less; towards 0 dependence falls
        further and fewer rows carry the weight.
    n_directions : int, default=50
        Number of random directions drawn at a time. A larger value compares the distributions more precisely;
        the cost is proportional.

    See Also
    --------
    StableMiss : Row weights that lower covariances of random features; explains the parameters in detail.

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
    space: ClassVar[Space] = {**HypernetworkMethod.space, "strength": Range(0.05, 0.8, log=True)}
    brief: ClassVar[Mapping[str, Any]] = {"n_directions": 10, "learning_rate": 1e-2, "max_epochs": 15}

    def __init__(
        self,
        architecture: Literal["linear", "mlp"] | Architecture = "linear",
        hidden: int = 128,
        layers: int = 1,
        g_hidden: Sequence[int] = (128,),
        rank: int | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 3.0,
        batch_size: int = 64,
        max_epochs: int = 200,
        patience: int | None = 8,
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

    def learn_row_weights(self, train: MaskedData, rng: Rng, progress: Progress) -> list[Weighting]:
        check_number(self, strength="[0, 1e30]")
        check_integer(self, n_directions=(1, 100_000))
        # DEVIATION: a single distance to permuted columns along directions that mix columns and mask
        # indicators, because the released code compares each column separately, and permuting a column does
        # not change its marginal distribution.
        decorrelator = TransportDecorrelator(self.strength, self.n_directions, device=self.device)
        weighting = decorrelator.learn_weights(
            train.values, train.mask, rng=rng, weight=train.weight, groups=train.groups, progress=progress
        )
        return [weighting]
