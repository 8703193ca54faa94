"""Budgets, and which of their members are fitted."""

import pytest

from stablemiss.anymask.plan import MAX_MIXTURE_COLUMNS, MEMBERS, make_plan


@pytest.mark.parametrize("budget", ["fast", "default", "best"])
def test_every_budget_fits_every_kind_of_member_and_keeps_the_validation_rows_out_of_the_mixture(budget):
    plan = make_plan(budget)
    assert {name.split()[0] for name in plan.methods} == set(MEMBERS)
    assert plan.select(MEMBERS, n_columns=5) == plan.methods
    assert not plan.methods["mixture"].refit_on_validation


def test_the_mixture_is_left_out_of_wide_tables_unless_it_is_the_only_member():
    plan = make_plan("fast")
    assert set(plan.select(MEMBERS, MAX_MIXTURE_COLUMNS + 1)) == {"boosting", "net"}
    assert set(plan.select(["mixture"], MAX_MIXTURE_COLUMNS + 1)) == {"mixture"}


def test_the_member_net_includes_all_networks():
    assert set(make_plan("best").select(["net"], n_columns=5)) == {"net 1", "net 2", "net 3"}
