"""Loading an estimator from a model file."""

from __future__ import annotations

import os
from pathlib import Path

from stablemiss import __version__
from stablemiss.checks import check_path
from stablemiss.estimators.anymask import AnyMaskClassifier, AnyMaskRegressor
from stablemiss.estimators.archive import ArchiveError, read_tree
from stablemiss.estimators.base import MissingEstimator
from stablemiss.estimators.missing import MissingClassifier, MissingRegressor
from stablemiss.estimators.stablemiss import StableMissClassifier, StableMissRegressor

# A model file contains the name of one of these classes; no other class is ever instantiated.
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
    """Load a fitted estimator from a file that `save` wrote; its predictions are bit-identical.

    No code from the file is executed, and nothing is unpickled. Still, load only files from sources you
    trust: a malicious file can give wrong predictions, or crash or stall the process.

    Parameters
    ----------
    path : path
        A file written by an estimator's `save`.

    Returns
    -------
    AnyMaskRegressor, AnyMaskClassifier, MissingRegressor, MissingClassifier, StableMissRegressor or \
StableMissClassifier

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ArchiveError
        If the file is not a model, is damaged or edited, or has another format version.

    See Also
    --------
    AnyMaskRegressor.save : Writes such a file.

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
    check_path("path", path)
    path = Path(path)
    tree = read_tree(path)
    name = str(tree.get("estimator")) if isinstance(tree, dict) else "no estimator"
    if name not in ESTIMATORS:
        raise ArchiveError(
            f"{str(path)!r} contains {name}, which this version of stablemiss does not have. Its estimators "
            f"are {', '.join(ESTIMATORS)}. Install the version that saved the model."
        )
    try:
        return ESTIMATORS[name]._from_tree(tree)
    except ArchiveError:
        raise
    except Exception as error:  # Any part of the model, LightGBM included, may reject its content.
        raise ArchiveError(
            f"{str(path)!r} contains a {name} of stablemiss {tree.get('stablemiss')} that this version "
            f"({__version__}) cannot rebuild ({error!r}). Install the version that saved the model."
        ) from error
