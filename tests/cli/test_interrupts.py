import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stablemiss.cli.interrupts import (
    EXIT_CODE,
    GRACE_SECONDS,
    NOTHING_WRITTEN,
    interruption,
    removed_if_interrupted,
)

# A command ends within this time after Ctrl-C.
PROMISED_SECONDS = 3.0


def test_an_unfinished_file_is_known_while_it_is_written():
    path = Path("unfinished")
    with removed_if_interrupted(path):
        assert path in interruption.unfinished
    assert path not in interruption.unfinished


def interrupt(work, tmp_path, n_signals=1):
    """Run `work` in a process that handles Ctrl-C as commands do, and interrupt it when it says "ready"."""
    program = (
        "import sys, time, os\n"
        "from pathlib import Path\n"
        "from stablemiss.cli.interrupts import interruption, removed_if_interrupted, watch_interrupts\n"
        "watch_interrupts()\n"
        "def ready(): print('ready', flush=True)\n"
        f"{work}"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout.readline() == "ready\n"
    for _ in range(n_signals - 1):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors, time.monotonic() - start


def is_quick(seconds_of_attempt, limit):
    """Whether an attempt takes less than `limit` seconds. Other programs may delay one attempt, not three."""
    return any(seconds_of_attempt() < limit for _ in range(3))


# Ignores the exception that Python raises, as if it ran compiled code.
UNINTERRUPTIBLE = (
    "end, is_ready = time.monotonic() + 30, False\n"
    "while time.monotonic() < end:\n"
    "    try:\n"
    "        is_ready = is_ready or ready() is None\n"
    "        time.sleep(30)\n"
    "    except KeyboardInterrupt:\n"
    "        pass\n"
)


def test_a_process_that_does_not_react_is_ended(tmp_path):
    def attempt():
        code, errors, seconds = interrupt(UNINTERRUPTIBLE, tmp_path)
        assert code == EXIT_CODE
        assert errors == f"{NOTHING_WRITTEN}\n"
        return seconds

    assert is_quick(attempt, PROMISED_SECONDS)


def test_unfinished_files_are_deleted(tmp_path):
    (tmp_path / "unfinished").write_text("half")
    work = "with removed_if_interrupted(Path('unfinished')):\n" + "".join(
        f"    {line}\n" for line in UNINTERRUPTIBLE.splitlines()
    )
    assert interrupt(work, tmp_path)[0] == EXIT_CODE
    assert not (tmp_path / "unfinished").exists()


def test_the_second_signal_ends_the_process_at_once(tmp_path):
    def attempt():
        work = "interruption.message = 'Half done.'\n" + UNINTERRUPTIBLE
        code, errors, seconds = interrupt(work, tmp_path, n_signals=2)
        assert code == EXIT_CODE
        assert errors == "Half done.\n"
        return seconds

    # With a single signal, the process would wait for the rest of these seconds.
    assert is_quick(attempt, GRACE_SECONDS / 2)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.05, 1.5, 8.0])
def test_an_interrupted_fit_writes_nothing_but_a_sentence(tmp_path, delay):
    """While the command is starting, while torch is being imported, or during the fit."""
    rows = "\n".join(f"{i % 97},{i % 89},{i % 83},{i % 7}" for i in range(60_000))
    (tmp_path / "a.csv").write_text(f"x,y,z,w\n{rows}")
    program = "from stablemiss.cli import main; print('ready', flush=True); main()"

    def attempt():
        process = subprocess.Popen(
            [sys.executable, "-c", program, "fit", "a.csv", "--target", "y"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        seconds = time.monotonic() - start
        assert process.returncode == EXIT_CODE
        assert output == ""
        assert errors.strip() == NOTHING_WRITTEN
        assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
        return seconds

    assert is_quick(attempt, PROMISED_SECONDS)
