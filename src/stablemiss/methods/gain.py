"""GAIN: a generator completes rows so that a discriminator cannot tell which values were observed.

Yoon, Jordon and van der Schaar, *GAIN: Missing data imputation using generative adversarial nets*, 2018.

    imputation     x̄ = G(x ⊙ m + z ⊙ (1 − m), m),   x̂ = x ⊙ m + x̄ ⊙ (1 − m),   z noise
    hint           h = b ⊙ m + ½ (1 − b)  in the paper,   h = b ⊙ m  in its code,   b ∈ {0, 1}^d random
    discriminator  min  −E Σ_i [m_i log D(x̂, h)_i + (1 − m_i) log(1 − D(x̂, h)_i)]
    generator      min  −E Σ_i (1 − m_i) log D(x̂, h)_i + α · ‖m ⊙ (x − x̄)‖²

The sums are over the cells with b_i = 0 in the paper and over all cells in its code. For a perfect imputer x̂
says nothing about the mask, and the best discriminator is P(m_i = 1 | h): the other bits of the mask with the
paper's hint.

The target is one more column. A prediction hides it and averages its imputed value over draws of z.

Deviations: standardised columns with a linear output; another default of α; wider layers; one bit of the hint
for all cells that are missing together; the target is hidden in half of the rows; it has as much weight as
all columns together, also where it is hidden; early stopping on validation rows. Each is explained at its
DEVIATION comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from stablemiss.base.method import Method, Predictor
from stablemiss.base.network import (
    NetworkPredictor,
    cells_per_row,
    train_and_validation_rows,
    train_network,
)
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import MAX_DRAWS, check_choice, check_integer, check_number, check_widths
from stablemiss.data import MaskedData
from stablemiss.networks import (
    MLP,
    draw_target_mask,
    init_target_outputs_to_zero,
    mean_over_draws,
    predict_in_chunks,
    target_columns,
)
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task
from stablemiss.torch_state import torch_randomness
from stablemiss.training import Rows, Step, to_device

Hint = Literal["paper", "code"]


class GAINNet(nn.Module):
    """Generator and discriminator. Predictions use only the generator.

    Parameters
    ----------
    d, d_output : int
        Number of feature and target columns.
    is_classes : bool
        Whether targets are classes, imputed as log-odds.
    hidden : sequence of int
        Widths of the hidden layers of generator and discriminator.
    n_draws : int
        Number of draws of the noise used for a prediction; the same draws for all rows.

    Shape
    -----
    values (n, d), mask (n, d) → outputs (n, d_output)
    """

    draws: Tensor

    def __init__(self, d: int, d_output: int, is_classes: bool, hidden: Sequence[int], n_draws: int):
        super().__init__()
        self.config = {
            "d": d,
            "d_output": d_output,
            "is_classes": is_classes,
            "hidden": tuple(hidden),
            "n_draws": n_draws,
        }
        self.d, self.d_output, self.is_classes = d, d_output, is_classes
        width = d + d_output
        # DEVIATION: a linear output, published a sigmoid of columns scaled to [0, 1], because new values may
        # lie outside the range of the training rows.
        self.generator = MLP([2 * width, *hidden, width])
        self.discriminator = MLP([2 * width, *hidden, width])
        init_target_outputs_to_zero(self.generator, slice(d, width))
        # Set by `scale_noise` after construction, and read from the file by a loaded network.
        self.register_buffer("draws", torch.rand(n_draws, width))

    def scale_noise(self, noise: float) -> None:
        """Change the noise of predictions from [0, 1] to [0, noise]."""
        self.draws.mul_(noise)

    def impute(self, columns: Tensor, mask: Tensor, noise: Tensor) -> Tensor:
        """x̄, the generator's value of each cell, observed or not, (…, d + d_output); classes as log-odds."""
        return self.generator(torch.cat([columns * mask + noise * (1 - mask), mask], dim=-1))

    def complete(self, columns: Tensor, mask: Tensor, imputed: Tensor) -> Tensor:
        """x̂, observed columns completed by imputed ones, (n, d + d_output); classes as probabilities."""
        if self.is_classes:
            imputed = torch.cat([imputed[:, : self.d], imputed[:, self.d :].softmax(dim=1)], dim=1)
        return columns * mask + imputed * (1 - mask)

    def discriminate(self, completed: Tensor, hint: Tensor) -> Tensor:
        """Log-odds that a cell was observed, (n, d + d_output)."""
        return self.discriminator(torch.cat([completed, hint], dim=1))

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        return predict_in_chunks(
            self._mean_target, values, mask, len(self.draws) * 2 * (self.d + self.d_output)
        )

    def _mean_target(self, values: Tensor, mask: Tensor) -> Tensor:
        shape = (values.shape[0], len(self.draws), -1)
        no_target = values.new_zeros(values.shape[0], self.d_output)
        columns, mask = (
            torch.cat([part, no_target], dim=1)[:, None].expand(shape) for part in (values, mask)
        )
        targets = self.impute(columns, mask, self.draws)[..., self.d :]
        return mean_over_draws(targets, values.new_full(shape[:2], 1 / shape[1]), self.is_classes)


class GAINPredictor(NetworkPredictor):
    """A trained `GAINNet`."""

    network_class = GAINNet


class GAIN(Method):
    """A generator trained against a discriminator of imputed values, with the target as one more column.

    Parameters
    ----------
    hidden : sequence of int, default=(128, 128)
        Widths of the hidden layers of generator and discriminator. Wider layers fit more and overfit sooner.
    hint : {"paper", "code"}, default="code"
        What the discriminator is told about the mask. "paper" shows it all bits except one of each row, marks
        this one and asks only for it. "code" shows which of the values are certainly observed, for a random
        part of them, and asks for all bits. The cells of a category, and those of the target, count as one.
    hint_rate : float, default=0.9
        Share of the observed values that the hint "code" reveals. A larger value makes the task of the
        discriminator easier. The hint "paper" does not use it.
    alpha : float, default=10.0
        α, the weight of the reconstruction error of observed values and target relative to the adversarial
        loss. A larger value predicts better, a smaller value makes imputed values more realistic.
    noise : float, default=0.01
        Noise between zero and this replaces missing values, in standard deviations of a column. A larger
        value makes imputations more random, and needs more draws.
    n_draws : int, default=10
        Number of draws of the noise in prediction, at most 10,000. A larger value is less noisy and slower.
    learning_rate : float, default=1e-3
        A larger value trains faster and less reliably.
    batch_size : int, default=128
        Maximum number of rows in a step. A larger value gives faster epochs with fewer, less noisy steps.
    max_epochs : int, default=200
        Maximum number of epochs.
    patience : int or None, default=8
        Epochs without a better validation loss after which the learning rate is lowered, at most three times;
        then training ends. A larger value finds late improvements and takes longer. None turns early stopping
        off: all epochs are run, and the network of the last one is kept.
    device : str, default="auto"
        "cpu", "cuda" or "auto" (a GPU if there is one), for training.

    See Also
    --------
    PBiGAN : Adversarially trained encoder and decoder.
    MIWAE : Importance-weighted bound with a Student-t decoder.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0].copy()
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=GAIN(max_epochs=20), random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[1.0, 0.0], [None, 0.0]]) - [1.0, 0.0]).max() < 0.6)
    True
    """

    name: ClassVar[str] = "gain"
    predictor_class: ClassVar[type[Predictor]] = GAINPredictor
    reads_arrays: ClassVar[bool] = True
    space: ClassVar[Space] = {
        "hidden": Choice((64, 64), (128, 128), (256, 256)),
        "hint": Choice("paper", "code"),
        "alpha": Range(0.1, 100.0, log=True),
        "learning_rate": Range(1e-4, 1e-2, log=True),
    }

    brief: ClassVar[Mapping[str, Any]] = {
        "hidden": (32,),
        "n_draws": 2,
        "learning_rate": 2e-2,
        "max_epochs": 2,
    }

    # DEVIATION: layers of 128 units, published as many as columns, because a table of few columns then has a
    # network that hardly fits anything.
    # DEVIATION: alpha=10, in the published code 100, because errors of standardised columns are larger than
    # those of columns scaled to [0, 1].
    def __init__(
        self,
        hidden: Sequence[int] = (128, 128),
        hint: Hint = "code",
        hint_rate: float = 0.9,
        alpha: float = 10.0,
        noise: float = 0.01,
        n_draws: int = 10,
        learning_rate: float = 1e-3,
        batch_size: int = 128,
        max_epochs: int = 200,
        patience: int | None = 8,
        device: str = "auto",
    ):
        self.hidden = hidden
        self.hint = hint
        self.hint_rate = hint_rate
        self.alpha = alpha
        self.noise = noise
        self.n_draws = n_draws
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.device = device

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> GAINPredictor:
        self._check()
        device = to_device(self.device)
        with torch_randomness(rng):
            network = GAINNet(
                d=train.n_columns,
                d_output=task.d_output,
                is_classes=isinstance(task, Classification),
                hidden=tuple(self.hidden),
                n_draws=self.n_draws,
            ).to(device)
        network.scale_noise(self.noise)
        rows, validation = train_and_validation_rows(train, valid, device)
        n_cells = cells_per_row(rows, train, task)
        # DEVIATION: the cells of a category, and those of the target, share a bit of the hint, because they
        # are missing together: each of them would tell the bit of the others.
        columns_of = np.unique(train.groups, return_inverse=True)[1]
        columns_of = np.append(columns_of, np.full(task.d_output, columns_of.max() + 1))
        groups = torch.as_tensor(columns_of, device=device)

        def impute(batch: Rows) -> tuple[Tensor, Tensor, Tensor]:
            """Completed rows x̂, the generator's values x̄ of all cells, and the mask."""
            targets = target_columns(batch.target, task.d_output)
            # DEVIATION: half of the targets are hidden from the generator, because in prediction all are.
            mask = torch.cat([batch.mask, draw_target_mask(targets, batch.target_mask)], dim=1)
            columns = torch.cat([batch.values, targets], dim=1)
            imputed = network.impute(columns, mask, self.noise * torch.rand_like(columns))
            return network.complete(columns, mask, imputed), imputed, mask

        def discriminator_loss(batch: Rows) -> Tensor:
            with torch.no_grad():
                completed, _, mask = impute(batch)
                hint, is_asked = draw_hint(mask, self.hint, self.hint_rate, groups)
            log_odds = network.discriminate(completed, hint)
            return (batch.weight * mask_loss(log_odds, mask, is_asked)).mean()

        def generator_loss(batch: Rows) -> Tensor:
            completed, imputed, mask = impute(batch)
            hint, is_asked = draw_hint(mask, self.hint, self.hint_rate, groups)
            log_odds = network.discriminate(completed, hint)
            # PAPER: −(1 − m) log D, to make the discriminator take imputed values for observed ones.
            adversarial = row_mean(-(1 - mask) * logsigmoid(log_odds), is_asked)
            columns, target = imputed[:, : train.n_columns], imputed[:, train.n_columns :]
            column_loss = row_mean((batch.values - columns).square(), batch.mask)
            # DEVIATION: the target has as much weight as all columns together, even if it is hidden from the
            # generator, because the generator would otherwise copy it where it is shown and hardly predict it
            # from the other columns. Of arrays, both are per cell.
            target_loss = task.row_loss(target, batch.target, batch.target_mask) / n_cells
            return (batch.weight * (adversarial + self.alpha * (column_loss + target_loss))).mean()

        adam = partial(torch.optim.Adam, lr=self.learning_rate)
        steps = [
            Step(discriminator_loss, list(network.discriminator.parameters()), adam),
            Step(generator_loss, list(network.generator.parameters()), adam),
        ]
        # DEVIATION: early stopping on predictions of validation rows, published 10,000 steps, because
        # predictions are the goal.
        history = train_network(self, network, steps, rows, validation, task, rng, progress)
        return GAINPredictor(network, history)

    def _check(self) -> None:
        check_integer(self, n_draws=(1, MAX_DRAWS), batch_size=1, max_epochs=1)
        check_integer(self, patience=1, unless=None)
        check_choice(self, hint=get_args(Hint))
        check_number(self, hint_rate="[0, 1]", alpha="[0, 1e6]", noise="[0, 1e3]", learning_rate="(0, 1]")
        check_widths(self, "hidden")


def draw_hint(mask: Tensor, kind: Hint, rate: float, groups: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """What the discriminator is told about a mask, and which of its bits it is asked for, both (n, d).

    Parameters
    ----------
    mask : (n, d)
        1 = observed.
    kind : {"paper", "code"}
        As in `GAIN`.
    rate : float
        Share of the observed cells that "code" reveals.
    groups : (d,) int, default=None
        Cells of one group are shown or hidden together; numbered from 0. None gives every cell its own group.

    Returns
    -------
    hint : (n, d)
        "paper": the mask, with ½ at a random group of each row. "code": 1 = certainly observed, 0 = unknown.
    is_asked : (n, d)
        1 = the cell counts in the loss.

    Examples
    --------
    >>> hint, is_asked = draw_hint(torch.ones(1, 3), "paper", 0.9)
    >>> hint.sort().values, is_asked.sum()
    (tensor([[0.5000, 1.0000, 1.0000]]), tensor(1.))
    """
    if groups is None:
        groups = torch.arange(mask.shape[1], device=mask.device)
    n_groups = int(groups.max()) + 1
    if kind == "code":
        is_shown = torch.rand(len(mask), n_groups, device=mask.device) < rate
        return mask * is_shown[:, groups], torch.ones_like(mask)
    # PAPER: b is zero at one uniformly drawn cell, h = b ⊙ m + ½ (1 − b), and only cells with b = 0 count.
    asked = torch.randint(n_groups, (len(mask), 1), device=mask.device)
    is_asked = (groups == asked).to(mask)
    return mask * (1 - is_asked) + 0.5 * is_asked, is_asked


def mask_loss(log_odds: Tensor, mask: Tensor, is_asked: Tensor) -> Tensor:
    """Cross-entropy (n,) of each row: mean over the cells that the discriminator is asked for.

    Parameters
    ----------
    log_odds : (n, d)
        Output of the discriminator.
    mask, is_asked : (n, d)
        1 = observed; 1 = the cell counts.
    """
    return row_mean(binary_cross_entropy_with_logits(log_odds, mask, reduction="none"), is_asked)


def row_mean(cells: Tensor, counts: Tensor) -> Tensor:
    """Mean (n,) of the cells (n, d) of each row for which `counts` is 1; zero if there are none."""
    return (cells * counts).sum(dim=1) / counts.sum(dim=1).clamp_min(1.0)
