"""Rows of a file in the form in which a fitted model takes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stablemiss.cli.columns import Remarks, TextRules, is_text, to_text, to_training_types
from stablemiss.cli.entries import MISSING, null_markers, to_numbers
from stablemiss.cli.reading import ReadOptions, TableSource, open_table
from stablemiss.cli.training import check_column, text_rules

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

    from stablemiss.data import Floats
    from stablemiss.estimators.base import MissingEstimator


class Batch(NamedTuple):
    """Some rows of a file.

    Attributes
    ----------
    table : pyarrow.Table
        All columns as they are in the file.
    features : pyarrow.Table
        The columns that the model was fitted with, with the types that they had in training.
    n_missing : (n,)
        Number of columns that are missing in each row, without those that the model ignores.
    target : (n,) float64 or None
        The target, or the position of the class in `classes_`; NaN where it is missing or an unknown class.
        None if the file does not have it.
    """

    table: pyarrow.Table
    features: pyarrow.Table
    n_missing: Floats
    target: Floats | None


class NewRows:
    """Rows for a fitted model, from `open_new_rows`.

    Parameters
    ----------
    source : TableSource
        The table.
    rules : TextRules
        How its text is read.
    estimator : MissingEstimator
        The fitted model.
    target : str or None
        The column that it predicts, if that is known.

    Attributes
    ----------
    remarks : Remarks
        What was noticed about the columns so far.
    n_unknown_classes : int
        Number of rows so far whose target is a class that the model does not know.
    """

    def __init__(
        self, source: TableSource, rules: TextRules, estimator: MissingEstimator, target: str | None
    ):
        self.source = source
        self.target = target if target in source.column_names else None
        self.remarks = Remarks()
        self.n_unknown_classes = 0
        self._rules = rules
        self._estimator = estimator
        names, kinds = estimator.encoder_.names, estimator.encoder_.kinds
        if names is None:
            # The model was fitted to an array, so columns are matched by position.
            names = source.column_names
        self._features = [name for name in source.column_names if name in set(names)]
        if not self._features:
            raise ValueError(
                f"{source.name} has none of the columns that the model was fitted with: {', '.join(names)}."
            )
        kind_of = dict(zip(names, kinds, strict=False))
        self._names = {
            kind: [name for name in self._features if kind_of.get(name) == kind]
            for kind in ("numbers", "categories", "dates")
        }
        self._n_used = sum(kind in self._names for kind in kinds)

    def batches(self) -> Iterator[Batch]:
        """The rows in batches. They can be read once."""
        import numpy

        for table in self.source.batches():
            features = to_training_types(table.select(self._features), self._names, self._rules, self.remarks)
            # Columns that the model ignores do not count.
            used = [name for names in self._names.values() for name in names]
            n_missing = numpy.full(table.num_rows, float(self._n_used - len(used)))
            for name in used:
                n_missing += features.column(name).is_null(nan_is_null=True).to_numpy()
            target = None if self.target is None else self._read_target(table.column(self.target))
            yield Batch(table, features, n_missing, target)

    def _read_target(self, column: pyarrow.ChunkedArray) -> Floats:
        """The target as in `Batch`. Other entries than numbers or known classes are NaN."""
        import numpy
        import pyarrow
        from pyarrow import compute

        classes = getattr(self._estimator, "classes_", None)
        if is_text(column):
            column, _ = null_markers(column, (*MISSING, *self._rules.missing_values))
        if classes is None or classes.dtype.kind in "iuf":
            numbers = to_numbers(column, self._rules.decimal) if is_text(column) else column
            column = numbers.cast(pyarrow.float64())
        else:
            column = to_text(column)
        if classes is not None:
            labels = pyarrow.array(classes.tolist())
            if classes.dtype.kind == "b":
                labels, column = labels.cast(pyarrow.string()), compute.utf8_lower(column)
            positions = compute.index_in(column, value_set=labels.cast(column.type))
            self.n_unknown_classes += positions.null_count - column.null_count
            column = positions
        return numpy.asarray(column.cast(pyarrow.float64()).to_numpy(), dtype=numpy.float64)


@contextmanager
def open_new_rows(
    path: Path, options: ReadOptions, estimator: MissingEstimator, target: str | None
) -> Iterator[NewRows]:
    """Open a table whose rows are to be predicted.

    Parameters
    ----------
    path : Path
        File name, or "-" for standard input.
    options : ReadOptions
        How to read it, in addition to how the training table was read.
    estimator : MissingEstimator
        The fitted model.
    target : str or None
        The column that it predicts; None if that is not known.
    """
    options = model_options(options, estimator)
    with open_table(path, options) as source:
        yield NewRows(source, text_rules(path, options, source.dialect), estimator, target)


def model_options(options: ReadOptions, estimator: MissingEstimator) -> ReadOptions:
    """How to read a table for a model: as its training table was read, and by further options."""
    if estimator.read_options_ is None:
        return options
    return replace(
        options,
        missing_values=(*estimator.read_options_["missing_values"], *options.missing_values),
        usual_decimal=estimator.read_options_["decimal"],
    )


def read_all_rows(
    path: Path, options: ReadOptions, estimator: MissingEstimator, target: str | None
) -> tuple[pyarrow.Table, NDArray[Any] | None]:
    """The columns that a model uses, and the targets of the rows if `target` is given.

    Targets that are missing, or of unknown classes, are None or NaN.

    Parameters
    ----------
    path, options, estimator
        As in `open_new_rows`.
    target : str or None
        Column with the targets.
    """
    import numpy as np
    import pyarrow

    with open_new_rows(path, options, estimator, target) as rows:
        if target is not None:
            check_column(rows.source.column_names, target, rows.source.name)
        batches = list(rows.batches())
    features = pyarrow.concat_tables([batch.features for batch in batches], promote_options="permissive")
    if target is None:
        return features, None
    y = np.concatenate([batch.target for batch in batches if batch.target is not None])
    if not np.isfinite(y).any():
        raise ValueError(f"Column {target!r} in {rows.source.name} has no known values to compare with.")
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return features, y
    labels = np.full(len(y), None, dtype=object)
    labels[np.isfinite(y)] = classes[y[np.isfinite(y)].astype(int)]
    return features, labels
