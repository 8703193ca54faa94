"""What methods with a trained network share: the predictor that holds it, and the usual way to train it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stablemiss.base.method import Predictor
from stablemiss.data import Floats, MaskedData
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task
from stablemiss.torch_state import torch_randomness, torch_threads
from stablemiss.training import CHUNK, SMALL_STEP, History, Rows, Stage, Step, mean_loss, run_stages

# Between two looks at the validation rows there are at least so many steps, however small the table.
MIN_BATCHES = 16
# Learning rates are cut so often before training ends. Three cuts took 2 to 4% off the validation loss of
# StableMiss on Gaussian-Mix.
LR_REDUCTIONS = 3


class NetworkPredictor(Predictor):
    """A trained network, on the processor and in double precision, and how it was trained.

    Attributes
    ----------
    network : nn.Module
        (values, mask) → outputs; its `config` holds the arguments it was built with. Random numbers it needs
        for an answer are part of it, so that it always says the same.
    history : list of History
        The course of training if the predictor was fitted; empty if it was loaded.
    """

    # Built again from what the archive holds.
    kind: ClassVar[type[nn.Module]]

    def __init__(self, network: nn.Module, history: Sequence[History] = ()):
        # On the processor also after training on a GPU, so that it answers with the same bits once loaded;
        # in double precision, so that a row's answer does not depend on the rows beside it.
        self.network = network.cpu().double().eval()
        self.history = list(history)

    def _predict(self, values: Floats, mask: NDArray) -> Floats:
        def answer(first: int) -> Tensor:
            chunk = slice(first, first + CHUNK)
            with torch.no_grad():
                return self.network(
                    torch.as_tensor(values[chunk], dtype=torch.float64),
                    torch.as_tensor(mask[chunk], dtype=torch.float64),
                )

        firsts = range(0, max(1, len(values)), CHUNK)
        n_threads = torch.get_num_threads()
        # Chunks on plain threads, each with one of torch's: torch's own hang in a process that was forked.
        with torch_threads(1):
            if len(firsts) == 1 or n_threads == 1:
                return torch.cat([answer(first) for first in firsts]).numpy()
            with ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                return torch.cat(list(pool.map(answer, firsts))).numpy()

    def state(self) -> dict[str, Any]:
        return {
            "config": self.network.config,
            "parameters": {name: part.float().numpy() for name, part in self.network.state_dict().items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        # The parameters drawn here are replaced at once.
        with torch_randomness(np.random.default_rng(0)):
            network = cls.kind(**state["config"])
        network.load_state_dict({name: torch.tensor(part) for name, part in state["parameters"].items()})
        return cls(network)


class Trained(Protocol):
    """A method with the parameters that `train_network` reads."""

    name: ClassVar[str]
    batch_size: int
    max_epochs: int
    patience: int


def train_network(
    method: Trained,
    network: nn.Module,
    steps: Sequence[Step],
    rows: Rows,
    judges: Rows,
    task: Task,
    rng: Rng,
    progress: Progress,
) -> list[History]:
    """Run `steps` on batches of `rows` until predictions for `judges` have stopped getting better.

    Learning rates are cut on the way, and the network ends as it was at its best epoch. Small tables have
    smaller batches and more passes in an epoch, so that fifty rows are enough to get somewhere.
    """

    def row_loss(chunk: Rows) -> Tensor:
        return task.row_loss(network(chunk.values, chunk.mask), chunk.target)

    batch_size = min(method.batch_size, max(32, len(rows) // MIN_BATCHES))
    n_parameters = sum(parameter.numel() for parameter in network.parameters())
    stage = Stage(
        name=method.name,
        module=network,
        rows=rows,
        steps=steps,
        score=lambda: mean_loss(row_loss, judges),
        batch_size=batch_size,
        max_epochs=method.max_epochs,
        patience=method.patience,
        lr_reductions=LR_REDUCTIONS,
        min_batches=MIN_BATCHES,
        n_threads=1 if batch_size * n_parameters < SMALL_STEP else None,
    )
    return run_stages([stage], rng, progress)


def judged(train: MaskedData, valid: MaskedData, device: torch.device) -> tuple[Rows, Rows]:
    """Rows to learn from and rows to stop by, which are the same if there are none to spare."""
    rows = Rows.of(train, device)
    return rows, Rows.of(valid, device) if len(valid) else rows
