"""From a model file back to an estimator."""

from __future__ import annotations

import os
from pathlib import Path

from stablemiss import __version__
from stablemiss.estimators.anymask import AnyMaskClassifier, AnyMaskRegressor
from stablemiss.estimators.archive import ArchiveError, read_tree
from stablemiss.estimators.base import MissingEstimator
from stablemiss.estimators.missing import MissingClassifier, MissingRegressor
from stablemiss.estimators.stablemiss import StableMissClassifier, StableMissRegressor

# A file names one of these; nothing else is ever built from it.
ESTIMATORS: dict[str, type[MissingEstimator]] = {
    estimator.__name__: estimator
    for estimator in (
        AnyMaskRegressor,
        AnyMaskClassifier,
        MissingRegressor,
        MissingClassifier,
        StableMissRegressor,
        StableMissClassifier,
    )
}


def load_model(path: str | os.PathLike[str]) -> MissingEstimator:
    """The fitted estimator that `save` wrote to a file; its predictions are the same to the last bit.

    No code is run from the file and nothing is unpickled. Still, load only files from you trust: one
    that was made to do harm can give wrong numbers, or stop or stall the process.

    Parameters
    ----------
    path : path
        A file written by an estimator's `save`.

    Returns
    -------
    MissingRegressor, MissingClassifier, StableMissRegressor or StableMissClassifier

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ArchiveError
        If the file is not a model, is damaged or edited, or was saved by a newer version.

    Examples
    --------
    >>> import tempfile
    >>> from stablemiss import MissingRegressor, load_model
    >>> model = MissingRegressor(method="constant").fit([[1.0], [2.0]], [1.0, 3.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.stablemiss")
    ...     load_model(f"{folder}/model.stablemiss").predict([[5.0]])
    array([2.])
    """
    path = Path(path)
    tree = read_tree(path)
    name = str(tree.get("estimator")) if isinstance(tree, dict) else "no estimator"
    if name not in ESTIMATORS:
        raise ArchiveError(
            f"{str(path)!r} holds {name}, which this stablemiss does not have; it has "
            f"{', '.join(ESTIMATORS)}. Install the version that saved it."
        )
    try:
        return ESTIMATORS[name]._from_tree(tree)
    except ArchiveError:
        raise
    except Exception as error:  # Whatever the parts of the model, LightGBM among them, make of their content.
        raise ArchiveError(
            f"{str(path)!r} holds a {name} of stablemiss {tree.get('stablemiss')} that this stablemiss "
            f"({__version__}) cannot rebuild ({error!r}). Install the version that saved it."
        ) from error
