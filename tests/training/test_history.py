"""Training history."""

from stablemiss.training import History


def test_the_best_score_belongs_to_the_kept_epoch_and_epoch_zero_is_before_training():
    history = History("weights", scores=[1.0, 2.0, 3.0], losses=[(0.5,), (0.4,)])
    assert history.best_epoch == 0
    assert history.best_score == 1.0
    history.best_epoch = 2
    assert history.best_score == 3.0
