import json
import shlex

import pytest

from stablemiss import AnyMaskRegressor, load_model
from stablemiss.cli.tune import N_SHOWN, trial_lines
from stablemiss.tuning import Trial

FAST = ("--method", "boosting", "--params", '{"n_trees": 10}')


def test_the_best_hyper_parameters_are_written_and_can_be_passed_to_fit(run, houses):
    result = run("tune", houses, "--target", "price", *FAST, "--trials", 4, "--out", "best.json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert result.stdout.startswith("4 trials of boosting, by RMSE in standard deviations of the target")
    assert "--params best.json" in result.stdout.splitlines()[-1]
    with open("best.json") as file:
        best = json.load(file)
    assert best["method"] == "boosting"
    params = best["params"]
    assert params["n_trees"] == 10
    assert params.keys() > {"masked_copies", "learning_rate", "n_leaves"}
    fitted = run("fit", houses, "--target", "price", "--params", "best.json")
    assert fitted.exit_code == 0, fitted.output
    assert load_model("model.stablemiss").method_.n_leaves == params["n_leaves"]


def test_a_study_of_a_classifier_can_be_continued(run, houses, tmp_path):
    command = (
        "tune",
        houses,
        "--target",
        "expensive",
        "--ignore",
        "price",
        *FAST,
        "--study",
        "study.journal",
    )
    assert run(*command, "--trials", 2).stdout.startswith("2 trials of boosting, by log loss")
    before = (tmp_path / "study.journal").read_bytes()
    assert run(*command, "--trials", 3).stdout.startswith("3 trials")
    after = (tmp_path / "study.journal").read_bytes()
    assert after.startswith(before)
    assert run(*command, "--trials", 3).exit_code == 0
    assert (tmp_path / "study.journal").read_bytes() == after


def test_invalid_arguments_give_an_error(run, error_of, houses, tmp_path):
    command = ("tune", houses, "--target", "price")
    assert "no file absent.csv" in error_of("tune", "absent.csv", "--target", "price")
    assert "no column 'prize'" in error_of("tune", houses, "--target", "prize")
    assert "method must be one of" in error_of(*command, "--method", "olz")
    error = error_of(*command, "--method", "constant")
    assert "'constant' has no default search space. Choose another method with --method." in error
    assert "does not exist; create it" in error_of(*command, "--out", "no/params.json")
    assert "is not a study created by tune" in error_of(*command, "--study", houses)
    assert "'trees'" in error_of(*command, "--params", '{"trees": 1}')
    run(*command, *FAST, "--trials", 1, "--study", "study.journal")
    assert "would be overwritten" in error_of(*command, "--out", "houses.csv")
    assert "would be overwritten" in error_of(*command, "--study", "study.journal", "--out", "study.journal")
    error = error_of("tune", houses, "--target", "id", *FAST, "--study", "study.journal")
    assert "study.journal belongs to another search, with fingerprint of table, target" in error


def test_the_command_to_fit_repeats_the_options_for_the_table(run, tmp_path):
    rows = [f"{i};{i % 3};{i % 28 + 1:02}.01.2024;{i},5" for i in range(80)]
    (tmp_path / "my rows.txt").write_text("\n".join(["id;code;day;y", *rows]))
    options = ["--ignore", "id", "--category", "code", "--missing-value", "-9", "--missing-value", "no value"]
    options += ["--separator", ";", "--regress", "--no-date-features", "--seed", "3"]
    result = run("tune", "my rows.txt", "--target", "y", *FAST, "--trials", 1, *options)
    assert result.stderr == ""
    assert result.stdout.startswith("1 trial of boosting")
    command = shlex.split(result.stdout.splitlines()[-1].partition(": ")[2])
    assert command[:2] == ["stablemiss", "fit"]
    assert run(*command[1:]).exit_code == 0
    model = load_model("model.stablemiss")
    assert model.random_state == 3
    assert model.encoder_.kinds == ["categories", "categories"]
    assert model.read_options_["missing_values"] == ["-9", "no value"]


def test_json_contains_the_trials_and_the_command_to_fit(run, houses):
    result = run("tune", houses, "--target", "price", *FAST, "--trials", 2, "--json")
    facts = json.loads(result.stdout)
    assert [trial["is_initial"] for trial in facts["trials"]] == [True, False]
    assert facts["loss"] == min(trial["loss"] for trial in facts["trials"])
    with open("params.json") as file:
        assert json.load(file) == {"method": facts["method"], "params": facts["params"]}
    assert facts["fit"] == f"stablemiss fit {houses} --target price --params params.json"


@pytest.mark.slow
def test_by_default_anymask_is_tuned(run, houses):
    options = ("--target", "price", "--ignore", "id", "--ignore", "expensive", "--budget", "fast")
    result = run("tune", houses, *options, "--trials", 2)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("2 trials of anymask")
    with open("params.json") as file:
        best = json.load(file)
    assert (best["method"], best["params"]["budget"]) == ("anymask", "fast")
    fitted = run("fit", houses, "--target", "price", "--params", "params.json")
    assert fitted.exit_code == 0, fitted.output
    assert isinstance(load_model("model.stablemiss"), AnyMaskRegressor)
    assert load_model("model.stablemiss").members == best["params"]["members"]


def test_trials_with_the_same_hyper_parameters_are_shown_once():
    trials = [Trial(k, {"width": k % 2}, 0.5, None, 1.0, is_initial=k == 0) for k in range(6)]
    assert len(trial_lines(trials)) == 2
    assert trial_lines(trials)[0].endswith("(initial)")


@pytest.mark.parametrize("rank", [0, N_SHOWN + 3])
def test_the_best_trials_and_the_initial_one_are_shown(rank):
    trials = [
        Trial(k, {"rate": k / 3, "width": None}, 0.1 * k, None, 1.0, is_initial=k == rank) for k in range(10)
    ]
    trials.append(Trial(10, {}, None, "MemoryError: too wide", 1.0, is_initial=False))
    lines = trial_lines(trials)
    assert lines[1].split("  ")[1:3] == ["0.1", '{"rate": 0.333, "width": null}']
    assert len([line for line in lines if line.endswith("(initial)")]) == 1
    assert len(lines) == N_SHOWN + 1 + (rank >= N_SHOWN)
    assert lines[-1].startswith("  1 failed")
    assert lines[-1].endswith("MemoryError: too wide")
