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


def test_what_was_set_is_told_and_what_was_learnt_is_not():
    mechanism = MAR(0.3).fit(np.random.default_rng(0).normal(size=(50, 4)), np.random.default_rng(1))
    assert describe(mechanism) == {"class": "MAR", "level": 0.3, "driver_share": 0.1, "spread": 0.2}
    assert describe(Boosting(masked_copies=3))["masked_copies"] == 3


def test_nested_things_are_described_all_the_way_down():
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

    found = versions()
    assert found["numpy"] == np.__version__
    assert found["lightgbm"] == lightgbm.__version__
    assert found["stablemiss"] == stablemiss.__version__
    assert torch.__version__.startswith(found["torch"].split("+")[0])
