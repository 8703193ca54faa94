"""Records survive killed writers, full disks and damaged files."""

import resource
import signal
import subprocess
import sys

import pytest

from stablemiss.results import Record, Score, Store


def record(label, **fields):
    return Record("quick", "toy", "mar", 0.5, 0, label, seed=0, scores=(Score("mar", 0.5, 1.0),), **fields)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "records.jsonl")
    with store.appending() as append:
        append(record("a"))
        append(record("b"))
    return store


def test_records_keep_their_order(store):
    assert store.records() == [record("a"), record("b")]


def test_a_later_record_replaces_an_earlier_one_with_the_same_key(store):
    changed = record("a", settings={"seed": 7})
    with store.appending() as append:
        append(changed)
    assert store.records() == [record("b"), changed]


def test_a_failure_does_not_replace_a_success_with_the_same_settings(store):
    failed = record("b", failure="no luck", settings={"other": "settings"})
    with store.appending() as append:
        append(record("a", failure="no luck"))
        append(failed)
    assert store.records() == [record("a"), failed]


# The last two cuts are after an inner closing brace.
LINE = record("c").to_json()


@pytest.mark.parametrize("cut", [1, 5, 40, LINE.index("}") + 1, LINE.rindex("}", 0, -1) + 1])
def test_an_incomplete_line_is_ignored_and_removed_by_the_next_writer(store, cut):
    whole = store.path.read_bytes()
    store.path.write_bytes(whole + record("c").to_json().encode()[:cut])
    assert store.records() == [record("a"), record("b")]
    with store.appending() as append:
        append(record("d"))
    assert store.path.read_bytes() == whole + record("d").to_json().encode() + b"\n"


@pytest.mark.parametrize(
    "damage",
    [
        b'{"experiment": \n',
        b"\r\n",
        b"[1, 2]\n",
        b"\x00\xff\n",
        b'{"experiment": "quick"}\n',
        record("c").to_json().replace("1.0", '"1.0"').encode() + b"\n",
        b"\n",
    ],
)
def test_a_damaged_file_raises_and_is_unchanged(store, damage):
    lines = store.path.read_bytes().splitlines(keepends=True)
    store.path.write_bytes(lines[0] + damage + lines[1])
    before = store.path.read_bytes()
    with pytest.raises(ValueError, match=r"Line 2 of .*records\.jsonl is not a result record"):
        store.records()
    with pytest.raises(ValueError, match="Nothing was written"), store.appending() as append:
        append(record("d"))
    assert store.path.read_bytes() == before


def test_on_a_full_disk_earlier_records_are_kept(store):
    """The limit of the file size is reached in the middle of a line."""
    before = store.path.read_bytes()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="earlier records are safe"), store.appending() as append:
            append(record("c"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert store.path.read_bytes() == before


def test_only_one_process_appends_at_a_time(store):
    program = (
        "import sys\nfrom stablemiss.results import Store\nwith Store(sys.argv[1]).appending():\n    pass\n"
    )
    call = [sys.executable, "-c", program, str(store.path)]
    with store.appending():
        busy = subprocess.run(call, capture_output=True, text=True, check=False)
    assert "BlockingIOError: Another process is writing to" in busy.stderr
    assert subprocess.run(call, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("rest", [b"my notes", b"[1, 2]", b"{}"])
def test_an_ending_that_is_not_an_incomplete_record_raises_and_is_not_removed(store, rest):
    before = store.path.read_bytes() + rest
    store.path.write_bytes(before)
    with pytest.raises(ValueError, match=r"Line 3 of .* is not a result record"), store.appending():
        pass
    assert store.path.read_bytes() == before


def test_a_last_record_without_its_newline_is_a_record(store):
    store.path.write_bytes(store.path.read_bytes().removesuffix(b"\n"))
    assert store.records() == [record("a"), record("b")]
    with store.appending() as append:
        append(record("c"))
    assert store.records() == [record("a"), record("b"), record("c")]


def test_unicode_line_separators_within_a_record_are_kept(store):
    with store.appending() as append:
        append(record("c\u2028d\x85e"))
        append(record("f"))
    assert [stored.label for stored in store.records()] == ["a", "b", "c\u2028d\x85e", "f"]


def test_non_finite_numbers_raise(store):
    with pytest.raises(ValueError, match="JSON compliant"), store.appending() as append:
        append(record("c", fit_seconds=float("nan")))
    assert store.records() == [record("a"), record("b")]
