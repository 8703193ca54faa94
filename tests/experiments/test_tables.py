"""The tables as data agree with the paper."""

import pytest

from stablemiss.experiments.array_tables import ARRAY_TABLES
from stablemiss.experiments.budgets import BUDGETS, LABELS, PAPER_GAMMAS, settings_of
from stablemiss.experiments.tables import (
    ABLATION,
    FURTHER_METHODS,
    LINEAR,
    OPTIMAL,
    PAPER_METHODS,
    TABLES,
    WEIGHTED_ABLATION,
    demo_table,
)
from stablemiss.methods import METHODS, StableMiss
from stablemiss.missingness import LEVELS, MECHANISMS

STANDARD = BUDGETS["standard"]


@pytest.mark.parametrize("table", [*TABLES.values(), demo_table()], ids=lambda table: table.name)
def test_tables_refer_to_existing_methods_and_mechanisms(table):
    assert set(table.methods) <= {*LABELS, LINEAR}
    assert table.reference in {*LABELS, OPTIMAL}
    assert {table.train_mechanism, table.test_mechanism} <= set(MECHANISMS)
    assert len(table.columns) == len(LEVELS)
    assert bool(table.claim) == (table.name != "demo")


# The paper's captions: data, mechanisms and levels of training and test rows, instances.
ALL = "all levels"
CAPTIONS = {
    "table1": ("gaussian_mix", "mar", "mar", 0.5, ALL, 5),
    "table2": ("gaussian_mix", "mar", "mar", ALL, 0.5, 3),
    "table3": ("house_sales", "mar", "mar", 0.5, ALL, 5),
    "table6": ("gaussian_ind", "mcar_independent", "mcar_independent", 0.5, ALL, 5),
    "table7": ("gaussian", "mcar_window", "mcar_window", 0.5, ALL, 5),
    "table8": ("gaussian", "mar", "mar", 0.5, ALL, 5),
    "table9": ("gaussian_mix", "mcar_window", "mcar_window", 0.5, ALL, 5),
    "table10": ("gaussian_mix", "mcar_window", "mar", ALL, ALL, 3),
    "table11": ("gaussian_mix", "mar", "mcar_window", ALL, ALL, 3),
    "figure2": ("gaussian_mix", "mar", "mar", 0.1, ALL, 5),
    "figure3": ("gaussian_ind", "mcar_independent", "mcar_independent", 0.1, ALL, 5),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_agrees_with_its_caption_in_the_paper(name):
    data, train_mechanism, test_mechanism, trained, tested, n_instances = CAPTIONS[name]
    table = TABLES[name]
    assert (table.dataset, table.train_mechanism, table.test_mechanism) == (
        data,
        train_mechanism,
        test_mechanism,
    )
    for levels, level in (
        ([column.train_level for column in table.columns], trained),
        ([column.test_level for column in table.columns], tested),
    ):
        assert levels == (list(LEVELS) if level == ALL else [level] * len(LEVELS))
    assert table.n_instances == n_instances
    assert table.reference == ("stablemiss" if data == "house_sales" else OPTIMAL)
    assert table.reference_at_test_level == (data == "house_sales")
    assert set(table.methods) >= set(ABLATION if table.is_figure else PAPER_METHODS)


def test_stablemiss_uses_the_terms_of_the_paper_for_each_mechanism():
    def terms(label, mechanism):
        return settings_of(label, mechanism, is_real=False, budget=STANDARD)[1]["decorrelate"]

    mechanisms = ("mar", "mcar_window", "mcar_independent")
    for label in ("stablemiss", "stablemiss_weighted"):
        assert [terms(label, mechanism) for mechanism in mechanisms] == ["full", "intra", "intra"]
    # A figure compares the terms themselves.
    for prefix in ("stablemiss", "stablemiss_weighted"):
        for name in ("full", "intra", "inter"):
            assert {terms(f"{prefix}_{name}", mechanism) for mechanism in mechanisms} == {name}


def method(label, budget=STANDARD, is_real=False):
    name, settings = settings_of(label, "mar", is_real, budget)
    return METHODS[name](**settings)


@pytest.mark.parametrize("budget", BUDGETS)
def test_stablemiss_has_the_weights_of_the_paper_and_ours_stand_beside_it(budget):
    paper = {"stablemiss", *ABLATION} - {"stablemiss_unweighted"}
    for label in (*paper, "stablemiss_weighted", *WEIGHTED_ABLATION):
        model = method(label, BUDGETS[budget])
        if label in paper:
            assert model.form == "paper"
            assert list(model.gamma) == list(PAPER_GAMMAS)
        else:
            assert (model.form, model.gamma, model.strength) == ("weighted", None, StableMiss().strength)
    assert method("stablemiss_unweighted", BUDGETS[budget]).decorrelate == "none"


def test_at_the_standard_budget_the_seven_penalties_of_the_paper_are_tried():
    assert list(method("stablemiss").gamma) == [0.1, 0.2, 0.5, 1, 2, 5, 10]


def test_both_forms_of_the_weights_are_compared():
    """In all figures, and in the tables that need a single training per instance."""
    for table in TABLES.values():
        assert "stablemiss_unweighted" in table.methods
        if table.is_figure:
            assert set(table.methods) == {*ABLATION, *WEIGHTED_ABLATION}
        elif len({column.train_level for column in table.columns}) == 1:
            assert "stablemiss_weighted" in table.methods


def test_methods_beside_and_after_the_paper_are_rows_of_tables_with_one_training_per_instance():
    """Last, with their default parameters, except that none is trained on validation rows."""
    for table in TABLES.values():
        expected = () if table.is_figure or table.trains_for_each_column else FURTHER_METHODS
        assert tuple(label for label in table.methods if label in FURTHER_METHODS) == expected
        assert table.methods[len(table.methods) - len(expected) :] == expected
    assert not set(FURTHER_METHODS) & {*PAPER_METHODS, *ABLATION}
    for label in FURTHER_METHODS:
        defaults = METHODS[label]()
        if label == "pattern_submodels":
            defaults.set_params(refit_on_validation=False)
        for is_real in (False, True):
            assert method(label, is_real=is_real).get_params() == defaults.get_params()


NETWORKS = ("partial_vae", "miwae", "p_bigan", "neumiss", "stablenet", "stablemiss")
NETWORKS += ("gain", "misgan", "mirrams", "mask_dro")


def test_all_networks_are_stopped_by_the_same_rule():
    for budget in (STANDARD, BUDGETS["paper"]):
        assert len({method(label, budget).patience for label in NETWORKS}) == 1
        assert method("neumiss", budget).patience is not None


def test_latent_variables_have_the_same_size_in_all_methods():
    """More than the 35 factors of the synthetic columns."""
    [size] = {method(label).d_latent for label in ("partial_vae", "miwae", "p_bigan", "misgan")}
    assert size > 35


def test_on_real_tables_no_network_is_narrower_than_the_smallest_of_the_paper():
    stablemiss, stablenet, neumiss = (
        method(label, is_real=True) for label in ("stablemiss", "stablenet", "neumiss")
    )
    assert min(*stablemiss.g_hidden, *stablenet.hidden, *neumiss.hidden) >= 128
    assert tuple(stablenet.hidden) == tuple(stablemiss.g_hidden)


def test_no_label_is_trained_on_validation_rows_that_it_uses_for_choices():
    """Methods without choices get no validation rows at all."""
    refitted = {label for label in LABELS if method(label).trains_on_validation}
    assert refitted == {"constant", "ols", "dwr", "srdo"}


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("label", LABELS)
def test_every_label_can_be_built_at_every_budget(budget, label):
    for is_real in (False, True):
        name, settings = settings_of(label, "mar", is_real, BUDGETS[budget])
        METHODS[name](**settings)


def test_unavailable_tables_are_not_in_tables():
    assert not set(ARRAY_TABLES) & set(TABLES)


def test_the_demo_accepts_only_mechanisms_under_which_its_reference_is_optimal():
    assert demo_table("mcar_window", 0.3).title == "Gaussian-Mix under MCAR, trained at 30% missing"
    with pytest.raises(ValueError, match="must be one of mar, mcar_window, mcar_independent; got 'mnar'"):
        demo_table("mnar")


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 10.0])
def test_the_training_level_of_the_demo_must_be_between_0_and_1(level):
    with pytest.raises(ValueError, match="train_level must lie between 0 and 1"):
        demo_table(train_level=level)
