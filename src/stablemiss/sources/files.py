"""Sources made of files: Parquet files and folders, pyarrow datasets, and polars lazy frames."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stablemiss.sources.cluster import DistributedSource, is_dask, open_dask
from stablemiss.sources.parts import LocalSource, Part, Source, SourceError

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import dataset as arrow_dataset

EXTENSIONS = (".parquet", ".pq", ".parq")
# Rows per row group of the temporary file of a lazy frame.
GROUP_ROWS = 131_072


def is_source(X: Any) -> bool:
    """Whether X is something that `open_source` opens, rather than a table in memory.

    Examples
    --------
    >>> is_source("folder/"), is_source([[1.0, 2.0]])
    (True, False)
    """
    return isinstance(X, str | os.PathLike) or _is_dataset(X) or _is_lazy(X) or is_dask(X)


def open_source(X: Any, y: Any = None, client: Any = None) -> Source:
    """Open rows that need not fit into memory, and check that all files have the same columns and types.

    Parameters
    ----------
    X : path, pyarrow Dataset, polars LazyFrame or dask DataFrame
        A path is a Parquet file or a folder of Parquet files, which are read in the order of their names. A
        lazy frame is evaluated once, into a temporary file, because the rows are read several times.
    y : dask Series, default=None
        Target of the rows of a Dask data frame; becomes the last column.
    client : distributed.Client, default=None
        Workers that process the parts of files, which they must be able to read; None reads them here. Dask
        data frames are processed by the client that is current.

    Raises
    ------
    SourceError
        If a file cannot be read, or if files disagree in their columns or types.
    """
    if is_dask(X):
        return open_dask(X, y)
    if find_spec("pyarrow") is None:
        raise ModuleNotFoundError('Reading Parquet needs pyarrow; install: pip install "stablemiss[files]".')
    # The temporary file of a lazy frame is removed at once if it cannot be opened.
    with ExitStack() as stack:
        is_temporary = _is_lazy(X)
        if is_temporary:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stablemiss-"))
            X = _spool(X, Path(folder))
        if not _is_dataset(X):
            X = _open_path(Path(X))
        try:
            fragments = list(X.get_fragments())
        except ValueError as error:
            raise SourceError(
                "A filtered or projected dataset has no parts of its own; write its rows to a folder first, "
                "or pass a polars lazy frame."
            ) from error
        schema, parts = _parts(X.schema, fragments, is_temporary)
        if not sum(part.n_rows for part in parts):
            raise SourceError("The files have no rows; check the query that wrote them.")
        source = LocalSource(schema, parts) if client is None else DistributedSource(schema, parts, client)
        source._stack.push(stack.pop_all())
    return source


@dataclass(frozen=True, eq=False)
class FragmentPart(Part):
    """A row group of a Parquet file, or a whole file of another format.

    Attributes
    ----------
    fragment : pyarrow.dataset.Fragment
        The file.
    schema : pyarrow.Schema
        The columns of the dataset, which include those that only the names of folders show.
    row_group : int or None
        Number of the row group; None for files of other formats.
    is_temporary : bool
        Whether the file holds the rows of a lazy frame.
    """

    fragment: arrow_dataset.Fragment
    schema: pyarrow.Schema
    row_group: int | None
    is_temporary: bool

    def fingerprint(self) -> list[Any]:
        # The file of a lazy frame has a new name in each run, and may have other rows, or another order of
        # them, for instance after a join.
        if self.is_temporary:
            return [self.n_rows, _digest(self.fragment.path)]
        # Tables in memory that were made a dataset are no files.
        if not hasattr(self.fragment, "filesystem"):
            return [self.n_rows, _digest_rows(self)]
        info = self.fragment.filesystem.get_file_info(self.fragment.path)
        return [self.name, self.n_rows, info.size, info.mtime_ns]

    def tables(self, columns: Sequence[str], max_rows: int) -> Iterator[pyarrow.Table]:
        import pyarrow

        try:
            if self.row_group is None:
                batches = self.fragment.to_batches(
                    schema=self.schema, columns=list(columns), batch_size=max_rows, use_threads=False
                )
                for batch in batches:
                    if batch.num_rows:
                        yield pyarrow.Table.from_batches([batch])
            else:
                yield from self._row_group_tables(columns, max_rows)
        except FileNotFoundError as error:
            raise SourceError(_vanished(f"The file of {self.name}")) from error
        except (OSError, pyarrow.ArrowException) as error:
            raise SourceError(_unreadable(self.name, error)) from error

    def _row_group_tables(self, columns: Sequence[str], max_rows: int) -> Iterator[pyarrow.Table]:
        """Page by page: a scan of the dataset would decode whole row groups, often a million rows."""
        import pyarrow
        from pyarrow import dataset as arrow_dataset
        from pyarrow import parquet

        constants = arrow_dataset.get_partition_keys(self.fragment.partition_expression)
        stored = [name for name in columns if name not in constants]
        options: dict[str, Any] = {"filesystem": self.fragment.filesystem, "pre_buffer": False}
        with parquet.ParquetFile(self.fragment.path, page_checksum_verification=True, **options) as file:
            for batch in file.iter_batches(
                max_rows, row_groups=[self.row_group], columns=stored, use_threads=False
            ):
                table = pyarrow.Table.from_batches([batch])
                for name in columns:
                    if name in constants:
                        field = self.schema.field(name)
                        column = pyarrow.array([constants[name]] * len(table)).cast(field.type)
                        table = table.append_column(field, column)
                # A column without any value in a file has no type there.
                target = pyarrow.schema([self.schema.field(name) for name in columns])
                yield table.select(list(columns)).cast(target)


def _open_path(path: Path) -> arrow_dataset.Dataset:
    import pyarrow
    from pyarrow import dataset as arrow_dataset

    if not path.exists():
        raise SourceError(f"There is no file or folder {path}.")
    # Workers of a cluster have other working directories.
    path = path.absolute()
    options: dict[str, Any] = {"format": "parquet"}
    files = [path]
    if path.is_dir():
        # Names that begin with a dot or an underscore are notes of the program that wrote the folder.
        files = sorted(
            file
            for file in path.rglob("*")
            if file.suffix.lower() in EXTENSIONS
            # Some programs write a folder of files with such a name.
            and not file.is_dir()
            and not any(name.startswith((".", "_")) for name in file.relative_to(path).parts)
        )
        if not files:
            raise SourceError(f"The folder {path} contains no Parquet files ({', '.join(EXTENSIONS)}).")
        options |= {"partitioning": "hive", "partition_base_dir": str(path)}
    elif path.suffix.lower() not in EXTENSIONS:
        raise SourceError(
            f"{path} is not a Parquet file ({', '.join(EXTENSIONS)}); read it into a table, or convert it."
        )
    for file in files:
        if not file.exists():
            raise SourceError(f"{file} is a link to a file that does not exist; remove it or correct it.")
        if file.stat().st_size == 0:
            raise SourceError(f"The file {file} is empty; remove it or write it again.")
    try:
        return arrow_dataset.dataset([str(file) for file in files], **options)
    except (OSError, pyarrow.ArrowException) as error:
        raise SourceError(_unreadable(str(files[0]), error)) from error


def _parts(
    schema: pyarrow.Schema, fragments: Sequence[arrow_dataset.Fragment], is_temporary: bool
) -> tuple[pyarrow.Schema, list[Part]]:
    """The parts of all files, after a check of their columns and types."""
    import pyarrow
    from pyarrow import dataset as arrow_dataset

    # pandas and others store notes on the columns, which may differ from file to file.
    schema = schema.remove_metadata()
    found: list[tuple[str, Any, list[tuple[int | None, int]]]] = []
    first: tuple[str, pyarrow.Schema] | None = None
    for fragment in fragments:
        name = getattr(fragment, "path", "the dataset")
        try:
            own = fragment.physical_schema.remove_metadata()
            groups: list[tuple[int | None, int]] = (
                [(group.id, group.num_rows) for group in fragment.row_groups]
                if isinstance(fragment, arrow_dataset.ParquetFileFragment)
                else [(None, fragment.count_rows())]
            )
        except FileNotFoundError as error:
            raise SourceError(_vanished(f"The file {name}")) from error
        except (OSError, pyarrow.ArrowException) as error:
            raise SourceError(_unreadable(name, error)) from error
        first = first or (name, own)
        _check_same(*first, name, own)
        _check_complete(schema, name, own, fragment)
        for position, field in enumerate(schema):
            if pyarrow.types.is_null(field.type) and field.name in own.names:
                schema = schema.set(position, own.field(field.name))
        if not sum(n for _, n in groups):
            # Level 4 is the user's call: 1 is this function, 2 `open_source`, 3 `fit` or `predict`.
            warnings.warn(f"The file {name} has no rows and is skipped.", UserWarning, stacklevel=4)
        found.append((name, fragment, groups))
    parts: list[Part] = []
    n_rows = 0
    for name, fragment, groups in found:
        for row_group, n in groups:
            if n:
                label = name if row_group is None else f"row group {row_group} of {name}"
                part = FragmentPart(len(parts), n_rows, n, label, fragment, schema, row_group, is_temporary)
                parts.append(part)
                n_rows += n
    return schema, parts


def _check_same(first: str, expected: pyarrow.Schema, name: str, own: pyarrow.Schema) -> None:
    """Raise SourceError unless two files have the same columns of the same types, in any order."""
    for lacking, having, there, here in ((first, name, expected, own), (name, first, own, expected)):
        extra = [column for column in here.names if column not in there.names]
        if extra:
            raise SourceError(
                f"All files must have the same columns, but {having} has {extra[0]!r} and {lacking} does "
                "not; write both with the same columns."
            )
    for column in expected.names:
        types = expected.field(column).type, own.field(column).type
        # pandas writes a column without any value without a type.
        if types[0] != types[1] and str(types[0]) != "null" and str(types[1]) != "null":
            raise SourceError(
                f"All files must have the same types, but the column {column!r} is {types[0]} in {first} and "
                f"{types[1]} in {name}; write both with the same type."
            )


def _check_complete(schema: pyarrow.Schema, name: str, own: pyarrow.Schema, fragment: Any) -> None:
    """Raise SourceError unless a file, or the names of its folders, have all columns of the dataset."""
    from pyarrow import dataset as arrow_dataset

    known = {*own.names, *arrow_dataset.get_partition_keys(fragment.partition_expression)}
    lacking = [column for column in schema.names if column not in known]
    if lacking:
        raise SourceError(
            f"All files must have the same columns, in them or in the names of their folders, but {name} has "
            f"no {lacking[0]!r}; write it with the column, or move it to a folder {lacking[0]}=…"
        )


def _spool(frame: Any, folder: Path) -> Path:
    """Write the rows of a lazy frame to a file, in their order."""
    path = folder / "rows.parquet"
    try:
        frame.sink_parquet(path, row_group_size=GROUP_ROWS, compression="lz4", maintain_order=True)
    except FileNotFoundError as error:
        raise SourceError(f"A file of the lazy frame does not exist ({_reason(error)}).") from error
    except OSError as error:
        raise SourceError(
            f"The lazy frame cannot be evaluated into a temporary file in {folder} ({_reason(error)}); if "
            "its disk is full, set TMPDIR to a folder with more space."
        ) from error
    return path


@lru_cache(maxsize=1)
def _digest(path: str) -> str:
    """A digest of the content of a file."""
    with Path(path).open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _digest_rows(part: FragmentPart) -> str:
    """A digest of the rows of a part, in the format of Parquet, which does not store what is missing."""
    import pyarrow
    from pyarrow import parquet

    digest = sha256()
    for _, table in part.batches(part.schema.names):
        buffer = pyarrow.BufferOutputStream()
        parquet.write_table(table, buffer)
        digest.update(buffer.getvalue())
    return digest.hexdigest()


def _vanished(file: str) -> str:
    return f"{file} has vanished, or the process that reads it cannot reach it; restore it and start again."


def _unreadable(name: str, error: Exception) -> str:
    advice = (
        "ask for the permission to read it"
        if isinstance(error, PermissionError)
        else "write it again if it is damaged"
    )
    return f"Cannot read {name} ({_reason(error)}); {advice}."


def _reason(error: Exception) -> str:
    """The first line of the message of an error."""
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__


def _is_dataset(X: Any) -> bool:
    return any(
        base.__module__ == "pyarrow._dataset" and base.__name__ == "Dataset" for base in type(X).__mro__
    )


def _is_lazy(X: Any) -> bool:
    return type(X).__name__ == "LazyFrame" and type(X).__module__.startswith("polars.")
