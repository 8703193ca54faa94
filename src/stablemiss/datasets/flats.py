"""Flats to let in a made-up city: a generated table with the structure of real ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from stablemiss.checks import check_integer
from stablemiss.data import Floats
from stablemiss.datasets.source import Dataset
from stablemiss.seeding import Rng, one_of, to_rng

FEATURES = (
    "area",
    "rooms",
    "bathrooms",
    "floor",
    "year_built",
    "energy",
    "latitude",
    "longitude",
    "minutes_to_centre",
    "noise",
    "rent_nearby",
    "lift",
)
# Centre of the city, and kilometres per degree there.
_LATITUDE, _LONGITUDE = 48.15, 11.57
_KM = (111.2, 74.2)


def make_flats(n_rows: int = 4000, random_state: Any = None, *, rng: Any = None) -> Dataset:
    """Generate flats to let, with their monthly rents: a complete table for examples and the demo.

    Columns are related as in real tables: larger flats have more rooms, the location is in the coordinates
    and also in the travel time, the noise and the rents nearby, and old buildings need more energy. The rent
    depends on location, size and age with interactions, thresholds and noise. Nothing in it is a Gaussian
    mixture.

    Parameters
    ----------
    n_rows : int, default=4000
        Number of flats. More rows take longer to fit and give more accurate models.
    random_state : None, int, RandomState or Generator, default=None
        An int makes the table reproducible.
    rng : int, Generator or None, default=None
        Another name of `random_state`, which it replaces if it is given.

    Returns
    -------
    Dataset
        Without missing values. The target is the rent per month in euros.

    See Also
    --------
    load_house_sales : Real prices of houses.
    make_gaussian_mix : A population with a known best prediction.

    Examples
    --------
    >>> flats = make_flats(100, random_state=0)
    >>> flats.X.shape, flats.feature_names[:3]
    ((100, 12), ('area', 'rooms', 'bathrooms'))
    """
    check_integer({"n_rows": n_rows}, n_rows=1)
    rng = to_rng(one_of(random_state, rng))
    east, north = _draw_places(n_rows, rng)
    km = np.hypot(east, north)
    area = np.clip(np.exp(rng.normal(4.2, 0.42, n_rows)), 16, 260)
    rooms = np.clip(np.round(area / 27 + rng.normal(0, 0.5, n_rows)), 1, 8)
    bathrooms = 1.0 + (area + rng.normal(0, 15, n_rows) > 105)
    storeys = np.clip(np.round(7 - 0.4 * km + rng.normal(0, 1.5, n_rows)), 1, 12)
    floor = np.floor(rng.random(n_rows) * (storeys + 1))
    year = np.round(np.clip(1915 + 9 * km + rng.gamma(2.0, 22.0, n_rows), 1880, 2024))
    energy = np.clip(230 - 1.6 * (year - 1915) + rng.normal(0, 25, n_rows), 25, 320)
    lift = (storeys >= 5) & (rng.random(n_rows) < np.clip((year - 1900) / 90, 0.1, 0.95))
    minutes = np.round(5 + 4.2 * km + rng.gamma(2.0, 2.5, n_rows))
    noise = np.round(70 - 2.2 * km - 1.5 * floor + rng.normal(0, 3.5, n_rows))
    per_metre = _rent_per_metre(east, north)
    rent_nearby = np.round(per_metre * np.exp(rng.normal(0, 0.05, n_rows)), 1)

    comfort = 0.0011 * (year - 1960) + 0.06 * lift * (floor >= 3) - 0.05 * (floor == 0)
    comfort += 0.10 * (year < 1925) * (km < 3.5) - 0.0005 * (energy - 130) - 0.004 * np.maximum(noise - 62, 0)
    # Small flats cost more per square metre.
    size = (area / 68) ** -0.12 + 0.04 * (bathrooms - 1)
    rent = area * per_metre * size * np.exp(comfort + rng.normal(0, 0.07, n_rows))
    columns = {
        "area": np.round(area, 1),
        "rooms": rooms,
        "bathrooms": bathrooms,
        "floor": floor,
        "year_built": year,
        "energy": np.round(energy),
        "latitude": np.round(_LATITUDE + north / _KM[0], 5),
        "longitude": np.round(_LONGITUDE + east / _KM[1], 5),
        "minutes_to_centre": minutes,
        "noise": noise,
        "rent_nearby": rent_nearby,
        "lift": lift.astype(float),
    }
    return Dataset(
        X=np.column_stack([columns[name] for name in FEATURES]),
        y=np.round(rent),
        feature_names=FEATURES,
        target_name="rent",
        description="Generated flats to let in a made-up city; the target is the rent per month in euros.",
        licence="CC0 (generated)",
        source="",
    )


def _draw_places(n: int, rng: Rng) -> tuple[Floats, Floats]:
    """Kilometres east and north of the centre: a core, a river side and two suburbs."""
    centres = np.array([[0.0, 0.0], [2.5, 4.0], [-6.5, 1.5], [5.0, -5.5]])
    spreads = np.array([2.2, 1.5, 1.6, 1.8])
    district = rng.choice(4, size=n, p=[0.46, 0.22, 0.16, 0.16])
    places = centres[district] + spreads[district, None] * rng.normal(size=(n, 2))
    return places[:, 0], places[:, 1]


def _rent_per_metre(east: Floats, north: Floats) -> Floats:
    """Euros per square metre: falls from the centre, is higher in the north-east and beside the river."""
    km = np.hypot(east, north)
    river = np.exp(-((east - 0.6 * north) ** 2) / 1.5)
    good_side = 1 / (1 + np.exp(-(0.8 * east + 1.2 * north - 2.0)))
    return 9.5 + 11.0 * np.exp(-km / 4.5) + 2.5 * river + 5.5 * good_side
