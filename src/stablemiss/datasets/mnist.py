"""MNIST: 70,000 images of handwritten digits, read from the original idx files."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stablemiss.checks import shown
from stablemiss.datasets.source import ENVIRONMENT_VARIABLE, check_digest, data_folder
from stablemiss.writing import atomic_write

FOLDER = "mnist"
N_TRAIN, N_TEST = 60_000, 10_000
IMAGE_SHAPE = (28, 28)
PAGE = "https://www.openml.org/d/554"

# Digests of the four files without compression.
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}

# An idx file starts with two zeros, the type of its entries and the number of its dimensions.
IDX_UINT8 = 0x08


@dataclass(frozen=True, eq=False)
class ImageDataset:
    """Images with labels; the training images come first.

    Attributes
    ----------
    images : (n, height, width) float32
        Brightness of each pixel, from 0 (background) to 255, without missing values. Single precision is
        exact for these integers and takes half the memory.
    labels : (n,) int64
        Class of each image.
    n_train : int
        Number of training images; the others are the test images.
    description : str
        Meaning of the images and units.
    licence : str
        Licence of the data.
    source : str
        URL of the page that describes the data.

    See Also
    --------
    load_mnist : Handwritten digits.

    Examples
    --------
    >>> data = ImageDataset(np.zeros((3, 2, 2), np.float32), np.array([0, 1, 1]), 2, "Black.", "CC0", "")
    >>> data.images[data.train].shape, data.labels[data.test].tolist()
    ((2, 2, 2), [1])
    """

    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    n_train: int
    description: str
    licence: str
    source: str

    @property
    def train(self) -> slice:
        """Positions of the training images; ``images[data.train]`` is a view."""
        return slice(0, self.n_train)

    @property
    def test(self) -> slice:
        """Positions of the test images; ``images[data.test]`` is a view."""
        return slice(self.n_train, len(self.images))


def load_mnist(data_home: str | os.PathLike | None = None) -> ImageDataset:
    """Load 70,000 images of handwritten digits, 28 × 28 pixels each.

    Parameters
    ----------
    data_home : path, default=None
        Folder that contains ``mnist/train-images-idx3-ubyte`` and the three other idx files, with or without
        ``.gz``. None means the environment variable STABLEMISS_DATA or, if it is not set,
        ``.cache/stablemiss`` in the home folder. If none of the files exists, the images are downloaded from
        OpenML by scikit-learn's `fetch_openml` (much faster if pandas is installed) and stored there, if the
        folder is writable.

    Returns
    -------
    ImageDataset
        60,000 training images, then 10,000 test images, in the order of the files. 220 MB.

    See Also
    --------
    load_berlin_traffic : A network of sensors with real missing values.

    Examples
    --------
    >>> mnist = load_mnist()  # doctest: +SKIP
    >>> mnist.images.shape, mnist.images[mnist.test].shape  # doctest: +SKIP
    ((70000, 28, 28), (10000, 28, 28))
    """
    folder = data_folder(data_home) / FOLDER
    files = {name: _existing(folder, name) for name in SHA256}
    absent = [name for name, file in files.items() if file is None]
    if len(absent) == len(files):
        contents = _download_into(folder)
    elif absent:
        raise FileNotFoundError(
            f"{folder} contains only some of the four MNIST files: {' and '.join(absent)} (or the same with "
            ".gz) must be there as well. Add them, or remove the others to download all four."
        )
    else:
        contents = {name: _read_checked(file, name) for name, file in files.items() if file is not None}
    (train_images, train_labels), (test_images, test_labels) = (
        (contents[f"{part}-images-idx3-ubyte"], contents[f"{part}-labels-idx1-ubyte"])
        for part in ("train", "t10k")
    )
    return ImageDataset(
        images=np.concatenate([train_images, test_images], dtype=np.float32),
        labels=np.concatenate([train_labels, test_labels], dtype=np.int64),
        n_train=len(train_images),
        description=(
            "Handwritten digits, 28 by 28 pixels, brightness from 0 (background) to 255 (pen). The label is "
            "the digit."
        ),
        licence="CC BY-SA 3.0 (Y. LeCun, C. Cortes and C. J. C. Burges)",
        source=PAGE,
    )


def parse_idx(content: bytes, shape: Sequence[int], name: str = "The file") -> NDArray[np.uint8]:
    """Parse the content of an idx file of bytes: a header with its dimensions, then the entries in C order.

    Parameters
    ----------
    content : bytes
        Content of the file without compression.
    shape : sequence of int
        The expected dimensions. A file of other dimensions raises ValueError, as does a damaged one.
    name : str, default="The file"
        Name of the file in error messages.

    Returns
    -------
    array of uint8
        A read-only view of `content`, which has the given shape.

    Examples
    --------
    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), (2,)).tolist()
    [7, 9]
    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7]), (2,))
    Traceback (most recent call last):
    ValueError: The file must have 10 bytes, those of 2 entries and a header; got 9: it is truncated or \
damaged. Replace it with the original file.
    """
    remedy = "Replace it with the original file."
    magic = bytes([0, 0, IDX_UINT8, len(shape)])
    if content[:4] != magic:
        raise ValueError(
            f"{name} is not an idx file of bytes in {len(shape)}-dimensional form: it must start with the "
            f"bytes {magic.hex(' ')}; got {content[:4].hex(' ') or 'an empty file'}. {remedy}"
        )
    n_header = 4 + 4 * len(shape)
    given = tuple(
        int.from_bytes(content[start : start + 4], "big")
        for start in range(4, min(n_header, len(content)), 4)
    )
    if given != tuple(shape):
        raise ValueError(f"{name} must have the dimensions {tuple(shape)}; got {given}. {remedy}")
    n_entries = math.prod(shape)
    if len(content) != n_header + n_entries:
        raise ValueError(
            f"{name} must have {n_header + n_entries} bytes, those of {n_entries} entries and a header; got "
            f"{len(content)}: it is truncated or damaged. {remedy}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=n_header).reshape(shape)


def to_idx(array: NDArray[np.uint8]) -> bytes:
    """Convert an array of bytes to the content of an idx file.

    Examples
    --------
    >>> to_idx(np.array([7, 9], dtype=np.uint8)).hex(" ")
    '00 00 08 01 00 00 00 02 07 09'
    """
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, IDX_UINT8, array.ndim]) + sizes + array.tobytes()


def _existing(folder: Path, name: str) -> Path | None:
    return next((file for file in (folder / name, folder / f"{name}.gz") if file.exists()), None)


def _shape(name: str) -> tuple[int, ...]:
    n = N_TRAIN if name.startswith("train") else N_TEST
    return (n, *IMAGE_SHAPE) if "images" in name else (n,)


def _read_checked(file: Path, name: str) -> NDArray[np.uint8]:
    content = file.read_bytes()
    if file.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(
                f"{file} cannot be decompressed ({error}): it is truncated or damaged. Replace it with the "
                "original file."
            ) from error
    # Wrong dimensions say more than a wrong digest, so they are checked first.
    array = parse_idx(content, _shape(name), str(file))
    check_digest(content, SHA256[name], str(file))
    return array


def _download_into(folder: Path) -> dict[str, NDArray[np.uint8]]:
    """Download the images from OpenML, check them, and store them as idx files in `folder`."""
    try:
        arrays = _fetch_openml()
        contents = {name: to_idx(array) for name, array in arrays.items()}
        for name, content in contents.items():
            check_digest(content, SHA256[name], f"{name} made of the images on OpenML")
    # The remedy is the same for every error (no network, an error page of a proxy, other data).
    except Exception as reason:
        raise FileNotFoundError(
            f"MNIST is not in {folder} and could not be downloaded ({type(reason).__name__}: {reason}): put "
            f"{', '.join(SHA256)} (with or without .gz) there, or pass the folder that contains {FOLDER} as "
            f"data_home or in the environment variable {ENVIRONMENT_VARIABLE}."
        ) from reason
    # A read-only folder is no reason to fail now; the next call downloads again.
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            with atomic_write(folder / f"{name}.gz") as unfinished:
                unfinished.write_bytes(gzip.compress(content, compresslevel=6, mtime=0))
    return arrays


def _fetch_openml() -> dict[str, NDArray[np.uint8]]:
    from sklearn import datasets

    # Not cached by scikit-learn, because the idx files take a quarter of the space and load much faster.
    pixels, digits = datasets.fetch_openml(
        "mnist_784",
        version=1,
        as_frame=False,
        return_X_y=True,
        cache=False,
        parser="pandas" if find_spec("pandas") else "liac-arff",
    )
    n = N_TRAIN + N_TEST
    if pixels.shape != (n, math.prod(IMAGE_SHAPE)) or len(digits) != n:
        raise ValueError(f"OpenML has images of shape {shown(pixels.shape)} instead of ({n}, 784)")
    images, labels = pixels.astype(np.uint8).reshape(n, *IMAGE_SHAPE), np.asarray(digits).astype(np.uint8)
    return {
        "train-images-idx3-ubyte": images[:N_TRAIN],
        "train-labels-idx1-ubyte": labels[:N_TRAIN],
        "t10k-images-idx3-ubyte": images[N_TRAIN:],
        "t10k-labels-idx1-ubyte": labels[N_TRAIN:],
    }
