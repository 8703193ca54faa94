"""StableMiss: a predictor whose parameters are generated for each row from its mask.

Zhu, Yuan, Jiang, Lin, Jin, Wang and Zhou, "Prediction with Incomplete Data under Agnostic Mask Distribution
Shift", IJCAI 2023: the predictor g(x ⊙ m; φ(m)), decorrelation by row weights, and the weighted regression.

Deviations: γ is searched as a fraction of its critical value (`strength`); no row weights by default;
covariances are those of the weighted distribution. More are in `base/hypernetwork.py`,
`networks/hyper.py` and `networks/cnn.py`. Each is explained at its DEVIATION comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from stablemiss.architectures import Architecture
from stablemiss.base.hypernetwork import HypernetworkMethod
from stablemiss.base.network import Schedule
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import check_choice, check_number, to_list
from stablemiss.data import MaskedData
from stablemiss.decorrelation import Decorrelator, Form, Weighting
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed

Decorrelate = Literal["none", "intra", "inter", "full"]
# Terms of the dependence (see `stablemiss.decorrelation.Dependence`) for each value of `decorrelate`.
# PAPER: intra-decorrelation within X and within M, and inter-decorrelation between X and M.
DECORRELATION_TERMS: dict[str, tuple[str, ...]] = {
    "none": (),
    "intra": ("xx", "mm"),
    "inter": ("xm",),
    "full": ("xx", "mm", "xm"),
}
# DEVIATION: of weights that differ by less than this on average (their mean is one), a search trains only one
# network, with the first of them, because networks trained with nearly the same weights are nearly the same.
MIN_WEIGHT_DIFFERENCE = 0.005
# Maximum number of rows per step of the row weights; larger tables use batches of this size.
MAX_BATCH_SIZE = 32768


class StableMiss(HypernetworkMethod):
    """The predictor g(x ⊙ m; φ(m)), whose parameters a network φ generates from the mask.

    Each set of observed columns gets its own predictor. Similar masks get similar predictors, including masks
    that did not occur in training. Before training, the rows can be weighted to make columns and mask
    indicators (1 = observed) less dependent, so that φ does not rely on dependences that hold only in the
    training data.

    Parameters
    ----------
    architecture : {"linear", "mlp"} or Architecture, default="linear"
        Architecture of g. "linear", the paper's choice for synthetic data, is fast and, for a given mask,
        linear in the observed values. "mlp" is non-linear, which most real tables need, and takes about three
        times as long. An object of `stablemiss.architectures`, such as ``CNN()`` for images, reads arrays;
        `hidden`, `layers`, `g_hidden` and `rank` are then ignored.
    hidden : int, default=128
        Width of each hidden layer of φ. A larger value distinguishes more masks and overfits earlier.
    layers : int, default=1
        Number of hidden layers of φ. More layers represent more complex functions of the mask; 0 makes the
        parameters of g linear in the mask.
    g_hidden : sequence of int, default=(128,)
        Widths of the hidden layers of g, for "mlp". Wider and more layers are more flexible; the cost of the
        last layer of φ grows with the number of parameters of g.
    rank : int, default=None
        If given, the parameters of g vary with the mask only in a subspace of this dimension. A higher rank
        is more flexible, None the most; a low rank makes a large g affordable.
    learning_rate : float, default=1e-3
        Initial learning rate, lowered up to three times. A larger value trains faster and less reliably.
    weight_decay : float, default=3.0
        Weight decay of φ. It shrinks the predictors of all masks towards a common predictor, which is not
        shrunk itself. A larger value overfits less; above about ten, masks are no longer distinguished.
    batch_size : int, default=64
        Maximum number of rows in a step. A larger value gives faster epochs and fewer steps. If this
        gives fewer than sixteen batches per pass, batches are made smaller, down to 32 rows.
    max_epochs : int, default=200
        Maximum number of epochs. On small tables an epoch consists of several passes (at least sixteen
        batches).
    patience : int or None, default=8
        Epochs without a better validation loss after which the learning rate is lowered, at most three times;
        then training ends. A larger value finds late improvements and takes longer. None turns early stopping
        off: all epochs are run, and the network of the last one is kept.
    device : str, default="auto"
        "cpu", "cuda" or "auto" (a GPU if there is one), for training.
    decorrelate : {"none", "intra", "inter", "full"}, default="none"
        Dependences that the row weights lower: "intra", between columns and between mask indicators; "inter",
        between columns and mask indicators; "full", both. "none" learns no weights.
    form : {"weighted", "paper"}, default="weighted"
        How dependence is measured; see `stablemiss.decorrelation.dependence`.
    strength : float, default=0.25
        Strength of the penalty on uneven weights: its coefficient γ as a fraction of the critical value, at
        which all weights stay equal. Larger values therefore decorrelate less; towards 0 dependence falls
        further and fewer rows carry the weight.
    gamma : float, sequence of float or None, default=None
        γ itself, as in the paper; `strength` is then ignored. Of several values, the one with the lowest
        validation loss is kept (without early stopping, the lowest training loss). A network is trained for
        each value, except for those whose weights differ from earlier ones by less than half a per cent on
        average.
    mask_augmentation : bool, default=False
        Whether further values are hidden at random in training, so that new masks are no surprise: each time
        at another rate, cells of a table or image alone, sensors with their whole history. Meant for
        missingness that will be far from that in training. Not in the paper.
    schedule : {"adaptive", "one_cycle"}, default="adaptive"
        "adaptive" lowers the learning rate when validation rows show no improvement, see `patience`.
        "one_cycle" raises it and lowers it to zero over all `max_epochs`, without early stopping: `patience`
        has no effect, and validation rows only choose γ. Meant for images and
        sensor networks, with about ten epochs and a learning rate several times as high.

    See Also
    --------
    StableMissPlus : Row weights by optimal transport.
    NeuMiss : A network in which the mask multiplies after every linear map.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + X[:, 1]
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=StableMiss(hidden=16), random_state=0).fit(X, y)
    >>> model.predict([[1.0, 1.0], [np.nan, 1.0]]).round().tolist()
    [2.0, 1.0]
    """

    name: ClassVar[str] = "stablemiss"
    # DEVIATION: γ is searched as `strength`, a fraction of the critical γ, because the effect of the same γ
    # differs greatly between tables.
    space: ClassVar[Space] = {
        **HypernetworkMethod.space,
        "decorrelate": Choice(*DECORRELATION_TERMS),
        "strength": Range(0.05, 0.8, log=True),
    }

    brief: ClassVar[Mapping[str, Any]] = {"learning_rate": 1e-2, "max_epochs": 15}

    # DEVIATION: decorrelate="none", because with early stopping the weights did not improve predictions.
    # DEVIATION: form="weighted", because with the paper's covariances the weights hardly change.
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
        decorrelate: Decorrelate = "none",
        form: Form = "weighted",
        strength: float = 0.25,
        gamma: float | Sequence[float] | None = None,
        mask_augmentation: bool = False,
        schedule: Schedule = "adaptive",
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
        self.decorrelate = decorrelate
        self.form = form
        self.strength = strength
        self.gamma = gamma
        self.mask_augmentation = mask_augmentation
        self.schedule = schedule

    def learn_row_weights(
        self, train: MaskedData, rng: Rng, progress: Progress
    ) -> Sequence[Weighting | None]:
        check_choice(self, decorrelate=tuple(DECORRELATION_TERMS), form=("weighted", "paper"))
        check_number(self, strength="[0, 1e30]")
        gammas = self._gammas()
        terms = DECORRELATION_TERMS[self.decorrelate]
        if not terms:
            return [None]
        seed = draw_seed(rng)
        weightings: list[Weighting] = []
        for gamma in gammas:
            decorrelator = Decorrelator(
                terms,
                self.form,
                self.strength,
                gamma,
                # PAPER: one draw of random features.
                # DEVIATION: new features every few steps for the weighted form, because its weights change
                # enough to overfit a single draw.
                redraw=self.form == "weighted",
                batch_size=MAX_BATCH_SIZE,
                device=self.device,
            )
            weighting = decorrelator.learn_weights(
                train.values,
                train.mask,
                # The same random features for all values of γ.
                rng=np.random.default_rng(seed),
                weight=train.weight,
                groups=train.groups,
                progress=progress,
            )
            if all(_difference(weighting, kept) >= MIN_WEIGHT_DIFFERENCE for kept in weightings):
                weightings.append(weighting)
        return weightings

    def _gammas(self) -> Sequence[float | None]:
        """The values of γ to try; None stands for `strength`."""
        gammas = to_list(self.gamma) or [self.gamma]
        for gamma in gammas:
            check_number({"gamma": gamma}, gamma="[0, 1e30]", unless=None)
        return gammas


def _difference(one: Weighting, other: Weighting) -> float:
    """Mean absolute difference between two weightings of the same rows."""
    return float(np.abs(one.weight - other.weight).mean())
