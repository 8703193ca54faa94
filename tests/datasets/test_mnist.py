"""MNIST from idx files, from OpenML, and the errors of damaged files. Stand-ins have 5 + 3 images."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from stablemiss.datasets import load_mnist, mnist, source
from stablemiss.datasets.mnist import parse_idx, to_idx

IMAGES = np.random.default_rng(0).integers(0, 256, size=(8, 28, 28), dtype=np.uint8)
DIGITS = np.array([5, 0, 4, 1, 9, 2, 1, 3], dtype=np.uint8)
ARRAYS = {
    "train-images-idx3-ubyte": IMAGES[:5],
    "train-labels-idx1-ubyte": DIGITS[:5],
    "t10k-images-idx3-ubyte": IMAGES[5:],
    "t10k-labels-idx1-ubyte": DIGITS[5:],
}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A data folder with the four files, two of them compressed."""
    monkeypatch.setattr(mnist, "N_TRAIN", 5)
    monkeypatch.setattr(mnist, "N_TEST", 3)
    digests = {name: hashlib.sha256(to_idx(array)).hexdigest() for name, array in ARRAYS.items()}
    monkeypatch.setattr(mnist, "SHA256", digests)
    (tmp_path / "mnist").mkdir()
    for name, array in ARRAYS.items():
        if "images" in name:
            (tmp_path / "mnist" / f"{name}.gz").write_bytes(gzip.compress(to_idx(array)))
        else:
            (tmp_path / "mnist" / name).write_bytes(to_idx(array))
    return tmp_path


def serve(monkeypatch, pixels, digits):
    calls = []

    def fetch(name: str, **options: object):
        calls.append(name)
        return pixels, digits

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    return calls


def test_training_images_come_first_in_units_of_0_to_255(folder):
    data = load_mnist(folder)
    assert data.images.dtype == np.float32
    np.testing.assert_array_equal(data.images, IMAGES)
    np.testing.assert_array_equal(data.labels, DIGITS)
    np.testing.assert_array_equal(data.images[data.train], IMAGES[:5])
    np.testing.assert_array_equal(data.labels[data.test], DIGITS[5:])
    assert np.shares_memory(data.images[data.test], data.images)


def test_the_environment_variable_names_the_folder(folder, monkeypatch):
    monkeypatch.setenv(source.ENVIRONMENT_VARIABLE, str(folder))
    np.testing.assert_array_equal(load_mnist().labels, DIGITS)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 3, 4)])
def test_idx_and_array_convert_into_each_other(shape):
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    np.testing.assert_array_equal(parse_idx(to_idx(array), shape), array)


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "an empty file"),
        (to_idx(ARRAYS["train-labels-idx1-ubyte"]), "00 00 08 01"),  # labels where images should be
        (b"<html>not found</html>", "00 00 08 03"),
        (to_idx(IMAGES), r"\(5, 28, 28\); got \(8, 28, 28\)"),
        (to_idx(IMAGES[:5, :20]), r"got \(5, 20, 28\)"),
        (to_idx(IMAGES[:5])[:10], r"got \(5, \d+\)"),
        (to_idx(IMAGES[:5])[:-7], "3936 bytes.*got 3929.*truncated"),
        (to_idx(IMAGES[:5]) + b"x", "got 3937"),
        (to_idx(IMAGES[1:6]), "sha256 must be"),
    ],
)
def test_a_damaged_or_wrong_file_raises_an_error_with_its_path(folder, content, fact):
    file = folder / "mnist" / "train-images-idx3-ubyte.gz"
    file.write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match=fact) as error:
        load_mnist(folder)
    assert str(file) in str(error.value)


@pytest.mark.parametrize("damage", [lambda gz: gz[:-20], lambda gz: b"no gzip", lambda gz: b"", "flip"])
def test_a_file_that_cannot_be_decompressed_raises(folder, damage):
    file = folder / "mnist" / "t10k-images-idx3-ubyte.gz"
    content = file.read_bytes()
    if damage == "flip":
        middle = len(content) // 2
        content = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
    else:
        content = damage(content)
    file.write_bytes(content)
    with pytest.raises(ValueError, match="t10k-images"):
        load_mnist(folder)


def test_an_absent_file_is_named(folder):
    (folder / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match="t10k-labels-idx1-ubyte"):
        load_mnist(folder)


def test_without_files_the_images_are_downloaded_once_and_stored(folder, tmp_path, monkeypatch):
    calls = serve(monkeypatch, IMAGES.reshape(8, 784).astype(float), DIGITS.astype(str).astype(object))
    for _ in range(2):
        data = load_mnist(tmp_path / "new")
        np.testing.assert_array_equal(data.images, IMAGES)
        np.testing.assert_array_equal(data.labels, DIGITS)
    assert calls == ["mnist_784"]


def test_a_folder_that_is_not_writable_is_no_reason_to_fail(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("a file where the folder should be")
    serve(monkeypatch, IMAGES.reshape(8, 784).astype(float), DIGITS.astype(str))
    np.testing.assert_array_equal(load_mnist(tmp_path / "file").labels, DIGITS)


def test_other_images_on_openml_are_neither_returned_nor_stored(folder, tmp_path, monkeypatch):
    for pixels in (IMAGES[::-1].reshape(8, 784), IMAGES[:4].reshape(4, 784)):
        serve(monkeypatch, pixels, DIGITS[: len(pixels)])
        with pytest.raises(FileNotFoundError, match="OpenML"):
            load_mnist(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_error_without_network_says_how_to_get_the_files(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        load_mnist(tmp_path)
    message = str(error.value)
    for fact in (
        str(tmp_path),
        "t10k-labels-idx1-ubyte",
        "data_home",
        source.ENVIRONMENT_VARIABLE,
        "no network",
    ):
        assert fact in message


def test_the_real_images_have_the_known_mean_and_class_counts(real_folder):
    data = load_mnist(real_folder("mnist/train-images-idx3-ubyte.gz"))
    assert data.images.shape == (70000, 28, 28)
    assert (data.images.min(), data.images.max()) == (0, 255)
    assert data.images[data.train].mean(dtype=np.float64) / 255 == pytest.approx(0.13066, abs=1e-5)
    counts = np.bincount(data.labels[data.train]).tolist()
    assert counts == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert len(data.labels[data.test]) == 10000
