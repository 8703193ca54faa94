from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from stablemiss.datasets.source import ENVIRONMENT_VARIABLE, Source, check_digest, data_folder

CONTENT = b"a,b\n1,2\n"


def make_source(fetch, content: bytes = CONTENT) -> Source:
    return Source(
        "The numbers", "folder/numbers.csv", hashlib.sha256(content).hexdigest(), "https://page", fetch
    )


def no_fetch() -> bytes:
    raise OSError("the network is unreachable")


def put(folder: Path, content: bytes) -> Path:
    file = folder / "folder" / "numbers.csv"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return file


def test_the_argument_takes_precedence_over_the_environment_and_that_over_the_home_folder(
    tmp_path, monkeypatch
):
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "environment"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder(tmp_path / "argument") == tmp_path / "argument"
    assert data_folder() == tmp_path / "environment"
    monkeypatch.delenv(ENVIRONMENT_VARIABLE)
    assert data_folder() == tmp_path / ".cache" / "stablemiss"


def test_a_file_in_the_folder_is_read_without_download(tmp_path):
    put(tmp_path, CONTENT)
    assert make_source(no_fetch).read(tmp_path) == CONTENT.decode()


def test_a_file_that_does_not_exist_is_downloaded_once(tmp_path):
    calls = []

    def fetch() -> bytes:
        calls.append(1)
        return CONTENT

    source = make_source(fetch)
    assert source.read(tmp_path) == source.read(tmp_path) == CONTENT.decode()
    assert len(calls) == 1
    assert (tmp_path / "folder" / "numbers.csv").read_bytes() == CONTENT


def test_the_error_without_network_says_how_to_get_the_file(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        make_source(no_fetch).read(tmp_path)
    message = str(error.value)
    for fact in (
        str(tmp_path),
        "numbers.csv",
        "https://page",
        "data_home",
        ENVIRONMENT_VARIABLE,
        "unreachable",
    ):
        assert fact in message
    assert not (tmp_path / "folder").exists()


def test_a_folder_that_is_not_writable_gives_the_same_error(tmp_path):
    (tmp_path / "folder").write_text("a file where the folder should be")
    with pytest.raises(FileNotFoundError, match=r"download numbers\.csv from https://page"):
        make_source(lambda: CONTENT).read(tmp_path)


def test_the_error_for_a_corrupt_file_contains_its_path_and_both_digests(tmp_path):
    file = put(tmp_path, CONTENT[:-1])
    with pytest.raises(ValueError) as error:
        make_source(no_fetch).read(tmp_path)
    for fact in (
        str(file),
        hashlib.sha256(CONTENT).hexdigest(),
        hashlib.sha256(CONTENT[:-1]).hexdigest(),
    ):
        assert fact in str(error.value)


def test_a_download_in_another_format_is_checked_against_its_own_digest(tmp_path):
    downloaded = b"b,a\n2,1\n"
    source = make_source(lambda: downloaded)
    assert source.read(tmp_path) == downloaded.decode()
    assert source.read(tmp_path) == downloaded.decode()
    file = tmp_path / "folder" / "numbers.csv"
    file.write_bytes(downloaded[:-2])
    with pytest.raises(ValueError, match=hashlib.sha256(downloaded).hexdigest()):
        source.read(tmp_path)
    file.write_bytes(CONTENT)  # the original file is accepted too
    assert source.read(tmp_path) == CONTENT.decode()


def test_check_digest_raises_only_if_the_digest_differs():
    check_digest(CONTENT, hashlib.md5(CONTENT).hexdigest(), "numbers", "md5")
    with pytest.raises(ValueError, match="numbers is corrupt"):
        check_digest(CONTENT, "0" * 64, "numbers")
