"""Model files: safetensors with arrays as tensors and everything else as JSON, without pickle.

A file stores a *tree*: dictionaries with string keys, lists, tuples, strings, numbers, booleans, None, numpy
arrays and architectures (`stablemiss.architectures`), nested arbitrarily. The header of the file contains
four strings: the name and the version of the format, the tree as JSON with references to the tensors, and a
checksum of the whole content.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from stablemiss.architectures import ARCHITECTURES, Architecture
from stablemiss.writing import atomic_write

FORMAT = "stablemiss model"
FORMAT_VERSION = 7

# Maximum size of the header of a file. The library for safetensors does not read larger ones.
MAX_HEADER_BYTES = 100_000_000
# Limits of the document, far above those of any model: levels of nesting, and size of integers.
MAX_DEPTH, MAX_BITS = 50, 256
# Arrays of strings may be longer than their longest string requires up to this size.
MAX_PADDED_BYTES = 2**20
# Longer strings, such as LightGBM models, are stored as tensors of bytes to keep the header small.
MAX_TEXT_LENGTH = 1000

Tensors = dict[str, NDArray]


class ArchiveError(ValueError):
    """A file is not a model that this version can read: another format, damaged or edited.

    Examples
    --------
    >>> from stablemiss.estimators import load_model
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     try:
    ...         load_model(file.name)
    ...     except ArchiveError as error:
    ...         print("is not a stablemiss model" in str(error))
    True
    """


def write_tree(path: Path, tree: Any) -> None:
    """Write a tree to `path` atomically: a failed write leaves an existing file unchanged."""
    tensors: Tensors = {}
    document = json.dumps(pack(tree, tensors), ensure_ascii=False, allow_nan=False)
    header = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "document": document,
        "sha256": checksum(FORMAT_VERSION, document, tensors),
    }
    content = save(tensors, metadata=header)
    if _header_size(content[:8]) > MAX_HEADER_BYTES:
        raise ValueError(
            "The model cannot be saved, because the categories of its columns take more than "
            f"{MAX_HEADER_BYTES // 10**6} MB of text. Fit it without columns that identify rows."
        )
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def read_tree(path: Path) -> Any:
    """Read the tree stored at `path`; raises `ArchiveError` if the file is not an intact model file."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}; check the path given to load_model.")
    if path.is_dir():
        raise ArchiveError(f"{str(path)!r} is a folder; give the path of the model file itself.")
    if not path.is_file():
        raise ArchiveError(f"{str(path)!r} is a pipe or a device; give the path of a model file.")
    try:
        with path.open("rb") as start:
            if _header_size(start.read(8)) > MAX_HEADER_BYTES:
                raise ValueError("its header is too large")
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            # Nothing else is read from files of other formats: it may be huge, or of types unknown to numpy.
            _check_format(path, header)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except ArchiveError:
        raise
    except Exception as error:  # The library for safetensors raises errors of many types.
        raise ArchiveError(
            f"{str(path)!r} is not a stablemiss model, or it is truncated ({error}). Load a file that an "
            "estimator's save() wrote, or copy or save the model again."
        ) from error
    document = header.get("document", "")
    if header.get("sha256") != checksum(FORMAT_VERSION, document, tensors):
        raise ArchiveError(
            f"The content of {str(path)!r} does not match its checksum: the file was edited or damaged. "
            "Save the model again."
        )
    try:
        unused = dict(tensors)
        tree = unpack(_parse(document), unused)
        if unused:
            raise ValueError(f"{len(unused)} tensors are not part of the model")
        return tree
    except Exception as error:  # A document can have a valid checksum and still be malformed in any way.
        raise ArchiveError(
            f"{str(path)!r} has the format of a stablemiss model, but its content is invalid "
            f"({shorten(repr(error), 300)}). Load a file that an estimator's save() wrote."
        ) from error


def _header_size(start: bytes) -> int:
    """Size in bytes of a safetensors header, from the first eight bytes of the file."""
    return int.from_bytes(start, "little")


def _check_format(path: Path, header: dict[str, str]) -> None:
    """Raise ArchiveError unless the header of a file names this format in this version."""
    if header.get("format") != FORMAT:
        raise ArchiveError(
            f"{str(path)!r} is a safetensors file, but not a stablemiss model; load a file that an "
            "estimator's save() wrote."
        )
    version = header.get("format_version", "")
    # Longer numbers are not versions.
    number = int(version) if version.isdecimal() and len(version) < 10 else None
    if number is not None and number > FORMAT_VERSION:
        raise ArchiveError(
            f"{str(path)!r} was saved by a newer version of stablemiss (format {version}; this version reads "
            f"format {FORMAT_VERSION}). Update stablemiss to load it."
        )
    if number is not None and number < FORMAT_VERSION:
        raise ArchiveError(
            f"{str(path)!r} has an earlier format ({version}; this version of stablemiss reads format "
            f"{FORMAT_VERSION}), so the model must be fitted and saved again."
        )
    if version != str(FORMAT_VERSION):
        raise ArchiveError(
            f"{str(path)!r} names no valid version of its format: the file was edited or damaged. Save the "
            "model again."
        )


def checksum(version: int, document: str, tensors: Tensors) -> str:
    """SHA-256 over everything in a file: names, types, shapes and contents."""
    digest = hashlib.sha256(f"{version}\n{document}".encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        digest.update(np.ascontiguousarray(tensor).data)
    return digest.hexdigest()


def pack(tree: Any, tensors: Tensors) -> Any:
    """Convert a tree to JSON; its arrays and long strings are added to `tensors`.

    Plain values and lists are stored as they are. Everything else is an object whose single key is its type,
    for instance ``{"tuple": [1, 2]}`` or ``{"array": "0"}``.
    """
    if isinstance(tree, np.generic):
        tree = tree.item()
    if tree is None or isinstance(tree, bool | int):
        return tree
    if isinstance(tree, float):
        return tree if math.isfinite(tree) else {"float": str(tree)}
    if isinstance(tree, str):
        if len(tree) <= MAX_TEXT_LENGTH:
            return tree
        return {"text": _add(np.frombuffer(tree.encode(), dtype=np.uint8), tensors)}
    if isinstance(tree, list):
        return [pack(item, tensors) for item in tree]
    if isinstance(tree, tuple):
        return {"tuple": [pack(item, tensors) for item in tree]}
    if isinstance(tree, dict) and all(isinstance(key, str) for key in tree):
        return {"dict": {key: pack(item, tensors) for key, item in tree.items()}}
    if isinstance(tree, Architecture) and ARCHITECTURES.get(type(tree).__name__) is type(tree):
        return {"architecture": [type(tree).__name__, pack(tree.parameters(), tensors)]}
    if isinstance(tree, np.ndarray) and tree.dtype.kind in "biuf":
        # Matrix products round differently in another memory order, so the order is preserved.
        if tree.flags.f_contiguous and not tree.flags.c_contiguous:
            return {"columnwise": _add(tree.T, tensors)}
        return {"array": _add(tree, tensors)}
    if isinstance(tree, np.ndarray) and tree.dtype.kind in "UO":
        items = [pack(item, tensors) for item in tree.ravel().tolist()]
        return {"objects": {"dtype": tree.dtype.str, "shape": list(tree.shape), "items": items}}
    kind = f"array of {tree.dtype}" if isinstance(tree, np.ndarray) else type(tree).__name__
    raise TypeError(
        f"A model file cannot store this {kind}; it can store dictionaries with string keys, lists, tuples, "
        "strings, numbers, booleans, None and arrays of them."
    )


def unpack(node: Any, tensors: Tensors, depth: int = 0) -> Any:
    """Convert the result of `pack` back to a tree. Tensors are removed from `tensors` as they are used."""
    if depth > MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if isinstance(node, list):
        return [unpack(item, tensors, depth + 1) for item in node]
    if isinstance(node, int) and node.bit_length() > MAX_BITS:
        raise ValueError("an integer is too large")
    if isinstance(node, float) and not math.isfinite(node):
        raise ValueError("a number is too large")
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    match kind:
        case "float" if content in ("nan", "inf", "-inf"):
            return float(content)
        case "text":
            # `pop`, because a file cannot contain more than it has tensors.
            return str(tensors.pop(content).data, "utf-8")
        case "tuple":
            return tuple(unpack(item, tensors, depth + 1) for item in content)
        case "dict":
            return {key: unpack(item, tensors, depth + 1) for key, item in content.items()}
        case "architecture":
            name, parameters = content
            # Only these classes are built from a file; they check their parameters.
            return ARCHITECTURES[name].from_parameters(unpack(parameters, tensors, depth + 1))
        case "array":
            return tensors.pop(content)
        case "columnwise":
            return tensors.pop(content).T
        case "objects":
            return _unpack_objects(content, tensors)
    raise ValueError(f"a {shorten(kind, 30)!r} is unknown")


def _unpack_objects(content: dict[str, Any], tensors: Tensors) -> NDArray:
    """An array of strings, or of objects such as strings, numbers and None."""
    items = [unpack(item, tensors, MAX_DEPTH) for item in content["items"]]
    name, shape = content["dtype"], content["shape"]
    if math.prod(shape) != len(items) or min(shape, default=0) < 0:
        raise ValueError("the shape of an array does not fit its items")
    if not all(isinstance(item, str | int | float | None) for item in items):
        raise ValueError("an array has items of an unknown type")
    if name == "|O":
        flat = np.empty(len(items), dtype=object)
        flat[:] = items
        return flat.reshape(shape)
    dtype = np.dtype(name)
    longest = max(map(len, items), default=0)
    if dtype.kind != "U" or not all(isinstance(item, str) for item in items):
        raise ValueError("an array of strings has another type")
    # Each item takes as much memory as the type says, whatever the length of the string.
    is_padded = dtype.itemsize > 4 * max(1, longest) and dtype.itemsize * len(items) > MAX_PADDED_BYTES
    if dtype.itemsize < 4 * longest or is_padded:
        raise ValueError("an array of strings has another length")
    return np.array(items, dtype=dtype).reshape(shape)


def _parse(document: str) -> Any:
    """Parse JSON, without numbers such as NaN and without two entries of the same name."""

    def refuse(number: str) -> None:
        raise ValueError(f"{number} is not a number of JSON")

    def to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(content := dict(pairs)) != len(pairs):
            raise ValueError("an entry occurs twice")
        return content

    return json.loads(document, parse_constant=refuse, object_pairs_hook=to_dict)


def _add(array: NDArray, tensors: Tensors) -> str:
    """Add an array under the next free name, in C order, because safetensors stores memory as it is."""
    name = str(len(tensors))
    tensors[name] = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    return name
