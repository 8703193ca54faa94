import numpy as np
import pytest

from stablemiss.datasets import make_flats


def test_a_seed_gives_the_same_complete_table_and_another_seed_another():
    first, again, other = (make_flats(200, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert (first.y != other.y).any()
    assert np.isfinite(first.X).all()
    assert (first.y > 0).all()
    assert first.X.shape == (200, len(first.feature_names))


def test_columns_say_something_about_each_other_as_in_real_tables():
    flats = make_flats(2000, random_state=0)
    columns = dict(zip(flats.feature_names, flats.X.T, strict=True))
    for first, second, sign in (("area", "rooms", 1), ("year_built", "energy", -1), ("area", "bathrooms", 1)):
        assert sign * np.corrcoef(columns[first], columns[second])[0, 1] > 0.5
    # Nearer to the centre, rents nearby are higher.
    assert np.corrcoef(columns["minutes_to_centre"], columns["rent_nearby"])[0, 1] < -0.3


@pytest.mark.parametrize("n_rows", [0, 2.5, "many"])
def test_an_invalid_number_of_rows_is_refused(n_rows):
    with pytest.raises(ValueError, match="n_rows must be an integer of at least 1"):
        make_flats(n_rows)
