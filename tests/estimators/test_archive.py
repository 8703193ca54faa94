"""The model file: trees are restored exactly, and other files are rejected."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save

from stablemiss.estimators.archive import (
    FORMAT,
    FORMAT_VERSION,
    ArchiveError,
    checksum,
    pack,
    read_tree,
    unpack,
    write_tree,
)

plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("long " * 400)
arrays = hnp.arrays(
    dtype=st.sampled_from([np.float64, np.float32, np.int64, np.int8, np.uint8, np.bool_, "<U3"]),
    shape=hnp.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=3),
)
trees = st.recursive(
    plain | arrays,
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


def assert_same(a, b):
    """Equal in type and content, bit by bit."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list | tuple):
        assert len(a) == len(b)
        for item_a, item_b in zip(a, b, strict=True):
            assert_same(item_a, item_b)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b or (a != a and b != b)


@settings(deadline=None)
@given(trees)
def test_packing_and_unpacking_restores_the_tree(tree):
    tensors = {}
    document = json.loads(json.dumps(pack(tree, tensors), allow_nan=False))
    assert_same(unpack(document, tensors), tree)


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a", "bb", "é"], dtype=object),
        np.array(["x", 1, 2.5, None, True], dtype=object),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12.0).reshape(3, 4)[:, ::2],
        np.arange(3, dtype=">f8"),
        np.zeros((0, 3)),
        np.array(1.5),
    ],
    ids=[
        "text objects",
        "mixed objects",
        "Fortran order",
        "strided",
        "big-endian",
        "empty",
        "zero-dimensional",
    ],
)
def test_unusual_arrays_are_restored_from_a_file(array, tmp_path):
    path = tmp_path / "model"
    write_tree(path, {"array": array})
    restored = read_tree(path)["array"]
    assert restored.shape == array.shape
    assert restored.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(restored, array)
    assert restored.flags.f_contiguous == array.flags.f_contiguous


@pytest.mark.parametrize(
    "thing", [object(), {1: 2}, {"a"}, 1j, np.array([1j]), np.array("2020", dtype="M8[D]")]
)
def test_values_that_a_file_cannot_store_raise(thing, tmp_path):
    with pytest.raises(TypeError, match="cannot store this "):
        write_tree(tmp_path / "model", [thing])
    assert not list(tmp_path.iterdir())


def test_the_dtype_of_an_array_that_a_file_cannot_store_is_named(tmp_path):
    with pytest.raises(TypeError, match=r"cannot store this array of datetime64\[D\]"):
        write_tree(tmp_path / "model", np.array(["2020-01-01"], dtype="M8[D]"))


@pytest.fixture
def model(tmp_path):
    """A valid file and its bytes."""
    path = tmp_path / "model"
    write_tree(path, {"numbers": np.arange(50.0), "text": "hello"})
    return path, path.read_bytes()


def test_the_file_is_safetensors_and_names_its_format(model):
    _, content = model
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert header["__metadata__"]["format"] == FORMAT
    assert header["__metadata__"]["format_version"] == str(FORMAT_VERSION)


@pytest.mark.parametrize("keep", [0, 4, 100, 300, -1])
def test_a_truncated_file_is_rejected(model, keep):
    path, content = model
    path.write_bytes(content[:keep])
    with pytest.raises(ArchiveError, match=r"not a stablemiss model.*truncated"):
        read_tree(path)


def test_any_changed_byte_is_detected(model):
    path, content = model
    for position in range(0, len(content), 7):
        edited = bytearray(content)
        edited[position] ^= 1
        path.write_bytes(edited)
        with pytest.raises(ArchiveError):
            read_tree(path)


def test_edited_text_and_numbers_are_reported_as_edited(model):
    path, content = model
    for edited in (content.replace(b"hello", b"hallo"), content[:-1] + b"\x7f"):
        path.write_bytes(edited)
        with pytest.raises(ArchiveError, match="does not match its checksum: the file was edited or damaged"):
            read_tree(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", os.urandom(5000), pickle.dumps({"a": 1}), b"PK\x03\x04" + bytes(100)],
    ids=["empty", "text", "noise", "pickle", "zip"],
)
def test_other_files_are_rejected(content, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="is not a stablemiss model"):
        read_tree(path)


def test_other_safetensors_files_and_folders_are_rejected(tmp_path):
    path = tmp_path / "other.safetensors"
    path.write_bytes(save({"weight": np.zeros(3)}))
    with pytest.raises(ArchiveError, match="is a safetensors file, but not a stablemiss model"):
        read_tree(path)
    with pytest.raises(ArchiveError, match="is a folder; give the path of the model file"):
        read_tree(tmp_path)


def test_tensors_of_other_types_are_rejected_unread(tmp_path):
    header = json.dumps({"weight": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "other.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ArchiveError, match="is a safetensors file, but not a stablemiss model"):
        read_tree(path)


@pytest.mark.parametrize(
    "document",
    [
        "",
        "{",
        "[" * 100_000,
        '{"array": "9"}',
        '{"float": "x"}',
        '{"dict": [1]}',
        '{"tuple": [], "dict": {}}',
        '{"objects": {"dtype": "x", "shape": [0], "items": []}}',
        '{"objects": {"dtype": "|O", "shape": [7], "items": []}}',
        '{"objects": {"dtype": "|O", "shape": [-1, -1], "items": ["a"]}}',
        '{"objects": {"dtype": "|O", "shape": [1], "items": [[1]]}}',
        '{"objects": {"dtype": "<U3", "shape": [1], "items": [1]}}',
        '{"objects": {"dtype": "<f8", "shape": [1], "items": [1]}}',
        # 2 GB for one letter, and a type that would cut it off.
        '{"objects": {"dtype": "<U500000000", "shape": [1], "items": ["a"]}}',
        '{"objects": {"dtype": "<U1", "shape": [1], "items": ["ab"]}}',
        "[NaN]",
        "[-Infinity]",
        "[1e999]",
        "[1" + 100 * "0" + "]",
        "[1" + 9000 * "0" + "]",
        '{"float": "1e5"}',
        '{"dict": {"a": 1, "a": 2}}',
        '{"unknown": 1}',
        # Deeper than any model, but not too deep for the parser.
        100 * "[" + 100 * "]",
    ],
    ids=lambda document: document[:60],
)
def test_an_invalid_document_with_a_valid_checksum_is_rejected(document, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(with_checksum(document))
    with pytest.raises(ArchiveError, match="its content is invalid"):
        read_tree(path)


@pytest.mark.parametrize("names", [["0"], ["0", "0", "1"], ["0", "1", "2"]], ids=["less", "twice", "absent"])
def test_every_tensor_belongs_to_one_place_of_the_document(names, tmp_path):
    """If one tensor could occur many times, a small file could need much memory."""
    tensors = {"0": np.zeros(2), "1": np.frombuffer(b"text", dtype=np.uint8)}
    kinds = {"0": "array", "1": "text", "2": "array"}
    path = tmp_path / "model"
    path.write_bytes(with_checksum(json.dumps([{kinds[name]: name} for name in names]), tensors))
    with pytest.raises(ArchiveError, match="its content is invalid"):
        read_tree(path)


def test_pipes_and_devices_are_rejected_unread(tmp_path):
    """To read a pipe would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero")):
        with pytest.raises(ArchiveError, match="is a pipe or a device"):
            read_tree(path)


@pytest.mark.parametrize(
    "version", [str(FORMAT_VERSION + 1), "1", "x", "9" * 5000], ids=["newer", "earlier", "text", "long"]
)
def test_no_tensor_of_another_version_is_read(version, tmp_path):
    """It has a type that cannot be read."""
    tensor = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    metadata = {"format": FORMAT, "format_version": version}
    header = json.dumps({"__metadata__": metadata, "weight": tensor}).encode()
    path = tmp_path / "model"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ArchiveError, match=r"Update stablemiss|fitted and saved again|no valid version"):
        read_tree(path)


def test_a_large_header_is_neither_read_nor_written(model, monkeypatch):
    path, content = model
    monkeypatch.setattr("stablemiss.estimators.archive.MAX_HEADER_BYTES", 200)
    with pytest.raises(ArchiveError, match="its header is too large"):
        read_tree(path)
    with pytest.raises(ValueError, match=r"categories .* MB"):
        write_tree(path, ["a category"] * 100)
    assert path.read_bytes() == content


def with_checksum(document, tensors=None):
    """The bytes of a file with this document and a correct checksum."""
    tensors = tensors or {}
    header = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "document": document,
        "sha256": checksum(FORMAT_VERSION, document, tensors),
    }
    return save(tensors, metadata=header)


def with_format_version(content, version):
    """The bytes of a file that names another version of the format."""
    return content.replace(
        f'"format_version":"{FORMAT_VERSION}"'.encode(), f'"format_version":"{version}"'.encode()
    )


def test_a_newer_format_asks_for_an_update(model):
    path, content = model
    path.write_bytes(with_format_version(content, FORMAT_VERSION + 1))
    with pytest.raises(ArchiveError, match=rf"newer.*format {FORMAT_VERSION + 1}.*Update stablemiss"):
        read_tree(path)


@pytest.mark.parametrize("version", range(1, FORMAT_VERSION))
def test_an_earlier_format_asks_to_fit_the_model_again_in_one_sentence(model, version):
    path, content = model
    path.write_bytes(with_format_version(content, version))
    with pytest.raises(ArchiveError, match=rf"earlier format \({version};.*fitted and saved again") as caught:
        read_tree(path)
    assert str(caught.value).replace(str(path), "").count(".") == 1


def test_a_file_or_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file '.*absent'"):
        read_tree(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match=r"The folder .*nowhere for .* does not exist; create it"):
        write_tree(tmp_path / "nowhere" / "model", {})


def test_a_failed_save_leaves_the_existing_file_unchanged(model, monkeypatch):
    path, content = model

    def full_disk(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_tree(path, {"new": 1})
    with pytest.raises(TypeError):
        write_tree(path, {"new": object()})
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]
