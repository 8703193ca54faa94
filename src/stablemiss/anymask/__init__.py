"""AnyMask: an ensemble that is fitted once and stays accurate when the missingness pattern changes.

- `method`: the method and its predictor
- `plan`: the members that each budget fits
- `members`: fits the members
- `fit_data`: the rows to which they are fitted, and masked copies of them
- `streamed_boosting`: boosted trees on rows that need not fit into memory
- `mixture_trees`: boosted trees that read the rows as the mixture completes them
- `stacking`: member weights
- `calibration`: prediction intervals and prediction sets
- `expected_error`: the expected error of each row, and how much of it is due to missing columns
- `importance`: feature importance, for mask augmentation
- `background`: fits the networks on a second thread
- `steps`: numbers the steps in progress reports

`MaskAugmentation` is in `stablemiss.missingness`, because `Boosting` and `ColumnNet` use it too.
"""

from stablemiss.anymask.calibration import ConformalCalibrator
from stablemiss.anymask.importance import univariate_importance
from stablemiss.anymask.method import AnyMask, AnyMaskPredictor
from stablemiss.anymask.mixture_trees import MixtureTreesPredictor
from stablemiss.anymask.plan import MEMBERS, Budget

__all__ = [
    "MEMBERS",
    "AnyMask",
    "AnyMaskPredictor",
    "Budget",
    "ConformalCalibrator",
    "MixtureTreesPredictor",
    "univariate_importance",
]
