"""Training history."""

from stablemiss.training import History


def test_the_best_score_belongs_to_the_kept_epoch_and_epoch_zero_is_before_training():
    history = History("weights", scores=[1.0, 2.0, 3.0], losses=[(0.5,), (0.4,)])
    assert history.best_epoch == 0
    assert history.best_score == 1.0
    history.best_epoch = 2
    assert history.best_score == 3.0


def test_without_early_stopping_the_best_score_is_the_only_one():
    assert History("predictor", scores=[0.5], losses=[(1.0,)] * 7, best_epoch=7).best_score == 0.5
