"""Predictor and training of methods with a neural network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Literal, Protocol, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stablemiss.base.method import Predictor
from stablemiss.data import Floats, MaskedData
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.stored import check_stored, stored_array
from stablemiss.tasks import Classification, Task
from stablemiss.torch_state import AllocationLimit, torch_randomness, torch_threads
from stablemiss.training import (
    CHUNK_SIZE,
    MIN_OPS_FOR_THREADS,
    History,
    Rows,
    Stage,
    Step,
    mean_loss,
    one_cycle,
    run_stages,
)

# Minimum number of batches per epoch. It determines the batch size and the number of passes in small tables.
MIN_BATCHES = 16
# Elements that the construction of a loaded network may need, in addition to twice those in the file.
SPARE_ELEMENTS = 1000
# Minimum batch size in small tables.
MIN_BATCH_SIZE = 32
# Number of times the learning rate is lowered before training ends. With three reductions the validation loss
# of StableMiss on Gaussian-Mix was 2 to 4% lower.
LR_REDUCTIONS = 3


class NetworkPredictor(Predictor):
    """A trained network on the CPU in double precision.

    Parameters
    ----------
    network : nn.Module
        Maps values and mask to outputs; its `config` holds its constructor arguments. Random numbers used in
        predictions must be buffers, so that predictions are deterministic. Its attribute `rows_at_once`, if
        it has one, limits the number of rows that it gets at a time.
    history : sequence of History, default=()
        Training history; empty for a loaded predictor.
    """

    # Class of the network, from which a stored predictor is rebuilt.
    network_class: ClassVar[type[nn.Module]]
    # Of a method with several: name in model files → class. No other class is built from a file.
    network_classes: ClassVar[Mapping[str, type[nn.Module]]] = {}

    def __init__(self, network: nn.Module, history: Sequence[History] = ()):
        # On the CPU even after training on a GPU, so that predictions after loading are identical. In double
        # precision, so that a prediction does not depend through rounding on the other rows of its batch.
        self.network = network.cpu().double().eval()
        self.history = list(history)

    def _predict(self, values: Floats, mask: NDArray) -> Floats:
        chunk_size = rows_at_once(self.network)

        def predict_chunk(first: int) -> Tensor:
            chunk = slice(first, first + chunk_size)
            with torch.no_grad():
                return self.network(
                    torch.as_tensor(values[chunk], dtype=torch.float64),
                    torch.as_tensor(mask[chunk], dtype=torch.float64),
                )

        firsts = range(0, max(1, len(values)), chunk_size)
        n_threads = torch.get_num_threads()
        # Chunks run on Python threads, each with one torch thread: torch's own threads hang after a fork.
        with torch_threads(1):
            if len(firsts) == 1 or n_threads == 1:
                return torch.cat([predict_chunk(first) for first in firsts]).numpy()
            with ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                return torch.cat(list(pool.map(predict_chunk, firsts))).numpy()

    def state(self) -> dict[str, Any]:
        return {
            "config": self.network.config,
            "parameters": {name: value.float().numpy() for name, value in self.network.state_dict().items()},
            **({"network": type(self.network).__name__} if self.network_classes else {}),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        config, stored = state["config"], state["parameters"]
        for name, value in config.items():
            sizes = value if isinstance(value, tuple | list) else [value]
            is_valid = all(size is None or isinstance(size, int) for size in sizes)
            check_stored(is_valid, f"{name} must consist of integers")
        arrays = {
            name: stored_array(stored, name, np.shape(array), np.float32) for name, array in stored.items()
        }
        limit = AllocationLimit(2 * sum(array.size for array in arrays.values()) + SPARE_ELEMENTS)
        # Copies so small are faster without threads.
        with torch_threads(1):
            parameters = {name: torch.tensor(array) for name, array in arrays.items()}
            # The initial parameters drawn here are replaced by the stored ones.
            with torch_randomness(np.random.default_rng(0)), limit:
                network = cls._make_network(cls._network_class(state), config, parameters)
            # Raises an error unless all names and shapes agree.
            network.load_state_dict(parameters)
            return cls(network)

    @classmethod
    def _network_class(cls, state: dict[str, Any]) -> type[nn.Module]:
        """Class of the network in a stored state."""
        # Files of earlier versions do not have its name.
        name = state.get("network", cls.network_class.__name__)
        classes = {cls.network_class.__name__: cls.network_class, **cls.network_classes}
        check_stored(name in classes, "the network is unknown")
        return classes[name]

    @classmethod
    def _make_network(
        cls, network_class: type[nn.Module], config: dict[str, Any], parameters: dict[str, Tensor]
    ) -> nn.Module:
        """Build a network for the stored parameters, still with other ones."""
        return network_class(**config)


def rows_at_once(network: nn.Module) -> int:
    """Number of rows that a network can predict at a time: its attribute of this name, at most 1024.

    Examples
    --------
    >>> rows_at_once(nn.Linear(3, 1))
    1024
    """
    return min(CHUNK_SIZE, getattr(network, "rows_at_once", CHUNK_SIZE))


def operations_per_row(network: nn.Module) -> int:
    """Multiplications for one row: the network's attribute of this name, or one per parameter.

    Decides whether training uses several threads, which share the work of one layer at a time. A network
    whose layers are similar in size therefore names those of its largest layer.

    Examples
    --------
    >>> operations_per_row(nn.Linear(3, 1))
    4
    """
    n_parameters = sum(parameter.numel() for parameter in network.parameters())
    return getattr(network, "operations_per_row", n_parameters)


Schedule = Literal["adaptive", "one_cycle"]
SCHEDULES = get_args(Schedule)


class NetworkMethod(Protocol):
    """A method with the training parameters that `train_network` reads."""

    name: ClassVar[str]
    batch_size: int
    max_epochs: int
    patience: int | None


def train_network(
    method: NetworkMethod,
    network: nn.Module,
    steps: Sequence[Step],
    rows: Rows,
    validation: Rows,
    task: Task,
    rng: Rng,
    progress: Progress,
) -> list[History]:
    """Train a network with early stopping on the task loss of validation rows.

    This is the stopping rule of all methods with a network. After `patience` epochs without a lower
    validation loss the learning rate is lowered, at most three times; then training ends. The network keeps
    the parameters of the best epoch. Validation rows are used for nothing else.
    Small tables get smaller batches and several passes per epoch, so that training works with fifty rows.

    Parameters
    ----------
    method : NetworkMethod
        Its `batch_size`, `max_epochs` and `patience` are used; a patience of None turns early stopping off.
        If it has a `schedule`, "one_cycle" changes the learning rate over all epochs without early stopping.
    network : nn.Module
        Maps values and mask to outputs.
    steps : sequence of Step
        Optimisation steps to run on each batch of `rows`.
    rows, validation : Rows
        Training rows and validation rows.
    task : Task
        Defines the loss.
    rng : numpy Generator
    progress : Progress

    Returns
    -------
    list of History

    See Also
    --------
    train_and_validation_rows : Builds `rows` and `validation` from encoded data.
    """

    def row_loss(chunk: Rows) -> Tensor:
        return task.row_loss(network(chunk.values, chunk.mask), chunk.target, chunk.target_mask)

    is_one_cycle = getattr(method, "schedule", "adaptive") == "one_cycle"
    batch_size = min(method.batch_size, max(MIN_BATCH_SIZE, len(rows) // MIN_BATCHES))
    stage = Stage(
        name=method.name,
        module=network,
        rows=rows,
        steps=steps,
        score=lambda: mean_loss(row_loss, validation, rows_at_once(network)),
        batch_size=batch_size,
        max_epochs=method.max_epochs,
        patience=None if is_one_cycle else method.patience,
        schedule=one_cycle if is_one_cycle else None,
        lr_reductions=LR_REDUCTIONS,
        min_batches=MIN_BATCHES,
        n_threads=1 if batch_size * operations_per_row(network) < MIN_OPS_FOR_THREADS else None,
    )
    return run_stages([stage], rng, progress)


def train_and_validation_rows(
    train: MaskedData, valid: MaskedData, device: torch.device
) -> tuple[Rows, Rows]:
    """Training and validation rows on a device; without validation data, the training rows serve as both."""
    rows = Rows.of(train, device)
    return rows, Rows.of(valid, device) if len(valid) else rows


def cells_per_row(rows: Rows, train: MaskedData, task: Task) -> float:
    """Mean number of observed target cells of a row of arrays; 1 for a table, and for classes.

    The loss of arrays is divided by it, so that gradients do not grow with the size of an image, and the
    maximum of their norm means the same for all sizes.

    Parameters
    ----------
    rows, train : Rows, MaskedData
        The training rows, as tensors and as arrays.
    task : Task
    """
    if train.row_shape is None or isinstance(task, Classification):
        return 1.0
    return task.d_output * float(rows.observed_share().mean())
