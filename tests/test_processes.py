"""Worker processes end when the process that started them is killed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Clusters of two processes at a time would compete for ports.
pytestmark = pytest.mark.xdist_group("clusters")

# Start two workers.
PROGRAMS = {
    "tuning": """
from stablemiss.tuning.workers import ProcessWorkers
with ProcessWorkers(2) as workers:
    for future in [workers.submit(work, folder) for _ in range(2)]:
        future.result()
""",
    "experiments": """
from stablemiss.experiments.workers import Workers
list(Workers(2, backend).map(work, [folder] * 2))
""",
}
# A worker writes its process number and computes for a minute.
WORK = """
import os, sys, time
from pathlib import Path

def work(folder):
    Path(folder, str(os.getpid())).touch()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass

if __name__ == "__main__":
    folder, backend = sys.argv[1:]
"""


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    assert condition()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "backend"),
    [("tuning", "loky"), ("experiments", "loky"), ("experiments", "dask"), ("experiments", "ray")],
)
def test_workers_end_when_their_parent_is_killed(program, backend, tmp_path):
    if backend != "loky":
        pytest.importorskip({"dask": "distributed", "ray": "ray"}[backend])
    body = PROGRAMS[program].strip().replace("\n", "\n    ")
    (tmp_path / "program.py").write_text(f"{WORK}    {body}\n")
    folder = tmp_path / "pids"
    folder.mkdir()
    parent = subprocess.Popen([sys.executable, tmp_path / "program.py", folder, backend])
    try:
        wait_until(lambda: len(list(folder.iterdir())) == 2, 60)
    finally:
        parent.kill()
        parent.wait()
    workers = [int(path.name) for path in folder.iterdir()]
    assert os.getpid() not in workers
    wait_until(lambda: not any(map(is_running, workers)), 20)
