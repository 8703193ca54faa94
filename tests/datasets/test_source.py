from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from stablemiss.datasets.source import ENVIRONMENT, Source, check_digest, data_folder

CONTENT = b"a,b\n1,2\n"


def a_source(fetch, content: bytes = CONTENT) -> Source:
    return Source(
        "The numbers", "few/numbers.csv", hashlib.sha256(content).hexdigest(), "https://page", fetch
    )


def no_fetch() -> bytes:
    raise OSError("the network is unreachable")


def put(folder: Path, content: bytes) -> Path:
    file = folder / "few" / "numbers.csv"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return file


def test_argument_comes_before_environment_before_home(tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "environment"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder(tmp_path / "argument") == tmp_path / "argument"
    assert data_folder() == tmp_path / "environment"
    monkeypatch.delenv(ENVIRONMENT)
    assert data_folder() == tmp_path / ".cache" / "stablemiss"


def test_a_file_in_the_folder_is_read_without_fetching(tmp_path):
    put(tmp_path, CONTENT)
    assert a_source(no_fetch).read(tmp_path) == CONTENT.decode()


def test_an_absent_file_is_fetched_once(tmp_path):
    calls = []

    def fetch() -> bytes:
        calls.append(1)
        return CONTENT

    source = a_source(fetch)
    assert source.read(tmp_path) == source.read(tmp_path) == CONTENT.decode()
    assert len(calls) == 1
    assert (tmp_path / "few" / "numbers.csv").read_bytes() == CONTENT


def test_absent_and_unreachable_is_one_sentence_that_says_how_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        a_source(no_fetch).read(tmp_path)
    message = str(error.value)
    for part in (str(tmp_path), "numbers.csv", "https://page", "data_home", ENVIRONMENT, "unreachable"):
        assert part in message
    assert message.endswith(".")
    assert ". " not in message
    assert not (tmp_path / "few").exists()


def test_a_folder_that_cannot_be_written_gives_the_same_sentence(tmp_path):
    (tmp_path / "few").write_text("a file where the folder should be")
    with pytest.raises(FileNotFoundError, match=r"download numbers\.csv from https://page"):
        a_source(lambda: CONTENT).read(tmp_path)


def test_a_damaged_file_names_itself_and_both_digests(tmp_path):
    file = put(tmp_path, CONTENT[:-1])
    with pytest.raises(ValueError) as error:
        a_source(no_fetch).read(tmp_path)
    for part in (
        str(file),
        hashlib.sha256(CONTENT).hexdigest(),
        hashlib.sha256(CONTENT[:-1]).hexdigest(),
    ):
        assert part in str(error.value)


def test_another_format_of_the_source_is_kept_and_its_damage_noticed(tmp_path):
    other = b"b,a\n2,1\n"
    source = a_source(lambda: other)
    assert source.read(tmp_path) == other.decode()
    assert source.read(tmp_path) == other.decode()
    file = tmp_path / "few" / "numbers.csv"
    file.write_bytes(other[:-2])
    with pytest.raises(ValueError, match=hashlib.sha256(other).hexdigest()):
        source.read(tmp_path)
    file.write_bytes(CONTENT)  # the publisher's own file is welcome whatever was fetched before
    assert source.read(tmp_path) == CONTENT.decode()


def test_check_digest_accepts_the_right_and_refuses_the_wrong():
    check_digest(CONTENT, hashlib.md5(CONTENT).hexdigest(), "numbers", "md5")
    with pytest.raises(ValueError, match="numbers is damaged"):
        check_digest(CONTENT, "0" * 64, "numbers")
