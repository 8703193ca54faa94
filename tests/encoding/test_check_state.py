"""An encoder from a manipulated file raises an error."""

import copy

import numpy as np
import pytest

from stablemiss.encoding import TableEncoder, read_table
from stablemiss.tasks import Regression

N = 40


@pytest.fixture(scope="module")
def encoder():
    """Encoder of a number, few and many categories, a column that was never observed, and a date."""
    rng = np.random.default_rng(0)
    rows = [[i / 7, "ab"[i % 2], f"town {i % 15}", None, f"2020-01-{1 + i % 28:02}"] for i in range(N)]
    y = rng.normal(size=N)
    encoder = TableEncoder()
    encoder.fit_transform(read_table(rows), np.arange(N), y[:, None], Regression.of(y), rng)
    return encoder


def with_first(value):
    return lambda old: np.array([value, *old[1:]], dtype=old.dtype)


def shorter(old):
    return old[:-1]


# Path of the changed entry, and its new value or a function of the old one.
MANIPULATIONS = [
    ("mean", with_first(np.nan)),
    ("mean", with_first(np.inf)),
    ("mean", shorter),
    ("mean", lambda old: old.astype(np.float32)),
    ("scale", with_first(np.nan)),
    ("scale", with_first(0.0)),
    ("scale", with_first(-1.0)),
    ("scale", shorter),
    ("scale", "1"),
    ("groups", with_first(4)),
    ("groups", with_first(-1)),
    ("groups", shorter),
    ("groups", lambda old: old[::-1].copy()),
    ("groups", lambda old: old + 0.0),
    ("kinds", lambda old: ["of its own", *old[1:]]),
    ("kinds", lambda old: ["categories", *old[1:]]),
    ("kinds", lambda old: [old[0], "numbers", *old[2:]]),
    ("kinds", lambda old: [*old[:-1], "numbers"]),
    ("kinds", shorter),
    ("kinds", []),
    ("ever_missing", shorter),
    ("ever_missing", lambda old: old.astype(float)),
    ("names", ["a"]),
    ("names", [1, 2, 3, 4, 5]),
    ("names", ["a", "b", "c", "d", "e"]),
    ("is_numbered", "yes"),
    ("date_features", 1),
    ("max_one_hot", 1),
    ("max_one_hot", 3.5),
    ("categories.1", ["a", "a"]),
    ("categories.1", ["a", 2]),
    ("categories.1", ["a", "b", "c"]),
    ("categories.1", []),
    ("categories.0", ["a", "b"]),
    ("embedding.1", np.array([[0.0], [np.nan]])),
    ("embedding.1", np.zeros((2, 2))),
    ("embedding.1", np.zeros((2, 0))),
    ("embedding.0", np.zeros((2, 1))),
    ("dates.4.parts", shorter),
    ("dates.4.parts", lambda old: ["century", *old[1:]]),
    ("dates.4.parts", lambda old: [old[1], *old[1:]]),
    ("dates.4.text_format.day_first", "maybe"),
    ("dates.4.text_format.is_time_of_day", None),
    ("dates.4.text_format.unknown", True),
    ("dates.0", {}),
    ("ranges.minimum", shorter),
    ("ranges.maximum", with_first(np.nan)),
    ("ranges.lower", with_first(np.nan)),
    ("ranges.lower", with_first(1e9)),
    ("ranges.upper", "high"),
    ("ranges.middle", np.zeros(11)),
    ("column_report", shorter),
    ("column_report", [1] * 5),
]


@pytest.mark.parametrize(("path", "value"), MANIPULATIONS)
def test_a_manipulated_state_raises(encoder, path, value):
    state = copy.deepcopy(encoder.state())
    node, (*parents, last) = state, path.split(".")
    for key in parents:
        node = node[key]
    node[last] = value(node[last]) if callable(value) else value
    with pytest.raises((ValueError, KeyError)):
        TableEncoder.from_state(state)


def test_the_unchanged_state_is_valid(encoder):
    assert TableEncoder.from_state(encoder.state()).groups.tolist() == [0, 1, 2, 3, *[4] * 7]


def test_a_missing_entry_raises(encoder):
    for key in encoder.state():
        state = encoder.state()
        del state[key]
        with pytest.raises(KeyError):
            TableEncoder.from_state(state)
