"""AnyMask: an ensemble that is fitted once and stays accurate when the missingness pattern changes.

`method` holds the method itself; `plan` lists what each budget fits; `members` fits the members, of which
`residual_boosting` is defined here and the others in `stablemiss.methods`; `stacking` weights them;
`calibration` builds intervals and prediction sets; `expected_error` attributes error to missing columns;
`importance` ranks columns; `background` runs one member on a second thread.

`MaskAugmentation` is not here but in `stablemiss.missingness`, because `Boosting` and `ColumnNet`, in a layer
below, use it too.
"""

from stablemiss.anymask.calibration import ConformalCalibrator
from stablemiss.anymask.importance import univariate_importance
from stablemiss.anymask.method import AnyMask, AnyMaskPredictor
from stablemiss.anymask.plan import MEMBERS, Budget
from stablemiss.anymask.residual_boosting import ResidualBoosting, ResidualBoostingPredictor

__all__ = [
    "MEMBERS",
    "AnyMask",
    "AnyMaskPredictor",
    "Budget",
    "ConformalCalibrator",
    "ResidualBoosting",
    "ResidualBoostingPredictor",
    "univariate_importance",
]
