"""Early stopping keeps the parameters of the best epoch."""

import pytest
import torch
from torch import nn

from stablemiss.training import EarlyStopping


def number(value=0.0):
    """A module with a single number as parameter."""
    return nn.ParameterList([torch.tensor([value])])


def set_to(module, value):
    with torch.no_grad():
        module[0].fill_(value)


@pytest.mark.parametrize(
    ("scores", "patience", "stops", "best"),
    [
        ([5, 4, 3, 2, 1], 1, [False] * 5, 4),
        ([5, 4, 4, 3, 9, 9], 2, [False, False, False, False, False, True], 3),
        ([1, 2, 0, 3, 3, 3], 3, [False, False, False, False, False, True], 2),
        ([1, 1, 1], 2, [False, False, True], 0),
    ],
)
def test_patience_counts_the_epochs_since_the_best_score(scores, patience, stops, best):
    stopping = EarlyStopping(number(), patience)
    assert [stopping.update(epoch, score) for epoch, score in enumerate(scores)] == stops
    assert stopping.best_epoch == best
    assert stopping.best_score == scores[best]


def test_scores_close_to_the_best_do_not_count_against_patience():
    """4.04 is within 2% of 4 and starts the count again; 4.2 is not."""
    stopping = EarlyStopping(number(), patience=2, tolerance=0.02)
    scores = [5.0, 4.0, 4.2, 4.04, 4.2, 4.2]
    assert [stopping.update(epoch, score) for epoch, score in enumerate(scores)] == [False] * 5 + [True]
    assert stopping.best_epoch == 1


def test_restore_best_loads_the_best_epoch_and_restarts_the_patience():
    module = number()
    stopping = EarlyStopping(module, patience=1)
    for epoch, score in enumerate([3.0, 1.0, 2.0]):
        set_to(module, float(epoch))
        stops = stopping.update(epoch, score)
    assert stops
    stopping.restore_best(2)
    assert module[0].item() == 1.0
    assert not stopping.update(2, 2.0)
    assert stopping.update(3, 2.0)


def test_a_score_that_is_not_a_number_is_never_the_best():
    module = number(7.0)
    stopping = EarlyStopping(module, patience=2)
    set_to(module, 1.0)
    assert not stopping.update(1, float("nan"))
    stopping.restore_best(1)
    assert module[0].item() == 7.0


def test_buffers_are_restored_too():
    norm = nn.BatchNorm1d(1)
    stopping = EarlyStopping(norm, patience=1)
    stopping.update(0, 1.0)
    norm(torch.randn(8, 1, generator=torch.Generator().manual_seed(0)) + 5.0)
    assert norm.running_mean.item() != 0.0
    stopping.restore_best(0)
    assert norm.running_mean.item() == 0.0


def test_a_score_that_falls_again_does_not_end_training_if_only_rising_ones_do():
    scores = [1.0, 1.2, 1.4, 1.3, 1.35, 1.5]
    plain, rising = (EarlyStopping(number(), patience=2, only_if_rising=wanted) for wanted in (False, True))
    assert [plain.update(*pair) for pair in enumerate(scores)].index(True) == 2
    assert [rising.update(*pair) for pair in enumerate([1.0, 1.4, 1.2, 1.3, 1.35, 1.5])].index(True) == 5
    # A better score begins anew.
    rising = EarlyStopping(number(), patience=2, only_if_rising=True)
    assert [rising.update(*pair) for pair in enumerate([1.0, 3.0, 0.9, 1.1, 1.2])] == [False] * 4 + [True]
