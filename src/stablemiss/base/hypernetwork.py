"""The predictor g(x ⊙ m; φ(m)) and its weighted training, shared by StableMiss and StableMiss+.

The two methods differ only in their row weights.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from stablemiss.architectures import Architecture, check_architecture
from stablemiss.base.method import Method, Predictor
from stablemiss.base.network import (
    SCHEDULES,
    NetworkPredictor,
    Schedule,
    cells_per_row,
    train_and_validation_rows,
    train_network,
)
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import (
    MAX_LAYERS,
    MAX_WIDTH,
    check_bool,
    check_choice,
    check_integer,
    check_number,
    check_widths,
)
from stablemiss.data import MaskedData
from stablemiss.decorrelation import Weighting
from stablemiss.missingness import MaskAugmentation
from stablemiss.networks import (
    GeneratedCNN,
    GeneratedGraphTemporal,
    GeneratedMLP,
    ModulatedCNN,
    ModulatedGraphTemporal,
    PartialCNN,
    SharedCNN,
    SharedGraphTemporal,
)
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Task
from stablemiss.torch_state import torch_randomness
from stablemiss.training import History, Rows, Step, adamw, to_device

# Masked copies of each validation row for early stopping, beside the unchanged row.
VALIDATION_COPIES = 1


class HypernetworkPredictor(NetworkPredictor):
    """A network with generated parameters, and the weights of its training rows.

    Parameters
    ----------
    network : nn.Module
    history : sequence of History, default=()
        Training history; empty for a loaded predictor.
    weighting : Weighting, default=None
        Fitted weights of the training rows; None if the method fitted no weights, or if the predictor was
        loaded.
    """

    network_class = GeneratedMLP
    network_classes: ClassVar[Mapping[str, type[nn.Module]]] = {
        network.__name__: network
        for network in (
            GeneratedMLP,
            GeneratedCNN,
            ModulatedCNN,
            GeneratedGraphTemporal,
            ModulatedGraphTemporal,
            SharedCNN,
            PartialCNN,
            SharedGraphTemporal,
        )
    }

    def __init__(
        self, network: nn.Module, history: Sequence[History] = (), weighting: Weighting | None = None
    ):
        super().__init__(network, history)
        self.weighting = weighting

    @property
    def effective_share(self) -> float | None:
        return None if self.weighting is None else self.weighting.effective_rows / len(self.weighting.weight)


class HypernetworkMethod(Method):
    """Weighted regression with a predictor whose parameters are generated from the mask.

    A subclass defines the row weights. The common parameters are documented in `StableMiss`.
    """

    predictor_class: ClassVar[type[Predictor]] = HypernetworkPredictor
    # Parameters of StableMiss.
    mask_augmentation: bool = False
    schedule: Schedule = "adaptive"
    # PAPER: 1 to 3 layers of 128 to 4096 units; the reproduction's budget "paper" searches these.
    # DEVIATION: at most 1024 units in φ and 512 in g, because φ overfits with more; 0 hidden layers and 32
    # units of φ are included, because small tables need smaller networks.
    space: ClassVar[Space] = {
        # Of tables, which alone `tune` reads. Architectures for arrays are searched by GridSearchCV, with its
        # default score.
        "architecture": Choice("linear", "mlp"),
        "hidden": Choice(32, 64, 128, 256, 512, 1024),
        "layers": Choice(0, 1, 2, 3),
        "g_hidden": Choice((128,), (256,), (512,), (128, 128), (128, 128, 128)),
        "learning_rate": Range(1e-4, 1e-2, log=True),
        "weight_decay": Range(0.1, 10.0, log=True),
    }

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

    @property
    def hides_values(self) -> bool:
        return self.mask_augmentation

    def check_shapes(self, shape: tuple[int, ...], output_shape: tuple[int, ...]) -> None:
        check_architecture(self.architecture)
        if isinstance(self.architecture, Architecture):
            self.architecture.check(shape, output_shape)
        else:
            super().check_shapes(shape, output_shape)

    @abstractmethod
    def learn_row_weights(
        self, train: MaskedData, rng: Rng, progress: Progress
    ) -> Sequence[Weighting | None]:
        """Learn weights of the training rows; None keeps the weights in `train`.

        If there are several candidates, a network is trained with each of them, and the best one is kept.
        """

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> HypernetworkPredictor:
        self._check()
        # A separate generator, so that the weights do not change the network's initial parameters and
        # batches.
        weight_rng, seed = np.random.default_rng(draw_seed(rng)), draw_seed(rng)
        candidates = [
            # The same initial parameters and batches for all candidates.
            self._fit_network(weighting, train, valid, task, np.random.default_rng(seed), progress)
            for weighting in self.learn_row_weights(train, weight_rng, progress)
        ]
        return min(candidates, key=self._selection_loss)

    def _selection_loss(self, predictor: HypernetworkPredictor) -> float:
        """Loss by which the best candidate is chosen: on validation rows, if they are used at all."""
        [history] = predictor.history
        # PAPER: tuned on the training loss.
        # DEVIATION: on validation rows whenever they are used for early stopping, because the training loss
        # favours weights that leave few effective rows.
        last_loss = history.losses[-1][0]
        return history.best_score if self.patience is not None or last_loss is None else last_loss

    def _fit_network(
        self,
        weighting: Weighting | None,
        train: MaskedData,
        valid: MaskedData,
        task: Task,
        rng: Rng,
        progress: Progress,
    ) -> HypernetworkPredictor:
        if weighting is not None:
            # Validation rows keep their weights, so the mean weight of the training rows must not change.
            train = replace(train, weight=weighting.weight * train.weight.mean())
        device = to_device(self.device)
        with torch_randomness(rng):
            network = self._build(train, task).to(device)
        augmentation = self._augmentation(train, task)
        if augmentation is not None:
            valid = augmentation.copies(valid if len(valid) else train, VALIDATION_COPIES, rng)
        rows, validation = train_and_validation_rows(train, valid, device)
        n_cells = cells_per_row(rows, train, task)

        def loss(batch: Rows) -> Tensor:
            # PAPER: min Σ w_i (y_i − ŷ_i)². Divided by the number of rows in the batch, not by the sum of
            # their weights: the mean weight over all rows is one, and a batch of small weights should count
            # less.
            mask = batch.mask
            if augmentation is not None:
                mask = mask * torch.from_numpy(augmentation.draw(len(batch), rng)).to(mask)
            output = network(batch.values, mask)
            losses = batch.weight * task.row_loss(output, batch.target, batch.target_mask)
            return losses.mean() / n_cells

        # DEVIATION: weight decay and early stopping on validation rows, because φ overfits within a few
        # epochs. The paper runs Adam for 1000 epochs and tunes on the training loss.
        step = Step(loss, list(network.parameters()), adamw(self.learning_rate, self.weight_decay))
        history = train_network(self, network, [step], rows, validation, task, rng, progress)
        return HypernetworkPredictor(network, history, weighting)

    def _augmentation(self, train: MaskedData, task: Task) -> MaskAugmentation | None:
        if not self.mask_augmentation:
            return None
        if isinstance(self.architecture, Architecture) and train.row_shape is not None:
            return self.architecture.augmentation(train.row_shape, task.output_shape)
        return MaskAugmentation.of(train.groups)

    def _build(self, train: MaskedData, task: Task) -> nn.Module:
        """Create the network for rows and targets of these shapes."""
        if isinstance(self.architecture, Architecture):
            return self.architecture.build(train.row_shape or (train.n_columns,), task.output_shape)
        g_hidden = self.g_hidden if self.architecture == "mlp" else ()
        return GeneratedMLP(
            widths=[train.n_columns, *g_hidden, task.d_output],
            hidden=[self.hidden] * self.layers,
            rank=self.rank,
        )

    def _check(self) -> None:
        check_architecture(self.architecture)
        check_integer(self, hidden=(1, MAX_WIDTH), layers=(0, MAX_LAYERS))
        check_integer(self, batch_size=1, max_epochs=1)
        check_integer(self, patience=1, unless=None)
        check_integer(self, rank=(1, MAX_WIDTH), unless=None)
        check_number(self, learning_rate="(0, 1]", weight_decay="[0, inf)")
        check_widths(self, "g_hidden")
        check_bool(self, "mask_augmentation")
        check_choice(self, schedule=SCHEDULES)
