"""Which rows a model was fitted to, so that it can be adapted to other masks with the same rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, MaskedData
from stablemiss.stored import check_stored, stored_array
from stablemiss.tasks import Classification, Task


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training and validation rows among the rows that were passed to `fit`.

    Attributes
    ----------
    is_train, is_valid : (n_rows,) bool
        Rows of both kinds; rows of weight zero are of neither kind.
    digest : str
        Of the targets and weights of these rows, to recognise them.
    data : (MaskedData, MaskedData) or None
        The encoded training and validation rows, if they are kept.
    """

    is_train: Bools
    is_valid: Bools
    digest: str
    data: tuple[MaskedData, MaskedData] | None = None

    @classmethod
    def of(
        cls,
        n_rows: int,
        train: NDArray[np.int64],
        valid: NDArray[np.int64],
        data: tuple[MaskedData, MaskedData],
        keep_data: bool = False,
    ) -> Self:
        """Build from positions.

        Parameters
        ----------
        n_rows : int
            Number of rows that were passed to `fit`.
        train, valid : (n_train,) and (n_valid,) int
            Positions of the training and validation rows among them.
        data : (MaskedData, MaskedData)
            The encoded training and validation rows.
        keep_data : bool, default=False
            Whether to keep them.
        """
        is_train, is_valid = np.zeros((2, n_rows), dtype=bool)
        is_train[train], is_valid[valid] = True, True
        return cls(is_train, is_valid, digest_of(*data), data if keep_data else None)

    def state(self) -> dict[str, Any]:
        """Arrays and strings from which `from_state` builds an equal object."""
        return {
            "n_rows": len(self.is_train),
            "is_train": np.packbits(self.is_train),
            "is_valid": np.packbits(self.is_valid),
            "digest": self.digest,
            "data": None
            if self.data is None
            else [
                {"values": rows.values, "mask": rows.mask, "target": rows.target, "weight": rows.weight}
                for rows in self.data
            ],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], groups: NDArray[np.int64], task: Task) -> Self:
        """Build from the result of `state`; raises ValueError if it is invalid."""
        n_rows, digest = state["n_rows"], state["digest"]
        check_stored(isinstance(n_rows, int) and n_rows > 0, "n_rows must be a positive number")
        check_stored(isinstance(digest, str), "digest must be text")
        n_bytes = -(-n_rows // 8)
        is_train, is_valid = (
            np.unpackbits(stored_array(state, name, (n_bytes,), np.uint8), count=n_rows).astype(bool)
            for name in ("is_train", "is_valid")
        )
        check_stored(bool(is_train.any() and is_valid.any()), "there must be rows of both kinds")
        data = state["data"]
        if data is not None:
            check_stored(isinstance(data, list) and len(data) == 2, "data must be two tables")
            train, valid = (_table_from(one, groups, task) for one in data)
            n_rows_of = (int(is_train.sum()), int(is_valid.sum()))
            check_stored((len(train), len(valid)) == n_rows_of, "data must have the rows of both kinds")
            data = (train, valid)
        return cls(is_train, is_valid, digest, data)


def digest_of(train: MaskedData, valid: MaskedData) -> str:
    """A short digest of the targets and weights."""
    digest = hashlib.sha256()
    for rows in (train, valid):
        digest.update(np.ascontiguousarray(rows.target).tobytes())
        # Weights are scaled to mean one, which may round differently.
        digest.update(np.ascontiguousarray(rows.weight.astype(np.float32)).tobytes())
    return digest.hexdigest()[:16]


def _table_from(state: Any, groups: NDArray[np.int64], task: Task) -> MaskedData:
    check_stored(isinstance(state, dict), "data must be two tables")
    values = stored_array(state, "values", (None, len(groups)))
    n = len(values)
    mask = stored_array(state, "mask", (n, len(groups)), bool)
    weight = stored_array(state, "weight", (n,), lowest=0.0)
    if isinstance(task, Classification):
        target = stored_array(state, "target", (n,), np.int64, lowest=0, highest=task.d_output - 1)
    else:
        target = stored_array(state, "target", (n, task.d_output))
    check_stored(not values[~mask].any(), "values must be zero where they are missing")
    same_as_first = mask == mask[:, np.searchsorted(groups, groups)]
    check_stored(bool(same_as_first.all()), "columns of one group must be missing together")
    check_stored(bool(weight.any()), "weights must not all be zero")
    return MaskedData(values, mask, target, weight, groups)
