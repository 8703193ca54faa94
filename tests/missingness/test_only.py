import numpy as np
import pytest

from stablemiss.missingness import MAR, MCARIndependent, Only


@pytest.mark.parametrize("seed", range(3))
def test_other_columns_are_never_hidden(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 6))
    for mechanism in (MCARIndependent(0.7), MAR(0.7)):
        mask = Only(mechanism, [1, 4, 5]).fit(X, rng).draw(X, rng)
        assert mask[:, [0, 2, 3]].all()
        assert not mask[:, [1, 4, 5]].all()


def test_the_level_is_that_of_the_restricted_mechanism():
    mechanism = Only(MCARIndependent(0.2, spread=0), [0]).at(0.9)
    assert mechanism.level == mechanism.mechanism.level == 0.9
    mask = mechanism.draw(np.zeros((4000, 2)), np.random.default_rng(0))
    assert mask[:, 0].mean() == pytest.approx(0.1, abs=0.02)


def test_columns_that_the_table_does_not_have_raise():
    with pytest.raises(ValueError, match=r"columns \[2\], but X has columns 0 to 1"):
        Only(MCARIndependent(0.5), [0, 2]).draw(np.zeros((3, 2)), np.random.default_rng(0))
    with pytest.raises(ValueError, match="column positions"):
        Only(MCARIndependent(0.5), ["a"])


def test_without_columns_nothing_is_hidden():
    assert Only(MCARIndependent(0.5), []).draw(np.zeros((3, 2)), np.random.default_rng(0)).all()
