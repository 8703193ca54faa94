import json

import pytest

from stablemiss import load_model
from stablemiss.cli.tune import SHOWN, trial_lines
from stablemiss.tuning import Trial

FAST = ("--method", "boosting", "--params", '{"n_trees": 10}')


def test_the_best_parameters_are_written_and_fit_takes_them(run, houses):
    result = run("tune", houses, "--target", "price", *FAST, "--trials", 4, "--out", "best.json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert result.stdout.startswith("4 trials of boosting, by RMSE in standard deviations of the target")
    assert result.stdout.endswith("Parameters: best.json\n")
    with open("best.json") as file:
        params = json.load(file)
    assert params["n_trees"] == 10
    assert params.keys() > {"masked_copies", "learning_rate", "n_leaves"}
    fitted = run("fit", houses, "--target", "price", "--method", "boosting", "--params", "best.json")
    assert fitted.exit_code == 0, fitted.output
    assert load_model("model.stablemiss").method_.n_leaves == params["n_leaves"]


def test_a_study_goes_on_where_it_stopped_also_for_classes(run, houses, tmp_path):
    command = ("tune", houses, "--target", "dear", "--ignore", "price", *FAST, "--study", "study.journal")
    assert run(*command, "--trials", 2).stdout.startswith("2 trials of boosting, by log loss")
    before = (tmp_path / "study.journal").read_bytes()
    assert run(*command, "--trials", 3).stdout.startswith("3 trials")
    after = (tmp_path / "study.journal").read_bytes()
    assert after.startswith(before)
    assert run(*command, "--trials", 3).exit_code == 0
    assert (tmp_path / "study.journal").read_bytes() == after


def test_mistakes_are_told_in_one_sentence(run, refuse, houses, tmp_path):
    command = ("tune", houses, "--target", "price")
    assert "no file absent.csv" in refuse("tune", "absent.csv", "--target", "price")
    assert "no column 'prize'" in refuse("tune", houses, "--target", "prize")
    assert "method must be one of" in refuse(*command, "--method", "olz")
    assert "'constant' names nothing to search" in refuse(*command, "--method", "constant")
    assert "does not exist; create it" in refuse(*command, "--out", "no/params.json")
    assert "is no study that tune began" in refuse(*command, "--study", houses)
    assert "no hyper-parameter 'trees'" in refuse(*command, "--params", '{"trees": 1}')
    run(*command, *FAST, "--trials", 1, "--study", "study.journal")
    sentence = refuse("tune", houses, "--target", "id", *FAST, "--study", "study.journal")
    assert "study.journal belongs to another search: its fingerprint of table, target" in sentence


@pytest.mark.parametrize("place", [0, SHOWN + 3])
def test_the_best_trials_are_shown_and_the_one_given_wherever_it_stands(place):
    trials = [
        Trial(k, {"rate": k / 3, "width": None}, 0.1 * k, None, 1.0, is_given=k == place) for k in range(10)
    ]
    trials.append(Trial(10, {}, None, "MemoryError: too wide", 1.0, is_given=False))
    lines = trial_lines(trials)
    assert lines[1].split("  ")[1:3] == ["0.1", '{"rate": 0.333, "width": null}']
    assert len([line for line in lines if line.endswith("as given")]) == 1
    assert len(lines) == SHOWN + 1 + (place >= SHOWN)
    assert lines[-1] == "  1 failed, the first with: MemoryError: too wide"
