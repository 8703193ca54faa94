"""The model file: whatever goes in comes out the same, and nothing else is taken for a model."""

import json
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save

from stablemiss.estimators.archive import FORMAT, ArchiveError, checksum, pack, read_tree, unpack, write_tree

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
    """Equal in kind and content, to the last bit."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list | tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b or (a != a and b != b)


@settings(deadline=None)
@given(trees)
def test_packing_and_unpacking_changes_nothing(tree):
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
        "column by column",
        "strided",
        "big-endian",
        "empty",
        "no dimension",
    ],
)
def test_unusual_arrays_come_back_from_a_file(array, tmp_path):
    path = tmp_path / "model"
    write_tree(path, {"array": array})
    back = read_tree(path)["array"]
    assert back.shape == array.shape
    assert back.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(back, array)
    assert back.flags.f_contiguous == array.flags.f_contiguous


@pytest.mark.parametrize(
    "thing", [object(), {1: 2}, {"a"}, 1j, np.array([1j]), np.array("2020", dtype="M8[D]")]
)
def test_what_a_file_cannot_hold_is_refused(thing, tmp_path):
    with pytest.raises(TypeError, match="A model file cannot hold this "):
        write_tree(tmp_path / "model", [thing])
    assert not list(tmp_path.iterdir())


def test_an_array_that_a_file_cannot_hold_is_called_by_its_dtype(tmp_path):
    with pytest.raises(TypeError, match=r"cannot hold this array of datetime64\[D\]"):
        write_tree(tmp_path / "model", np.array(["2020-01-01"], dtype="M8[D]"))


@pytest.fixture
def model(tmp_path):
    """A valid file and its bytes."""
    path = tmp_path / "model"
    write_tree(path, {"numbers": np.arange(50.0), "text": "hello"})
    return path, path.read_bytes()


def test_the_file_is_plain_safetensors_and_names_its_format(model):
    _, content = model
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert header["__metadata__"]["format"] == FORMAT
    assert header["__metadata__"]["format_version"] == "2"


@pytest.mark.parametrize("keep", [0, 4, 100, 300, -1])
def test_a_truncated_file_is_refused(model, keep):
    path, content = model
    path.write_bytes(content[:keep])
    with pytest.raises(ArchiveError, match="is not a stablemiss model, or was cut short"):
        read_tree(path)


def test_any_changed_byte_is_noticed(model):
    path, content = model
    for position in range(0, len(content), 7):
        edited = bytearray(content)
        edited[position] ^= 1
        path.write_bytes(edited)
        with pytest.raises(ArchiveError):
            read_tree(path)


def test_edited_text_and_numbers_are_called_edited(model):
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
def test_foreign_files_are_refused(content, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="is not a stablemiss model"):
        read_tree(path)


def test_other_peoples_safetensors_and_folders_are_refused(tmp_path):
    path = tmp_path / "theirs.safetensors"
    path.write_bytes(save({"weight": np.zeros(3)}))
    with pytest.raises(ArchiveError, match="is a safetensors file, but not a stablemiss model"):
        read_tree(path)
    with pytest.raises(ArchiveError, match="is a folder; give the path of the model file"):
        read_tree(tmp_path)


def test_other_peoples_kinds_of_numbers_are_refused_unread(tmp_path):
    header = json.dumps({"weight": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "theirs.safetensors"
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
        '{"objects": {"dtype": "O", "shape": [7], "items": []}}',
    ],
    ids=lambda document: document[:20],
)
def test_a_document_without_sense_is_refused_although_its_checksum_is_right(document, tmp_path):
    header = {
        "format": FORMAT,
        "format_version": "2",
        "document": document,
        "sha256": checksum(2, document, {}),
    }
    path = tmp_path / "model"
    path.write_bytes(save({}, metadata=header))
    with pytest.raises(ArchiveError, match="its content makes no sense"):
        read_tree(path)


def test_a_newer_format_asks_for_an_update(model):
    path, content = model
    path.write_bytes(content.replace(b'"format_version":"2"', b'"format_version":"3"'))
    with pytest.raises(ArchiveError, match=r"newer stablemiss \(format 3; .*Update stablemiss"):
        read_tree(path)


def test_an_older_format_says_what_to_do(model):
    path, content = model
    path.write_bytes(content.replace(b'"format_version":"2"', b'"format_version":"1"'))
    with pytest.raises(ArchiveError, match=r"older stablemiss \(format 1; .*Fit and save the model again"):
        read_tree(path)


def test_a_missing_file_and_a_missing_folder_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file '.*absent'"):
        read_tree(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match=r"The folder .*nowhere for .* does not exist; create it"):
        write_tree(tmp_path / "nowhere" / "model", {})


def test_a_failed_save_loses_nothing(model, monkeypatch):
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
