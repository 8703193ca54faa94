"""Manipulated models with a correct checksum neither crash the process nor take much time or memory.

The mutations are made and loaded by fuzz_archive.py in other processes, because some would end this one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fuzz_archive.py")
SEED, N_MUTATIONS, N_BATCHES = 0, 2400, 4
# All batches load the models of one fixture.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("test_archive_fuzz")]


def run(*arguments):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with saved models of all methods."""
    folder = tmp_path_factory.mktemp("models")
    done = run("fit", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("batch", range(N_BATCHES))
def test_manipulated_models_raise_an_archive_error_or_predict(folder, batch):
    size = N_MUTATIONS // N_BATCHES
    done = run("run", folder, SEED, batch * size, (batch + 1) * size)
    lines = done.stdout.splitlines()
    # The process printed each mutation before loading it.
    assert done.returncode == 0, f"{done.returncode} at mutation {lines[-1:]}: {done.stderr[-2000:]}"
    outcomes = json.loads(lines[-1])
    assert sum(outcomes.values()) == size
    assert set(outcomes) <= {"ArchiveError", "finite", "not finite"}
    # Otherwise the mutations would test only the checks of the archive.
    assert outcomes["ArchiveError"] > 0.5 * size
    assert outcomes["finite"] > 0.1 * size
    assert outcomes.get("not finite", 0) < 0.01 * size
