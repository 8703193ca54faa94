"""StableMiss: a predictor whose parameters are generated, row by row, from the row's mask.

Zhu, Yuan, Jiang, Lin, Jin, Wang and Zhou, "Prediction with Incomplete Data under Agnostic Mask Distribution
Shift", IJCAI 2023: the predictor g(x ⊙ m; φ(m)) and its weighted regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stablemiss.data import Floats, MaskedData
from stablemiss.methods.base import Method, Predictor
from stablemiss.networks import GeneratedMLP
from stablemiss.progress import Silence
from stablemiss.seeding import Rng
from stablemiss.tasks import Task
from stablemiss.torch_state import torch_randomness, torch_threads
from stablemiss.training import CHUNK, History, Rows, Stage, Step, adamw, mean_loss, run_stages, to_device

# Between two looks at the validation rows there are at least so many steps, however small the table.
MIN_BATCHES = 16
# Three cuts of the learning rate took 2 to 4% off the validation loss on Gaussian-Mix.
CUTS = 3
# Multiplications in one pass of a batch up to which a second thread saves little.
SMALL_STEP = 2**26


class StableMissPredictor(Predictor):
    """A network with generated parameters, and how it was trained.

    Attributes
    ----------
    network : GeneratedMLP
        In evaluation mode, on the processor, its single-precision parameters held in double precision.
    history : list of History
        The course of training if the predictor was fitted; empty if it was loaded.
    """

    def __init__(self, network: GeneratedMLP, history: Sequence[History] = ()):
        # On the processor also after training on a GPU, so that it answers with the same bits once loaded;
        # in double precision, so that a row's answer does not depend on the rows beside it.
        self.network = network.cpu().double().eval()
        self.history = list(history)

    def outputs(self, values: Floats, mask: NDArray) -> Floats:
        chunks = [slice(first, first + CHUNK) for first in range(0, max(1, len(values)), CHUNK)]
        # One thread: steps are small, and torch's own threads hang in a process that was forked.
        with torch.no_grad(), torch_threads(1):
            outputs = [
                self.network(
                    torch.as_tensor(values[chunk], dtype=torch.float64),
                    torch.as_tensor(mask[chunk], dtype=torch.float64),
                )
                for chunk in chunks
            ]
        return torch.cat(outputs).numpy()

    def state(self) -> dict[str, Any]:
        return {
            "widths": self.network.widths,
            "hidden": self.network.hidden,
            "rank": self.network.rank,
            "parameters": {name: part.float().numpy() for name, part in self.network.state_dict().items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        # The parameters drawn here are replaced at once.
        with torch_randomness(np.random.default_rng(0)):
            network = GeneratedMLP(state["widths"], state["hidden"], state["rank"])
        parameters = {name: torch.tensor(part) for name, part in state["parameters"].items()}
        network.load_state_dict(parameters)
        return cls(network)


class StableMiss(Method):
    """Let the mask choose the predictor: g(x ⊙ m; φ(m)), a network g whose parameters a network φ generates.

    Each set of observed columns gets a predictor of its own, and similar masks get similar ones, also masks
    that training never showed. Training stops on the validation rows; there is no way to do without, only
    a large `patience`.

    Parameters
    ----------
    architecture : "linear" or "mlp"
        What g is. "linear" is the paper's choice for synthetic data: quick, and for a fixed mask linear in
        the observed values. "mlp" can bend, which most real tables need, and takes about three times as long.
    hidden : int
        Units in each hidden layer of φ. More units tell more masks apart and overfit earlier.
    layers : int
        Hidden layers of φ. More of them combine columns' absences further; 0 makes g's parameters
        linear in the mask.
    g_hidden : sequence of int
        Widths of the hidden layers of g, for "mlp". Wider and more layers bend more; the cost of φ's last
        layer grows with the number of g's parameters.
    rank : int, optional
        Let g's parameters vary with the mask in only so many directions. Higher is more flexible, None the
        most; low ranks make a large g affordable.
    learning_rate : float
        First step size. Larger learns faster and less surely; it is lowered three times before the end.
    weight_decay : float
        Pull of φ towards a constant, that is of all masks towards one predictor (g itself is not shrunk).
        Larger overfits less; above about ten, masks can no longer be told apart.
    batch_size : int
        Largest number of rows in a step. Larger gives quicker epochs and fewer steps. Tables with fewer
        than sixteen such batches get smaller ones, down to 32 rows.
    max_epochs : int
        The most passes over the data; a small table makes several passes in one epoch.
    patience : int
        Epochs without improvement on the validation rows before the learning rate is lowered or training
        ends. More finds late improvements and takes longer.
    device : str
        "cpu", "cuda" or "auto" (a GPU if there is one), for training.

    Examples
    --------
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + X[:, 1]
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=StableMiss(hidden=16), random_state=0).fit(X, y)
    >>> model.predict([[1.0, 1.0], [np.nan, 1.0]]).round().tolist()
    [2.0, 1.0]
    """

    name: ClassVar[str] = "stablemiss"
    predictor: ClassVar[type[Predictor]] = StableMissPredictor

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
    ):
        self.architecture = architecture
        self.hidden = hidden
        self.layers = layers
        self.g_hidden = g_hidden
        self.rank = rank
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.device = device

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Silence
    ) -> StableMissPredictor:
        self._check()
        device = to_device(self.device)
        g_hidden = self.g_hidden if self.architecture == "mlp" else ()
        with torch_randomness(rng):
            network = GeneratedMLP(
                widths=[train.n_columns, *g_hidden, task.d_output],
                hidden=[self.hidden] * self.layers,
                rank=self.rank,
            ).to(device)

        def row_loss(rows: Rows) -> Tensor:
            return task.row_loss(network(rows.values, rows.mask), rows.target)

        def loss(batch: Rows) -> Tensor:
            # PAPER: min Σ w_i (y_i − ŷ_i)². Divided by the number of rows, not by the batch's weights: their
            # mean is one over all rows, and a batch of light rows should move the parameters less.
            return (batch.weight * row_loss(batch)).mean()

        rows = Rows.of(train, device)
        valid_rows = Rows.of(valid, device) if len(valid) else rows
        batch_size = min(self.batch_size, max(32, len(rows) // MIN_BATCHES))
        n_parameters = sum(parameter.numel() for parameter in network.parameters())
        stage = Stage(
            name=self.name,
            module=network,
            rows=rows,
            # DEVIATION: weight decay, and early stopping on validation rows, because φ overfits within a few
            # epochs. The paper runs Adam for 1000 epochs and tunes on the training loss.
            steps=[Step(loss, list(network.parameters()), adamw(self.learning_rate, self.weight_decay))],
            score=lambda: mean_loss(row_loss, valid_rows),
            batch_size=batch_size,
            max_epochs=self.max_epochs,
            patience=self.patience,
            cuts=CUTS,
            min_batches=MIN_BATCHES,
            n_threads=1 if batch_size * n_parameters < SMALL_STEP else None,
        )
        return StableMissPredictor(network, run_stages([stage], rng, progress))

    def _check(self) -> None:
        if self.architecture not in ("linear", "mlp"):
            raise ValueError(f'architecture={self.architecture!r} is unknown; choose "linear" or "mlp".')
        least = {"hidden": 1, "layers": 0, "rank": 1, "batch_size": 1, "max_epochs": 1, "patience": 1}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise ValueError(f"{name}={value!r} is too small; give at least {bound}.")
