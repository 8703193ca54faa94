"""CRLR: logistic regression with row weights, learned jointly, that balance the other columns of each column.

Shen, Cui, Kuang, Li and Chen, "Causally Regularized Learning with Agnostic Data Selection Bias", ACM
Multimedia 2018 (causally regularised logistic regression), for binary columns X and row weights W:

    min over W, β   Σ_i W_i log(1 + exp((1 − 2 y_i) x_iᵀβ))
    subject to      Σ_j ‖ X₋ⱼᵀ(W ⊙ Xⱼ) / (WᵀXⱼ)  −  X₋ⱼᵀ(W ⊙ (1 − Xⱼ)) / (Wᵀ(1 − Xⱼ)) ‖² ≤ λ₁,
                    ‖W‖² ≤ λ₂,  ‖β‖² ≤ λ₃,  ‖β‖₁ ≤ λ₄,  (Σ W − 1)² ≤ λ₅,  W ≥ 0

Deviations: columns of any kind, binarised at the median as treatments; several classes by softmax, and
squared loss for numbers; a stronger penalty on the weights, and more weight of the balance; no penalty on
‖β‖₁; the last step on β is exact; a random subset of the columns is balanced if there are many. Two more are
in `decorrelation/global_balance.py`. Each is explained at its DEVIATION comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor, nn

from stablemiss.base.linear import LinearPredictor, design, draw_columns, regress
from stablemiss.base.method import Method, Predictor
from stablemiss.base.search_space import Range, Space
from stablemiss.checks import check_integer, check_number
from stablemiss.data import MaskedData, centre_and_scale
from stablemiss.decorrelation.balancing import SquaredWeights
from stablemiss.decorrelation.global_balance import BalancedModel, GlobalBalance, JointBalancer
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task
from stablemiss.training import Rows, to_device


class BalancedRegression(BalancedModel):
    """A linear predictor of standardised columns, and weights that balance these columns.

    Parameters
    ----------
    rows, validation : Rows
        Rows whose values are complete standardised columns.
    task : Task
        Defines the loss.
    balance : GlobalBalance
        Of the training rows.
    ridge : float
        Penalty on squared coefficients.
    """

    def __init__(self, rows: Rows, validation: Rows, task: Task, balance: GlobalBalance, ridge: float):
        super().__init__()
        self.rows, self.validation = rows, validation
        self.task, self.balance, self.ridge = task, balance, ridge
        self.weights = SquaredWeights(rows.weight)
        # Starts with the prediction zero, the mean.
        self.coefficients = nn.Parameter(rows.values.new_zeros(rows.values.shape[1], task.d_output))
        self.intercept = nn.Parameter(rows.values.new_zeros(task.d_output))

    def loss(self, weight: Tensor) -> Tensor:
        return (weight * self._losses(self.rows)).mean() + self._shrinkage()

    def validation_loss(self) -> Tensor:
        share = self.validation.weight / self.validation.weight.sum()
        return (share * self._losses(self.validation)).sum() + self._shrinkage()

    def imbalance(self, weight: Tensor) -> Tensor:
        return self.balance.imbalance(weight)

    def _losses(self, rows: Rows) -> Tensor:
        return self.task.row_loss(rows.values @ self.coefficients + self.intercept, rows.target)

    def _shrinkage(self) -> Tensor:
        return self.ridge * self.coefficients.square().sum()


class CRLR(Method):
    """Linear regression of mean-imputed columns, with weights that balance the others with each column.

    Each column in turn is a treatment, and the weights give the rows with high and with low values of it the
    same means of all other columns. A coefficient then reflects the effect of its own column, as in a
    randomised experiment, instead of the effects of columns that happen to go with it in the training rows.

    Parameters
    ----------
    balance : float, default=1.0
        λ₁, the weight of the imbalance, a sum over pairs of columns, relative to the loss of a row. A larger
        value balances better and leaves a smaller effective sample size.
    penalty : float, default=10.0
        Penalty on the mean squared weight. A larger value makes the weights more equal and leaves more
        imbalance. If it is not larger than the losses of single rows, rows that are predicted badly lose
        their weight, because the weights are learned jointly with the regression. The published λ₂ is n times
        this value.
    max_columns : int, default=128
        Maximum number of columns that are balanced. If there are more, a random subset is drawn; the
        regression uses all. A larger value covers more pairs; the cost grows with its square, and the
        effective sample size falls.
    max_steps : int, default=1000
        Maximum number of steps on weights and coefficients, each on all rows. A larger value gets closer to
        the optimum; learning ends earlier when the objective stops falling.
    learning_rate : float, default=0.05
        Initial learning rate of the coefficients, lowered once. A larger value learns faster and less
        reliably.
    ridge : float, default=1e-6
        λ₃, the penalty on the squared coefficients of standardised columns. A larger value shrinks them
        towards zero. The last step of a classification uses scikit-learn's penalty (``C=1``) instead.
    device : str, default="auto"
        "cpu", "cuda" or "auto" (a GPU if there is one), for learning the weights.

    See Also
    --------
    DGBR : The same balance for the code of an auto-encoder.
    DWR : Weights under which columns are uncorrelated, learned before the regression.
    OLS : The same regression without fitted weights.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + X[:, 1]
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=CRLR(), random_state=0).fit(X, y)
    >>> model.predict([[1.0, 1.0], [np.nan, 1.0]]).round().tolist()
    [2.0, 1.0]
    """

    name: ClassVar[str] = "crlr"
    predictor_class: ClassVar[type[Predictor]] = LinearPredictor
    space: ClassVar[Space] = {
        "balance": Range(0.01, 100.0, log=True),
        "penalty": Range(0.1, 100.0, log=True),
        "ridge": Range(1e-6, 1.0, log=True),
    }
    brief: ClassVar[Mapping[str, Any]] = {"max_steps": 60}

    # DEVIATION: penalty=10, in the authors' demo 1 / n, because with so small a penalty all rows that are not
    # predicted nearly perfectly lose their weight; their demo has labels without noise.
    # DEVIATION: balance=1, in the authors' demo 0.1, because with a larger penalty the weights would hardly
    # balance anything.
    def __init__(
        self,
        balance: float = 1.0,
        penalty: float = 10.0,
        max_columns: int = 128,
        max_steps: int = 1000,
        learning_rate: float = 0.05,
        ridge: float = 1e-6,
        device: str = "auto",
    ):
        self.balance = balance
        self.penalty = penalty
        self.max_columns = max_columns
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.ridge = ridge
        self.device = device

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> LinearPredictor:
        check_integer(self, max_columns=2)
        check_number(self, ridge="[0, 1e6]")
        balancer = JointBalancer(self.balance, self.penalty, self.max_steps, self.learning_rate)
        device = to_device(self.device)
        means = train.column_means()
        inputs = design(train.values, train.mask, means)
        # The mean of an imputed column is its mean before, so the centre is zero.
        _, scale = centre_and_scale(inputs, train.weight)
        table = inputs / scale
        # DEVIATION: columns of any kind, which are treatments above their median and confounders as they are,
        # because few tables have only binary columns.
        # DEVIATION: a subset if there are many columns, because cost and imbalance grow with the square of
        # their number, and with a fixed penalty few rows would carry all the weight.
        columns, groups = draw_columns(table, train.groups, self.max_columns, rng)
        rows = Rows.of(replace(train, values=table), device)
        checked = valid if len(valid) else train
        valid_table = design(checked.values, checked.mask, means) / scale
        validation = Rows.of(replace(checked, values=valid_table), device)
        # DEVIATION: the loss is that of the task: softmax for several classes, squares for numbers, because
        # the paper has two classes only.
        model = BalancedRegression(rows, validation, task, GlobalBalance(columns, groups, device), self.ridge)
        n_operations = len(train) * (train.n_columns * task.d_output + columns.shape[1] ** 2)
        weight, _ = balancer.learn(model, n_operations, rng, progress)
        # DEVIATION: the last step on β is exact and has no penalty on ‖β‖₁, because all methods with row
        # weights then share the same regression and differ only in their weights.
        coefficients, intercept = regress(table, train.target, weight, task, self.ridge)
        return LinearPredictor(means, coefficients / scale[:, None], intercept, use_mask=False, weight=weight)
