"""The training loop: which parameters it updates, in which order, when it stops, and its final state."""

import math
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from stablemiss.data import MaskedData
from stablemiss.progress import NullProgress
from stablemiss.seeding import draw_seed
from stablemiss.training import Rows, Stage, Step, adamw, loop, run_stages
from stablemiss.training.loop import LR_FACTOR

sgd = partial(torch.optim.SGD, lr=0.1)


def make_rows(n=20):
    x = np.linspace(-1.0, 1.0, n)[:, None]
    return Rows.of(MaskedData.of(x, np.ones_like(x), 2.0 * x), torch.device("cpu"))


def numbers(*values):
    """A module whose parameters are single numbers."""
    return nn.ParameterList([torch.tensor([value]) for value in values])


def run(*stages, seed=0, progress=None):
    return run_stages(stages, np.random.default_rng(seed), progress or NullProgress())


def decrease(module, index=0):
    """A loss whose SGD steps decrease one number by the learning rate."""
    return lambda batch: module[index].sum()


def test_the_best_epoch_is_restored_and_patience_ends_the_stage():
    """The number falls by 0.1 in each epoch from 1.0; the score is best at 0.5, in the fifth epoch."""
    module = numbers(1.0)
    stage = Stage(
        "stage",
        module,
        [Step(decrease(module), list(module), sgd)],
        score=lambda: abs(module[0].item() - 0.5),
        rows=make_rows(),
        max_epochs=50,
        patience=3,
    )
    [history] = run(stage)
    assert module[0].item() == pytest.approx(0.5)
    assert history.best_epoch == 5
    assert history.ending == "patience"
    assert len(history.losses) == 8
    assert len(history.scores) == 9
    assert history.scores[0] == pytest.approx(0.5)
    assert [loss for (loss,) in history.losses] == pytest.approx(np.arange(1.0, 0.25, -0.1))


def test_initial_parameters_are_kept_if_training_only_makes_the_score_worse():
    module = numbers(1.0)
    step = Step(decrease(module), list(module), sgd)
    [history] = run(Stage("stage", module, [step], lambda: -module[0].item(), make_rows(), patience=2))
    assert history.best_epoch == 0
    assert module[0].item() == 1.0


def test_training_ends_after_max_epochs():
    module = numbers(1.0)
    step = Step(decrease(module), list(module), sgd)
    [history] = run(Stage("stage", module, [step], lambda: module[0].item(), make_rows(), max_epochs=4))
    assert (history.ending, history.best_epoch) == ("max_epochs", 4)


def test_without_patience_all_epochs_run_at_the_full_learning_rate_and_the_last_one_is_kept():
    """The number falls by 0.1 in each epoch from 1.0; the score is best at 0.5 and is not looked at."""
    module, modes = numbers(1.0), []

    def score():
        modes.append((module.training, torch.is_grad_enabled()))
        return abs(module[0].item() - 0.5)

    stage = Stage(
        "stage",
        module,
        [Step(decrease(module), list(module), sgd)],
        score,
        make_rows(),
        max_epochs=8,
        patience=None,
        lr_reductions=3,
    )
    [history] = run(stage)
    assert module[0].item() == pytest.approx(0.2)
    assert not module.training
    assert modes == [(False, False)]
    assert history.scores == [history.best_score] == pytest.approx([0.3])
    assert [loss for (loss,) in history.losses] == pytest.approx(np.arange(1.0, 0.25, -0.1))
    assert (history.best_epoch, history.lr_reductions, history.ending) == (8, [], "max_epochs")


def test_up_to_the_best_epoch_training_is_the_same_with_and_without_patience():
    assert noisy_fit(3, patience=None) == noisy_fit(3, patience=10)


def test_a_reduction_restores_the_best_epoch_and_lowers_the_learning_rate():
    """From 1.0, steps of 0.1 reach 0.56 only to within 0.04; smaller steps get closer."""
    module = numbers(1.0)
    step = Step(decrease(module), list(module), sgd)

    def score():
        return abs(module[0].item() - 0.56)

    stage = Stage("stage", module, [step], score, make_rows(), patience=2, lr_reductions=1)
    [history] = run(stage)
    # The best epoch of the first learning rate is 4; patience runs out two epochs later.
    assert history.lr_reductions == [6]
    assert history.best_epoch == 7
    assert module[0].item() == pytest.approx(0.6 - LR_FACTOR * 0.1)


@pytest.mark.parametrize("n_rows", [1, 7, 30])
def test_a_step_runs_on_every_kth_batch_counted_through_all_epochs(n_rows):
    module = numbers(0.0, 0.0)
    calls = []

    def recorded_loss(name, index):
        def loss(batch):
            calls.append(name)
            return module[index].sum()

        return loss

    critic = Step(recorded_loss("critic", 0), [module[0]], sgd)
    generator = Step(recorded_loss("generator", 1), [module[1]], sgd, every=5)
    stage = Stage(
        "alternation",
        module,
        [critic, generator],
        score=lambda: module[0].item(),
        rows=make_rows(n_rows),
        batch_size=10,
        max_epochs=11,
    )
    [history] = run(stage)
    n_batches = 11 * -(-n_rows // 10)
    expected = []
    for number in range(1, n_batches + 1):
        expected += ["critic"] + ["generator"] * (number % 5 == 0)
    assert calls == expected
    # The loss of an epoch without generator step is None.
    assert (history.losses[0][1] is None) == (n_batches // 11 < 5)


def test_a_step_updates_only_its_own_parameters():
    """Both losses depend on both numbers; each step updates one and leaves no gradient on the other."""
    module = numbers(1.0, 1.0)
    parameters = []

    def loss(batch):
        parameters.append([part.item() for part in module])
        assert all(part.grad is None for part in module)
        return (module[0] * module[1]).sum()

    steps = [Step(loss, [module[0]], sgd), Step(lambda batch: -loss(batch), [module[1]], sgd)]
    run(Stage("alternation", module, steps, lambda: -module[1].item(), make_rows(), max_epochs=1))
    assert parameters == [[1.0, 1.0], [pytest.approx(0.9), 1.0]]
    assert [part.item() for part in module] == pytest.approx([0.9, 1.09])


def test_stages_run_in_order_and_later_ones_use_the_result_of_earlier_ones():
    weight, line = numbers(0.0), numbers(0.0)
    first = Stage(
        "weights",
        weight,
        [Step(lambda batch: (weight[0] - 3.0).square().sum(), list(weight), sgd)],
        score=lambda: abs(weight[0].item() - 3.0),
        rows=make_rows(),
    )
    second = Stage(
        "predictor",
        line,
        [Step(lambda batch: (line[0] - weight[0]).square().sum(), list(line), sgd)],
        score=lambda: abs(line[0].item() - 3.0),
        rows=make_rows(),
    )
    histories = run(first, second)
    assert [history.stage for history in histories] == ["weights", "predictor"]
    assert weight[0].item() == pytest.approx(3.0, abs=1e-3)
    assert line[0].item() == pytest.approx(3.0, abs=1e-3)


def test_a_full_batch_stage_takes_several_steps_between_scores():
    module = numbers(1.0)
    sizes = []

    def loss(batch):
        sizes.append(len(batch))
        return module[0].sum()

    stage = Stage(
        "full batch",
        module,
        [Step(loss, list(module), sgd)],
        score=lambda: module[0].item(),
        rows=make_rows(20),
        batch_size=20,
        max_epochs=2,
        min_batches=7,
    )
    [history] = run(stage)
    assert sizes == [20] * 14
    assert len(history.losses) == 2


def test_a_long_pass_is_scored_in_parts_of_other_rows():
    """Two epochs of three batches of ten rows out of a hundred: most of them differ."""
    module, seen = numbers(1.0), []

    def loss(batch):
        seen.append(set(batch.index.tolist()))
        return module[0].sum()

    step = Step(loss, list(module), sgd)
    stage = Stage("long", module, [step], lambda: module[0].item(), make_rows(100), batch_size=10)
    [history] = run(replace(stage, max_epochs=2, min_batches=3, max_batches=3))
    assert len(history.losses) == 2
    assert [len(batch) for batch in seen] == [10] * 6
    first, second = (set.union(*seen[i : i + 3]) for i in (0, 3))
    assert len(first) == len(second) == 30
    assert len(first | second) > 40


@pytest.mark.parametrize("clip", [0.5, 2.0, float("inf")])
def test_clipping_bounds_the_gradient(clip):
    """An SGD step with learning rate one equals the clipped gradient, whose unclipped norm is 50."""
    module = numbers(0.0, 0.0)
    step = Step(
        lambda batch: 30.0 * module[0].sum() + 40.0 * module[1].sum(),
        list(module),
        partial(torch.optim.SGD, lr=1.0),
        clip=clip,
    )
    run(Stage("stage", module, [step], lambda: module[0].item(), make_rows(), max_epochs=1))
    move = np.array([part.item() for part in module])
    assert np.linalg.norm(move) == pytest.approx(min(clip, 50.0), rel=1e-4)
    assert move[0] / move[1] == pytest.approx(0.75)


def noisy_fit(seed, patience=10):
    """A fit whose loss draws from torch's generators, and whose last epoch is its best."""
    module = nn.Linear(1, 1)
    with torch.no_grad():
        module.weight.zero_()
        module.bias.zero_()

    def loss(batch):
        noise = torch.randn_like(batch.target)
        return (module(batch.values) - batch.target + 0.1 * noise).square().mean()

    rows = make_rows(50)
    step = Step(loss, list(module.parameters()), adamw(0.01))
    stage = Stage(
        "noisy",
        module,
        [step],
        lambda: float((module(rows.values) - rows.target).square().mean()),
        rows,
        batch_size=8,
        max_epochs=5,
        patience=patience,
    )
    [history] = run(stage, seed=seed)
    assert history.best_epoch == 5
    return module.weight.item(), module.bias.item()


def test_results_are_reproducible_by_seed():
    assert noisy_fit(3) == noisy_fit(3)
    assert noisy_fit(3) != noisy_fit(4)


def test_the_random_state_of_the_process_does_not_change():
    def states():
        return str(np.random.get_state()), random.getstate(), torch.get_rng_state().tolist()  # noqa: NPY002

    line = nn.Linear(1, 1)
    rows = make_rows()

    def loss(batch):
        return (line(batch.values) + torch.randn_like(batch.target)).square().mean()

    before = states()
    run(Stage("stage", line, [Step(loss, list(line.parameters()), sgd)], lambda: 0.0, rows, max_epochs=2))
    assert states() == before


def diverging(module, at_call, lr_reductions=0, n_bad=10**9):
    """A stage whose loss is not finite for `n_bad` calls from `at_call` on."""
    calls = []

    def loss(batch):
        calls.append(0)
        is_bad = at_call <= len(calls) < at_call + n_bad
        return module[0].sum() * (float("inf") if is_bad else 1.0)

    step = Step(loss, list(module), sgd)
    return Stage(
        "shaky",
        module,
        [step],
        lambda: module[0].item(),
        rows=make_rows(),
        max_epochs=6,
        lr_reductions=lr_reductions,
    )


def test_divergence_after_progress_keeps_the_best_epoch_and_warns():
    module = numbers(1.0)
    with pytest.warns(RuntimeWarning, match=r"in epoch 4 .* The parameters of epoch 3 are kept"):
        [history] = run(diverging(module, at_call=4))
    assert history.ending == "diverged"
    assert module[0].item() == pytest.approx(0.7)


def test_divergence_before_any_progress_is_an_error():
    with pytest.raises(FloatingPointError, match=r"No epoch had improved .* Lower the learning rate"):
        run(diverging(numbers(1.0), at_call=1))


def test_divergence_before_any_progress_gets_a_second_chance_at_a_lower_learning_rate():
    module = numbers(1.0)
    [history] = run(diverging(module, at_call=1, n_bad=1))
    assert history.lr_reductions == [1]
    assert history.ending == "max_epochs"
    assert module[0].item() == pytest.approx(1.0 - 5 * LR_FACTOR * 0.1)


def test_a_reduction_of_the_learning_rate_recovers_from_divergence():
    module = numbers(1.0)
    [history] = run(diverging(module, at_call=3, lr_reductions=1, n_bad=1))
    assert history.lr_reductions == [3]
    assert history.ending == "max_epochs"
    assert module[0].item() == pytest.approx(0.8 - 3 * LR_FACTOR * 0.1)


def test_divergence_without_patience_is_an_error_even_after_progress():
    """No earlier parameters were kept."""
    recorded = RecordedProgress()
    with pytest.raises(FloatingPointError, match=r'"shaky" .*epoch 4 .*patience'):
        run(replace(diverging(numbers(1.0), at_call=4), patience=None), progress=recorded)
    assert recorded.calls[-1] == ("finish",)


def test_without_patience_a_step_that_did_not_run_in_an_epoch_is_no_divergence():
    module = numbers(1.0, 1.0)
    steps = [Step(decrease(module, i), [module[i]], sgd, every=every) for i, every in enumerate((1, 3))]
    [history] = run(Stage("stage", module, steps, lambda: 0.0, make_rows(), max_epochs=3, patience=None))
    assert [other is None for _, other in history.losses] == [True, True, False]


@pytest.mark.parametrize("patience", [3, None])
def test_a_stage_with_an_empty_table_raises(patience):
    module = numbers(1.0)
    rows = make_rows().take(torch.tensor([], dtype=torch.int64))
    with pytest.raises(ValueError, match='"empty" has no rows'):
        run(
            Stage(
                "empty",
                module,
                [Step(decrease(module), list(module), sgd)],
                lambda: 0.0,
                rows,
                patience=patience,
            )
        )


def test_a_stage_without_rows_calls_its_losses_without_arguments_and_draws_no_order():
    module, calls = numbers(1.0), []

    def loss():
        calls.append(1)
        return module[0].sum()

    rng = np.random.default_rng(0)
    stage = Stage(
        "full batch",
        module,
        [Step(loss, list(module), sgd)],
        lambda: module[0].item(),
        max_epochs=2,
        min_batches=3,
    )
    [history] = run_stages([stage], rng, NullProgress())
    assert len(calls) == 6
    assert history.best_epoch == 2
    assert module[0].item() == pytest.approx(0.4)
    # The only draw is the seed of torch's generators.
    expected = np.random.default_rng(0)
    draw_seed(expected)
    assert rng.random() == expected.random()


def test_the_module_is_in_training_mode_for_steps_and_in_evaluation_mode_for_scores():
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(1, 1))
    modes = []

    def loss(batch):
        modes.append(("step", module.training))
        return module(batch.values).square().mean()

    def score():
        modes.append(("score", module.training, torch.is_grad_enabled()))
        return 1.0

    step = Step(loss, list(module.parameters()), sgd)
    run(Stage("modes", module, [step], score, make_rows(), max_epochs=1))
    assert modes == [("score", False, False), ("step", True), ("score", False, False)]
    assert not module.training


def test_a_stage_has_its_own_number_of_threads():
    module, n_threads = numbers(1.0), []

    def loss(batch):
        n_threads.append(torch.get_num_threads())
        return module[0].sum()

    before = torch.get_num_threads()
    stage = Stage("stage", module, [Step(loss, list(module), sgd)], lambda: 0.0, make_rows(), max_epochs=1)
    run(stage, replace(stage, n_threads=before + 1))
    assert n_threads == [before, before + 1]
    assert torch.get_num_threads() == before


class RecordedProgress(NullProgress):
    def __init__(self):
        self.calls = []

    def start(self, description, total=None):
        self.calls.append(("start", description, total))

    def update(self, done, note=""):
        self.calls.append(("update", done, note))

    def finish(self):
        self.calls.append(("finish",))


def test_progress_receives_each_epoch_and_is_finished_even_after_an_error(monkeypatch):
    monkeypatch.setattr(loop, "REPORT_SECONDS", math.inf)
    module, recorded = numbers(1.0), RecordedProgress()
    step = Step(decrease(module), list(module), sgd)
    run(
        Stage("stage", module, [step], lambda: module[0].item(), make_rows(), max_epochs=2), progress=recorded
    )
    assert recorded.calls == [
        ("start", "stage", 2),
        ("update", 1, "validation 0.9"),
        ("update", 2, "validation 0.8"),
        ("finish",),
    ]
    recorded = RecordedProgress()
    broken = Step(lambda batch: module[5].sum(), list(module), sgd)
    with pytest.raises(IndexError):
        run(Stage("stage", module, [broken], lambda: 0.0, make_rows()), progress=recorded)
    assert recorded.calls[-1] == ("finish",)


@pytest.mark.parametrize("patience", [10, None])
def test_progress_is_reported_within_epochs_and_can_stop_the_training(patience, monkeypatch):
    """A report raises, as if the user had cancelled, in the third of the four batches of the first epoch."""
    monkeypatch.setattr(loop, "REPORT_SECONDS", 0.0)
    module, recorded = numbers(1.0), RecordedProgress()

    def update(done, note=""):
        recorded.calls.append(("update", done, note))
        if done == 3:
            raise KeyboardInterrupt

    recorded.update = update
    step = Step(decrease(module), list(module), sgd)
    stage = Stage(
        "stage", module, [step], lambda: 0.0, make_rows(), max_epochs=2, patience=patience, min_batches=4
    )
    with pytest.raises(KeyboardInterrupt):
        run(stage, progress=recorded)
    assert recorded.calls == [
        ("start", "stage", 8),
        ("update", 1, ""),
        ("update", 2, ""),
        ("update", 3, ""),
        ("finish",),
    ]
