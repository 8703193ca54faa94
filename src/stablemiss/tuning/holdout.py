"""Hold-out validation of a trial: fit on the training rows, compute the loss on the validation rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from stablemiss.data import Floats
from stablemiss.encoding import is_array, read_table
from stablemiss.encoding.table import Table, missing_entries
from stablemiss.estimators.missing import MethodByNameEstimator
from stablemiss.estimators.rows import read_labels, read_numbers, read_weight, split_rows
from stablemiss.missingness import Mechanism
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class Subset:
    """Training or validation rows.

    Attributes
    ----------
    rows : (n, d) float64 or object
        Features; NaN or None where missing.
    target : (n,) or (n, d_output)
        Target in its original units.
    weight : (n,) float64
        Sample weights, all positive.
    """

    rows: NDArray
    target: NDArray
    weight: Floats


@dataclass(frozen=True, eq=False)
class HoldoutSplit:
    """Training and validation rows, the same for every trial.

    Attributes
    ----------
    train, validation : Subset
        The rows.
    seed : int
        Random state of every fit.
    """

    train: Subset
    validation: Subset
    seed: int

    @classmethod
    def of(
        cls,
        estimator: MethodByNameEstimator,
        X: Any,
        y: Any,
        sample_weight: Any,
        holdout_fraction: float,
        test_mechanism: Mechanism | None,
        seed: int,
    ) -> Self:
        """Split a table, stratified by class, and apply `test_mechanism` to the validation rows."""
        if is_array(X) or is_array(y):
            raise ValueError(
                "tune reads tables, but rows of X or y are arrays, such as images: search with "
                "scikit-learn's GridSearchCV and its default score instead, as in "
                "GridSearchCV(StableMissRegressor(), {'architecture': [CNN(), CNN(kernel=5)]})."
            )
        table = read_table(X)
        is_classification = is_classifier(estimator)
        target = read_labels(y, table.n_rows) if is_classification else read_numbers(y, table.n_rows)
        weight = read_weight(sample_weight, table.n_rows)
        used = np.flatnonzero(weight > 0)
        table, target, weight = table.rows(used), target[used], weight[used]
        if len(used) < 3:
            raise ValueError(
                f"Tuning needs at least 3 rows, for training, early stopping and validation; got {len(used)}."
            )
        rng = np.random.default_rng(seed)
        train, validation = split_rows(
            target if is_classification else np.zeros(len(used)), holdout_fraction, rng
        )
        rows = _to_array(table)
        validation_rows = rows[validation]
        if test_mechanism is not None:
            validation_rows = _hide(table.rows(validation), test_mechanism, rng)
        return cls(
            Subset(rows[train], target[train], weight[train]),
            Subset(validation_rows, target[validation], weight[validation]),
            seed,
        )

    def loss(self, estimator: MethodByNameEstimator) -> float:
        """Fit a copy of the estimator to the training rows and return its loss on the validation rows.

        The loss is the root mean squared error in standard deviations of the target, or the log loss.
        """
        # No warning about unseen missingness, because a test mechanism causes it on purpose.
        model = clone(estimator).set_params(random_state=self.seed, on_unseen_missing="ignore", verbose=False)
        model.fit(self.train.rows, self.train.target, self.train.weight)
        task, validation = model.task_, self.validation
        target = task.encode(validation.target)
        if is_classifier(model):
            outputs = np.log(np.maximum(model.predict_proba(validation.rows), np.finfo(np.float64).tiny))
            return task.loss(outputs, target, validation.weight)
        outputs = task.encode(model.predict(validation.rows))
        return float(np.sqrt(task.loss(outputs, target, validation.weight)))

    def fingerprint(self) -> str:
        """Digest of the rows, targets, weights and masks of the split."""
        digest = hashlib.sha256()
        for subset in (self.train, self.validation):
            for array in (subset.rows, subset.target, subset.weight):
                digest.update(f"{array.shape} {array.dtype.kind}".encode())
                is_text = array.dtype.kind in "OU"
                digest.update(
                    repr(array.tolist()).encode() if is_text else np.ascontiguousarray(array).tobytes()
                )
        return digest.hexdigest()[:12]


def _to_array(table: Table) -> NDArray:
    """All columns as one array, numeric if all columns are numeric."""
    is_numeric = all(column.dtype.kind == "f" for column in table.columns)
    return np.stack([column.astype(np.float64 if is_numeric else object) for column in table.columns], axis=1)


def _hide(table: Table, mechanism: Mechanism, rng: Rng) -> NDArray:
    """Return the rows with values hidden by a mechanism.

    The mechanism sees every category and every date as the number 0.
    """
    numbers = np.stack(
        [
            column if column.dtype.kind == "f" else np.where(missing_entries(column), np.nan, 0.0)
            for column in table.columns
        ],
        axis=1,
    )
    rows = _to_array(table)
    # NaN means missing in columns of strings and dates too.
    rows[~mechanism.draw(numbers, rng)] = np.nan
    return rows
