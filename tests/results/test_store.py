"""Rows survive killed writers, full disks and damaged files."""

import json
import resource
import signal
import subprocess
import sys

import pytest

from stablemiss.experiments.store import Store


def row(key, error=None):
    return {
        "key": key,
        "budget": "quick",
        "scores": [{"mechanism": "mar", "level": 0.5, "rmse": 1.0}],
        "error": error,
    }


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "rows.jsonl")
    with made.adding() as add:
        add(row("a"))
        add(row("b"))
    return made


def test_rows_come_back_in_the_order_they_came(store):
    assert store.rows() == [row("a"), row("b")]


def test_of_two_rows_of_a_key_the_last_counts(store):
    with store.adding() as add:
        add({**row("a"), "seed": 7})
    assert store.rows() == [row("b"), {**row("a"), "seed": 7}]


def test_a_failure_does_not_hide_scores_made_with_the_same_settings(store):
    with store.adding() as add:
        add(row("a", error="no luck"))
        add({**row("b", error="no luck"), "given": "other settings"})
    assert store.rows() == [row("a"), {**row("b", error="no luck"), "given": "other settings"}]


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_half_a_line_is_not_read_and_cut_off_by_the_next_writer(store, cut):
    whole = store.path.read_bytes()
    store.path.write_bytes(whole + json.dumps(row("c")).encode()[:cut])
    assert store.rows() == [row("a"), row("b")]
    with store.adding() as add:
        add(row("d"))
    assert store.path.read_bytes() == whole + json.dumps(row("d")).encode() + b"\n"


@pytest.mark.parametrize(
    "damage",
    [
        b'{"key": \n',
        b"\r\n",
        b'{"key": "c", "budget": "quick", "scores": [{}], "error": null}\n',
        b"[1, 2]\n",
        b"\x00\xff\n",
        b'{"key": "c"}\n',
        json.dumps({**row("c"), "scores": [{"mechanism": "mar", "level": 0.5, "rmse": None}]}).encode()
        + b"\n",
        b'{"key": "c", "budget": "quick", "scores": [], "error": null, "label": "ols"}\n',
        b"\n",
    ],
)
def test_a_damaged_file_is_named_and_left_as_it_is(store, damage):
    lines = store.path.read_bytes().splitlines(keepends=True)
    store.path.write_bytes(lines[0] + damage + lines[1])
    before = store.path.read_bytes()
    with pytest.raises(ValueError, match=r"Line 2 of .*rows\.jsonl is no result row"):
        store.rows()
    with pytest.raises(ValueError, match="Nothing was written"), store.adding() as add:
        add(row("d"))
    assert store.path.read_bytes() == before


def test_a_full_disk_loses_nothing_and_says_so(store):
    """The system refuses to let the file grow, in the middle of a line."""
    before = store.path.read_bytes()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="the rows before it are safe"), store.adding() as add:
            add(row("c"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert store.path.read_bytes() == before


def test_only_one_run_adds_at_a_time(store):
    other = (
        "import sys\n"
        "from stablemiss.experiments.store import Store\n"
        "with Store(sys.argv[1]).adding():\n"
        "    pass\n"
    )
    call = [sys.executable, "-c", other, str(store.path)]
    with store.adding():
        busy = subprocess.run(call, capture_output=True, text=True, check=False)
    assert "BlockingIOError: Another run is adding to" in busy.stderr
    assert subprocess.run(call, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("rest", [b"notes of mine", b"[1, 2]", b"{}"])
def test_an_end_that_no_writer_left_is_not_cut_off(store, rest):
    before = store.path.read_bytes() + rest
    store.path.write_bytes(before)
    with pytest.raises(ValueError, match=r"Line 3 of .* is no result row"), store.adding():
        pass
    assert store.path.read_bytes() == before


def test_a_last_row_without_its_newline_is_a_row(store):
    store.path.write_bytes(store.path.read_bytes().removesuffix(b"\n"))
    assert store.rows() == [row("a"), row("b")]
    with store.adding() as add:
        add(row("c"))
    assert store.rows() == [row("a"), row("b"), row("c")]


def test_a_return_within_a_line_cuts_nothing_off(store):
    with store.adding() as add:
        add(row("c\u2028d\x85e"))
        add(row("f"))
    assert [found["key"] for found in store.rows()] == ["a", "b", "c\u2028d\x85e", "f"]


def test_numbers_that_json_has_no_word_for_are_refused(store):
    with pytest.raises(ValueError, match="JSON compliant"), store.adding() as add:
        add({**row("c"), "scores": [float("nan")]})
    assert store.rows() == [row("a"), row("b")]
