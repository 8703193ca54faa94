"""Model files: safetensors with arrays as tensors and everything else as JSON, without pickle.

A file stores a *tree*: dictionaries with string keys, lists, tuples, strings, numbers, booleans, None and
numpy arrays, nested arbitrarily. The header of the file contains four strings: the name and the version of
the format, the tree as JSON with references to the tensors, and a checksum of the whole content.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from stablemiss.writing import atomic_write

FORMAT = "stablemiss model"
FORMAT_VERSION = 3

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
    with atomic_write(path) as temporary:
        temporary.write_bytes(save(tensors, metadata=header))


def read_tree(path: Path) -> Any:
    """Read the tree stored at `path`; raises `ArchiveError` if the file is not an intact model file."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}; check the path given to load_model.")
    if path.is_dir():
        raise ArchiveError(f"{str(path)!r} is a folder; give the path of the model file itself.")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            # Tensors of other formats are not read: they may be huge, or have types that numpy does not
            # support.
            names = file.keys() if header.get("format") == FORMAT else []
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, AttributeError, TypeError) as error:
        raise ArchiveError(
            f"{str(path)!r} is not a stablemiss model, or it is truncated ({error}). Load a file that an "
            "estimator's save() wrote, or copy or save the model again."
        ) from error
    if header.get("format") != FORMAT:
        raise ArchiveError(
            f"{str(path)!r} is a safetensors file, but not a stablemiss model; load a file that an "
            "estimator's save() wrote."
        )
    version = header.get("format_version", "")
    if version.isdecimal() and int(version) > FORMAT_VERSION:
        raise ArchiveError(
            f"{str(path)!r} was saved by a newer version of stablemiss (format {version}; this version reads "
            f"format {FORMAT_VERSION}). Update stablemiss to load it."
        )
    if version.isdecimal() and int(version) < FORMAT_VERSION:
        raise ArchiveError(
            f"{str(path)!r} has an earlier format ({version}; this version of stablemiss reads format "
            f"{FORMAT_VERSION}), so the model must be fitted and saved again."
        )
    document = header.get("document", "")
    if version != str(FORMAT_VERSION) or header.get("sha256") != checksum(FORMAT_VERSION, document, tensors):
        raise ArchiveError(
            f"The content of {str(path)!r} does not match its checksum: the file was edited or damaged. "
            "Save the model again."
        )
    try:
        return unpack(json.loads(document), tensors)
    except ArchiveError:
        raise
    except Exception as error:  # A document can have a valid checksum and still be malformed in any way.
        raise ArchiveError(
            f"{str(path)!r} has the format of a stablemiss model, but its content is invalid ({error!r}). "
            "Load a file that an estimator's save() wrote."
        ) from error


def checksum(version: int, document: str, tensors: Tensors) -> str:
    """SHA-256 over everything in a file: names, types, shapes and contents."""
    digest = hashlib.sha256(f"{version}\n{document}".encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        digest.update(tensor.tobytes())
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


def unpack(node: Any, tensors: Tensors) -> Any:
    """Convert the result of `pack` back to a tree."""
    if isinstance(node, list):
        return [unpack(item, tensors) for item in node]
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    match kind:
        case "float":
            return float(content)
        case "text":
            return tensors[content].tobytes().decode()
        case "tuple":
            return tuple(unpack(item, tensors) for item in content)
        case "dict":
            return {key: unpack(item, tensors) for key, item in content.items()}
        case "array":
            return tensors[content]
        case "columnwise":
            return tensors[content].T
        case "objects":
            flat = np.empty(len(content["items"]), dtype=content["dtype"])
            for position, item in enumerate(content["items"]):
                flat[position] = unpack(item, tensors)
            return flat.reshape(content["shape"])
    raise ArchiveError(f"The model file contains a {kind!r}, which this version of stablemiss cannot read.")


def _add(array: NDArray, tensors: Tensors) -> str:
    """Add an array under the next free name, in C order, because safetensors stores memory as it is."""
    name = str(len(tensors))
    tensors[name] = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    return name
