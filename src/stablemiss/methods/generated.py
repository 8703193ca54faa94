"""The predictor g(x ⊙ m; φ(m)) and its weighted regression, which StableMiss and StableMiss+ share.

They differ in the row weights alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stablemiss.data import Floats, MaskedData
from stablemiss.decorrelation import Weighting
from stablemiss.methods.base import Method, Predictor
from stablemiss.networks import GeneratedMLP
from stablemiss.progress import Silence
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Task
from stablemiss.torch_state import torch_randomness, torch_threads
from stablemiss.training import CHUNK, History, Rows, Stage, Step, adamw, mean_loss, run_stages, to_device

# Between two looks at the validation rows there are at least so many steps, however small the table.
MIN_BATCHES = 16
# Three cuts of the learning rate took 2 to 4% off the validation loss on Gaussian-Mix.
CUTS = 3
# Multiplications in one pass of a batch up to which a second thread saves little.
SMALL_STEP = 2**26


class GeneratedPredictor(Predictor):
    """A network with generated parameters, and how it was trained.

    Attributes
    ----------
    network : GeneratedMLP
        In evaluation mode, on the processor, its single-precision parameters held in double precision.
    history : list of History
        The course of training if the predictor was fitted; empty if it was loaded.
    weighting : Weighting or None
        How the training rows were weighted; None if they were not, or if the predictor was loaded.
    """

    def __init__(
        self, network: GeneratedMLP, history: Sequence[History] = (), weighting: Weighting | None = None
    ):
        # On the processor also after training on a GPU, so that it answers with the same bits once loaded;
        # in double precision, so that a row's answer does not depend on the rows beside it.
        self.network = network.cpu().double().eval()
        self.history = list(history)
        self.weighting = weighting

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


class GeneratedRegression(Method):
    """Rows are weighted, then φ learns to write down, for each mask, the predictor that fits them best.

    A subclass says what the weights are. The parameters that all share are explained in `StableMiss`.
    """

    predictor: ClassVar[type[Predictor]] = GeneratedPredictor

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

    @abstractmethod
    def weigh(self, train: MaskedData, rng: Rng, progress: Silence) -> Weighting | None:
        """Weights under which the rows count; None leaves them as they are."""

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Silence
    ) -> GeneratedPredictor:
        self._check()
        # Of its own, so that the network starts alike and sees rows in the same order with any weights.
        weight_rng = np.random.default_rng(draw_seed(rng))
        weighting = self.weigh(train, weight_rng, progress)
        if weighting is not None:
            # What the weights of all rows add up to stays: validation rows keep theirs.
            train = replace(train, weight=weighting.weight * train.weight.mean())
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
        return GeneratedPredictor(network, run_stages([stage], rng, progress), weighting)

    def _check(self) -> None:
        if self.architecture not in ("linear", "mlp"):
            raise ValueError(f'architecture={self.architecture!r} is unknown; choose "linear" or "mlp".')
        least = {"hidden": 1, "layers": 0, "rank": 1, "batch_size": 1, "max_epochs": 1, "patience": 1}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise ValueError(f"{name}={value!r} is too small; give at least {bound}.")
