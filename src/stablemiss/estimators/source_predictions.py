"""Predictions for rows that need not fit into memory: streamed, or by the workers of a Dask cluster."""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from stablemiss import __version__
from stablemiss.checks import check_bool, check_number, shown, to_list
from stablemiss.estimators.archive import FORMAT_VERSION, checksum, pack
from stablemiss.estimators.prediction_table import Predictions, Wanted
from stablemiss.progress import NullProgress, ProgressBar
from stablemiss.sources import Part, Source, find_client, is_dask, open_source
from stablemiss.text import count, quoted, rows_at
from stablemiss.writing import PREFIX, atomic_write

if TYPE_CHECKING:
    import pyarrow

# Describes what a folder of predictions was made from. Readers of Parquet folders ignore such names.
NOTES = "_predictions.json"
# Errors of the operating system that mean that there is no space left.
NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

# Kind of warning → the first of this kind, and the number of batches that had one.
Caught = dict[type[Warning], tuple[str, int]]


class SourcePredictions:
    """What estimators add for rows that need not fit into memory."""

    encoder_: Any
    verbose: bool

    def write_predictions(
        self,
        X: Any,
        folder: str | os.PathLike[str],
        *,
        coverage: float | None = None,
        probabilities: bool = False,
        explain: bool = False,
        keep: Sequence[str] = (),
        client: Any = None,
    ) -> int:
        """Predict rows that need not fit into memory, and write the predictions to a folder of Parquet files.

        There is one file for each row group of X, in the same order (part-00000.parquet, …), which is
        complete or not there at all. If it is interrupted, the same call continues with the files that are
        still missing. The columns are "prediction", with `coverage` "lower" and "upper", or "prediction_set"
        for classes, and with `probabilities` "probability of …".

        Parameters
        ----------
        X : path, pyarrow Dataset, polars LazyFrame or dask DataFrame
            A Parquet file, or a folder of such files. Columns are matched by name; others are ignored.
        folder : path
            Folder to write, not inside X. It is created, unless it contains the first files of the same
            predictions.
        coverage : float between 0 and 1, default=None
            Also write prediction intervals, or sets of classes, that contain the target with this
            probability. Raising it widens them. None writes neither.
        probabilities : bool, default=False
            Also write the probability of each class.
        explain : bool, default=False
            Also write the columns of `explain_missing`, such as the expected error.
        keep : sequence of str, default=()
            Columns of X to copy, such as an identifier.
        client : distributed.Client, default=None
            Workers of a Dask cluster that share the work and can read and write the same folders. None uses
            the current client for Dask data frames, and otherwise this process.

        Returns
        -------
        int
            Number of rows in the folder.

        Examples
        --------
        >>> import numpy as np, pyarrow, tempfile
        >>> from pathlib import Path
        >>> from pyarrow import parquet
        >>> from stablemiss import MissingRegressor
        >>> X = np.random.default_rng(0).normal(size=(60, 2))
        >>> table = pyarrow.table({"a": X[:, 0], "b": X[:, 1]})
        >>> model = MissingRegressor("ols", random_state=0).fit(table, X.sum(axis=1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parquet.write_table(table, f"{folder}/rows.parquet", row_group_size=25)
        ...     model.write_predictions(f"{folder}/rows.parquet", f"{folder}/predictions")
        ...     sorted(path.name for path in Path(folder, "predictions").glob("*.parquet"))
        60
        ['part-00000.parquet', 'part-00001.parquet', 'part-00002.parquet']
        """
        check_is_fitted(self)
        wanted = _wanted(self, coverage, probabilities, explain)
        kept = to_list(keep)
        if kept is None:
            raise ValueError(f"keep must be a list of column names; got {shown(keep)}.")
        if isinstance(X, str | os.PathLike) and Path(folder).resolve().is_relative_to(Path(X).resolve()):
            raise ValueError(
                f"The folder {folder} for the predictions is inside {X}, so that they would be read as rows "
                "if the call is repeated; choose a folder outside of it."
            )
        with open_source(X, client=client) as source:
            features = select_features(self, source)
            unknown = [name for name in kept if name not in source.schema.names]
            if unknown:
                raise ValueError(
                    f"keep names {quoted(unknown)}, but the columns of X are {quoted(source.schema.names)}."
                )
            columns = tuple(features), tuple(kept)
            task = WritePart(self, wanted, *columns, Path(folder).absolute(), len(source.parts))
            prepare_folder(task, source)
            return _write(task, source, ProgressBar() if self.verbose else NullProgress())


@dataclass(frozen=True)
class WritePart:
    """Predicts the rows of a part and writes one file, in whatever process it is called.

    Attributes
    ----------
    estimator : estimator
        The fitted model.
    wanted : Wanted
        What to predict.
    features, kept : tuple of str
        Columns that the model reads, and columns that are copied.
    folder : Path
        Folder to write to.
    n_parts : int
        Number of parts.
    """

    estimator: Any
    wanted: Wanted
    features: tuple[str, ...]
    kept: tuple[str, ...]
    folder: Path
    n_parts: int

    def path(self, part: Part) -> Path:
        """The file of a part. The order of the names is that of the parts, however many there are."""
        width = max(5, len(str(self.n_parts - 1)))
        return self.folder / f"part-{part.number:0{width}d}.parquet"

    def __call__(self, part: Part) -> Caught:
        """Write the file of a part unless it exists; return the warnings of the model."""
        from pyarrow import parquet

        path = self.path(part)
        caught: Caught = {}
        if path.exists():
            return caught
        columns = list(dict.fromkeys((*self.features, *self.kept)))
        try:
            with atomic_write(path) as unfinished:
                writer = None
                try:
                    for first_row, table in part.batches(columns):
                        predictions, new = _with_warnings(first_row, table, self._predict)
                        _merge(caught, new)
                        writer = writer or parquet.ParquetWriter(unfinished, predictions.schema)
                        writer.write_table(predictions)
                finally:
                    if writer is not None:
                        writer.close()
        except OSError as error:
            if error.errno in NO_SPACE:
                raise OSError(
                    f"There is no space left in {self.folder} for {path.name}; free some and run the same "
                    "again: the finished files are kept."
                ) from error
            raise
        return caught

    def _predict(self, table: pyarrow.Table) -> pyarrow.Table:
        import pyarrow

        predictions = Predictions.of(self.estimator, table.select(list(self.features)), self.wanted)
        columns = predictions.columns(self.wanted.probabilities)
        for name in self.kept:
            if name in columns:
                raise ValueError(
                    f"Column {name!r} cannot be kept, because the output has a column of that name with "
                    "predictions. Rename it in the input."
                )
        return pyarrow.table({name: table.column(name) for name in self.kept} | columns)


def predict_source(estimator: Any, method: str, X: Any, *arguments: Any) -> Any:
    """The result of a method of an estimator for rows that need not fit into memory.

    Parameters
    ----------
    estimator : estimator
        The fitted model.
    method : str
        Name of the method, such as "predict".
    X : path, pyarrow Dataset, polars LazyFrame or dask DataFrame
    *arguments
        Further arguments of the method.

    Returns
    -------
    array (n, …), in the order of the rows; for a Dask data frame a lazy series or data frame of Dask with the
    same partitions and index
    """
    check_is_fitted(estimator)
    if is_dask(X):
        return _predict_dask(estimator, method, X, arguments)
    with open_source(X) as source:
        source.select(select_features(estimator, source))
        function = partial(_predict_table, estimator, method, arguments)
        results, caught = [], Caught()
        for result, new in source.map(function):
            results.append(result)
            _merge(caught, new)
    _show(caught)
    return np.concatenate(results)


def select_features(estimator: Any, source: Source) -> list[str]:
    """The columns of a source that a model reads; all of them if it was fitted without names."""
    labels = estimator.encoder_.labels
    if labels is None:
        return list(source.schema.names)
    known = set(labels)
    features = [name for name in source.schema.names if name in known]
    if not features:
        raise ValueError(
            f"X has none of the columns that the model was fitted with: {quoted(labels)}; got "
            f"{quoted(source.schema.names)}."
        )
    return features


def prepare_folder(task: WritePart, source: Source) -> None:
    """Create the folder of predictions, or check that its files are the first of the same predictions.

    Parameters
    ----------
    task : WritePart
        What will be written.
    source : Source
        The rows.
    """
    notes = {
        "stablemiss": __version__,
        "model": _digest_model(task.estimator),
        "rows": sha256(json.dumps([part.fingerprint() for part in source.parts]).encode()).hexdigest(),
        "n_parts": len(source.parts),
        "wanted": asdict(task.wanted),
        "kept": list(task.kept),
    }
    folder, path = task.folder, task.folder / NOTES
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; pass the name of a folder for the predictions.")
    folder.mkdir(parents=True, exist_ok=True)
    # An earlier call may have ended before its first file was complete.
    files = [file.name for file in folder.iterdir() if not file.name.startswith(PREFIX)]
    if not path.exists() and files:
        raise ValueError(
            f"The folder {folder} contains other files; choose a new folder for the predictions."
        )
    if files in ([], [NOTES]):
        with atomic_write(path) as unfinished:
            unfinished.write_text(json.dumps(notes, indent=2))
        return
    try:
        stored = json.loads(path.read_text())
    except ValueError:
        stored = {}
    names = {"model": "model", "rows": "rows", "n_parts": "rows", "wanted": "options", "kept": "options"}
    for key, what in names.items():
        if stored.get(key) != notes[key]:
            raise ValueError(
                f"The folder {folder} contains predictions with other {what}, which would be mixed with the "
                "new ones; choose another folder, or delete it."
            )


def _write(task: WritePart, source: Source, progress: ProgressBar | NullProgress) -> int:
    """Write the files that are still missing; return the number of rows in all of them."""
    is_pending = [not task.path(part).exists() for part in source.parts]
    all_parts, caught, n_done = source.parts, Caught(), 0
    source.parts = [part for part, pending in zip(all_parts, is_pending, strict=True) if pending]
    progress.start("predicting", sum(part.n_rows for part in source.parts))
    try:
        for part, new in zip(source.parts, source.map_parts(task), strict=True):
            _merge(caught, new)
            n_done += part.n_rows
            progress.update(n_done, count(n_done, "row"))
    except ChildProcessError as error:
        raise ChildProcessError(f"{error} The files in {task.folder} that are complete are kept.") from error
    finally:
        progress.finish()
    _show(caught)
    return sum(part.n_rows for part in all_parts)


def _predict_table(
    estimator: Any, method: str, arguments: tuple[Any, ...], first_row: int, table: pyarrow.Table
) -> tuple[Any, Caught]:
    return _with_warnings(first_row, table, lambda rows: getattr(estimator, method)(rows, *arguments))


def _with_warnings(
    first_row: int, table: pyarrow.Table, predict: Callable[[pyarrow.Table], Any]
) -> tuple[Any, Caught]:
    """Predictions for a batch and their warnings, which would otherwise stay on a worker.

    Parameters
    ----------
    first_row : int
        Position of the first row of the batch among all rows.
    table : pyarrow.Table
        The batch.
    predict : callable
        From a table to predictions.
    """
    with warnings.catch_warnings(record=True) as caught, rows_at(range(first_row, first_row + len(table))):
        warnings.simplefilter("always")
        result = predict(table)
    # Predictions, intervals and explanations of the same batch repeat the same warning.
    first = {warning.category: str(warning.message) for warning in reversed(caught)}
    return result, {category: (message, 1) for category, message in first.items()}


def _merge(caught: Caught, later: Caught) -> None:
    """Add the warnings of later batches."""
    for category, (message, n_batches) in later.items():
        first, n_before = caught.get(category, (message, 0))
        caught[category] = first, n_before + n_batches


def _show(caught: Caught) -> None:
    """Show the first warning of each kind; later ones differ only in the rows they are about."""
    for category, (message, n_batches) in caught.items():
        later = f" ({count(n_batches - 1, 'later part')} of the rows had similar ones.)"
        # Level 4 is the user's call: 1 is this function, 2 `predict_source`, 3 `predict`.
        warnings.warn(f"{message}{later if n_batches > 1 else ''}", category, stacklevel=4)


def _predict_dask(estimator: Any, method: str, X: Any, arguments: tuple[Any, ...]) -> Any:
    labels = estimator.encoder_.labels
    if labels is not None:
        X = X[[name for name in X.columns if str(name) in set(labels)]]
    to_frame = partial(_to_pandas, estimator, method)
    example = np.zeros((0, *_result_shape(estimator, method)), dtype=_result_dtype(estimator, method))
    client = find_client()
    # A task of its own, so that a large model travels once to each worker, and again if one is lost.
    model = estimator if client is None else client.submit(_same, estimator, pure=False)
    return X.map_partitions(
        _predict_partition, model, method, arguments, meta=to_frame(example, X._meta.index[:0])
    )


def _same(estimator: Any) -> Any:
    return estimator


def _predict_partition(frame: Any, estimator: Any, method: str, arguments: tuple[Any, ...]) -> Any:
    if not len(frame):
        shape, dtype = _result_shape(estimator, method), _result_dtype(estimator, method)
        return _to_pandas(estimator, method, np.zeros((0, *shape), dtype), frame.index)
    return _to_pandas(estimator, method, getattr(estimator, method)(frame, *arguments), frame.index)


def _result_shape(estimator: Any, method: str) -> tuple[int, ...]:
    if method in ("predict_proba", "predict_set"):
        return (len(estimator.classes_),)
    n_outputs = 1 if hasattr(estimator, "classes_") or estimator.task_.single else estimator.n_outputs_
    shape = () if n_outputs == 1 else (n_outputs,)
    return (*shape, 2) if method == "predict_interval" else shape


def _result_dtype(estimator: Any, method: str) -> np.dtype[Any]:
    if method == "predict_set":
        return np.dtype(bool)
    is_label = method == "predict" and hasattr(estimator, "classes_")
    return estimator.classes_.dtype if is_label else np.dtype(np.float64)


def _to_pandas(estimator: Any, method: str, result: Any, index: Any) -> Any:
    """A result as a series or data frame of pandas: one column per output, class or bound."""
    import pandas as pd

    if result.ndim == 1:
        return pd.Series(result, index=index, name=estimator.target_name_ or "prediction")
    if method in ("predict_proba", "predict_set"):
        names = list(estimator.classes_)
    elif method == "predict_interval":
        n_outputs = 1 if result.ndim == 2 else result.shape[1]
        suffixes = [""] if n_outputs == 1 else [f" {k}" for k in range(n_outputs)]
        names = [f"{bound}{suffix}" for suffix in suffixes for bound in ("lower", "upper")]
    else:
        names = [f"prediction {k}" for k in range(result.shape[1])]
    return pd.DataFrame(result.reshape(len(result), len(names)), index=index, columns=names)


def _wanted(estimator: Any, coverage: float | None, probabilities: bool, explain: bool) -> Wanted:
    check_bool({"probabilities": probabilities, "explain": explain}, "probabilities", "explain")
    if coverage is not None:
        check_number({"coverage": coverage}, coverage="(0, 1)")
    if (coverage is not None or explain) and not hasattr(estimator, "explain_missing"):
        raise ValueError(
            f"Intervals and explanations need the method 'anymask', but the model was fitted with "
            f"{estimator.method_.name!r}; leave out coverage and explain."
        )
    if probabilities and not hasattr(estimator, "classes_"):
        raise ValueError("A regressor has no class probabilities; leave out probabilities.")
    return Wanted(coverage, probabilities, explain)


def _digest_model(estimator: Any) -> str:
    """A digest of the model, equal for a model that was saved and loaded."""
    tensors: dict[str, Any] = {}
    parts = {"encoder": estimator.encoder_, "task": estimator.task_, "predictor": estimator.predictor_}
    states = {name: part.state() for name, part in parts.items()}
    settings = ("on_unseen_missing", "on_out_of_range", "allow_missing_columns")
    tree = states | {name: getattr(estimator, name) for name in settings}
    return checksum(FORMAT_VERSION, json.dumps(pack(tree, tensors)), tensors)
