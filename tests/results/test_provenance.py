import json
from dataclasses import dataclass, field

import numpy as np

from stablemiss.methods import METHODS, Boosting
from stablemiss.missingness import MAR
from stablemiss.results.provenance import describe, versions


def test_every_method_is_described_in_json_by_its_class_and_parameters():
    for method in METHODS.values():
        described = describe(method())
        assert json.loads(json.dumps(described)) == described
        assert described.pop("class") == method.__name__
        assert set(described) == set(method().get_params(deep=False))


def test_parameters_are_described_and_fitted_values_are_not():
    mechanism = MAR(0.3).fit(np.random.default_rng(0).normal(size=(50, 4)), np.random.default_rng(1))
    assert describe(mechanism) == {"class": "MAR", "level": 0.3, "driver_share": 0.1, "spread": 0.2}
    assert describe(Boosting(masked_copies=3))["masked_copies"] == 3


def test_nested_objects_are_described_recursively():
    @dataclass
    class Part:
        widths: tuple[int, ...] = (3, 4)
        fitted: object = field(default=None, repr=False)

    described = describe({"part": Part(), "other": object})
    assert described == {"part": {"class": "Part", "widths": [3, 4]}, "other": repr(object)}


def test_versions_are_those_of_the_imported_packages():
    import lightgbm
    import torch

    import stablemiss

    installed = versions()
    assert installed["numpy"] == np.__version__
    assert installed["lightgbm"] == lightgbm.__version__
    assert installed["stablemiss"] == stablemiss.__version__
    assert torch.__version__.startswith(installed["torch"].split("+")[0])
