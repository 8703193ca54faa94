"""Ctrl-C ends a fit of 20,000 rows of 18 columns within three seconds, whatever it is doing."""

import subprocess
import sys
from signal import SIGINT
from time import monotonic, sleep

import pytest

# A first, tiny fit loads the parts of torch that are loaded on demand, which takes a second by itself.
FIT = """
import os, sys
import numpy as np, torch
from stablemiss.anymask import AnyMask
from stablemiss.data import MaskedData
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression

class Printed(NullProgress):
    def start(self, description, total=None):
        print(description, flush=True)

def fit(method, n, progress):
    rng = to_rng(0)
    values, mask = rng.normal(size=(n, 18)), rng.random((n, 18)) < 0.8
    target = values[:, 0] * (values[:, 1] > 0) + np.sin(values[:, 2]) + 0.5 * rng.normal(size=n)
    task = Regression.of(target)
    data = MaskedData.of(values, mask, task.encode(target))
    valid = np.arange(n) % 7 == 0
    method.fit(data.rows(np.flatnonzero(~valid)), data.rows(np.flatnonzero(valid)), task, rng, progress)

torch.set_num_threads(int(sys.argv[1]))
fit(AnyMask("fast"), 50, NullProgress())
try:
    fit(AnyMask(members=sys.argv[2].split()), 20_000, Printed())
    print("ready", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_threads", "members", "moment", "delay"),
    [
        (2, "mixture boosting net", "mixture, 1 component", 0.5),
        (2, "mixture boosting net", "mixture, 3 components", 0.5),
        (1, "mixture", "mixture, 2 components", 0.5),
        (2, "boosting net", "boosted trees", 0.0),
        (2, "boosting net", "boosted trees", 2.0),
        (2, "mixture boosting", "mixture's residuals", 0.5),
        (1, "net", "neural network", 1.0),
        (2, "boosting net", "neural network", 1.0),
        (1, "boosting", "combining", 0.0),
    ],
)
def test_ctrl_c_ends_a_fit_within_three_seconds(n_threads, members, moment, delay):
    command = [sys.executable, "-c", FIT, str(n_threads), members]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert any(moment in line for line in process.stdout)
            sleep(delay)
            process.send_signal(SIGINT)
            start = monotonic()
            lines = process.stdout.read().split("\n")
            seconds = monotonic() - start
        finally:
            process.kill()
    assert "interrupted" in lines
    assert seconds < 3
