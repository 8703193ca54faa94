"""The rules of the comparison are those that the code follows."""

from stablemiss.experiments import image_problem, sensor_problem
from stablemiss.experiments.array_methods import (
    FLAT_NETWORKS,
    FLAT_TRAINING,
    NETWORKS,
    ONE_GAMMA_WEIGHTS,
    TRAINING,
    array_settings,
)
from stablemiss.experiments.array_tables import ARRAY_TABLES
from stablemiss.experiments.budgets import BUDGETS, PAPER_GAMMAS
from stablemiss.report.rules import RULES_OF_COMPARISON

RULES = RULES_OF_COMPARISON["Tables 4 and 5"]


def test_rows_of_images_and_sensors_are_those_of_the_budget():
    standard = BUDGETS["standard"]
    assert f"{standard.n_images:,}" in RULES["Training rows"]
    assert f"one window in {standard.window_stride}" in RULES["Test rows"]
    assert "A tenth" in RULES["Validation rows"]
    assert image_problem.VALIDATION_FRACTION == sensor_problem.VALIDATION_FRACTION == 0.1
    assert "three of four weeks of 2023" in RULES["Training rows"]
    assert (sensor_problem.WITHIN_YEAR, sensor_problem.WEEKS_PER_CYCLE) == ("2023", 4)


def test_networks_on_images_and_sensors_are_trained_as_the_rules_say():
    assert all(training["schedule"] == "one_cycle" for training in TRAINING.values())
    assert FLAT_TRAINING["patience"] is not None
    assert set(FLAT_NETWORKS) == {"neumiss", "partial_vae", "miwae", "p_bigan"}
    for table in ARRAY_TABLES.values():
        of_label = {
            label: array_settings(label, table.dataset, "2023", is_brief=False)[1]
            for label in table.methods
            if label in NETWORKS
        }
        stablenet = of_label.pop("stablenet")
        for name in ("learning_rate", "weight_decay", "batch_size", "max_epochs"):
            assert len({settings[name] for settings in of_label.values()}) == 1
        other = of_label["stablemiss"]
        assert stablenet["batch_size"] > other["batch_size"]
        assert stablenet["max_epochs"] > other["max_epochs"]
    year, months = (
        array_settings("stablemiss", "berlin", name, is_brief=False)[1]["max_epochs"]
        for name in ("2023", "Mar–Apr 2023")
    )
    assert months > year


def test_stablemiss_has_the_middle_gamma_of_the_papers_list_on_images_and_sensors():
    assert ONE_GAMMA_WEIGHTS["gamma"] == PAPER_GAMMAS[len(PAPER_GAMMAS) // 2]
