"""Display names and number formats that all views share."""

from __future__ import annotations

from collections.abc import Iterable

from stablemiss.experiments.array_comparison import ArrayComparison, ArrayLine
from stablemiss.experiments.comparison import Comparison
from stablemiss.experiments.published import NAMES

# Ends the names of methods whose error is not that of a raw output; tables of images have a mark instead.
KEEPS_OBSERVED = " (keeps observed pixels)"

# Label → display name. The paper's methods have the paper's names. No commas: names are listed in sentences.
TITLES = {
    **NAMES,
    "stablemiss_full": "StableMiss full",
    "stablemiss_intra": "StableMiss only intra",
    "stablemiss_inter": "StableMiss only inter",
    "stablemiss_unweighted": "StableMiss unweighted",
    "stablemiss_weighted": "StableMiss with our weights",
    "stablemiss_weighted_full": "StableMiss full with our weights",
    "stablemiss_weighted_intra": "StableMiss only intra with our weights",
    "stablemiss_weighted_inter": "StableMiss only inter with our weights",
    "ols": "OLS",
    "em_mixture": "EM mixture",
    "boosting": "LightGBM",
    "boosting_masked_copies": "LightGBM on masked copies",
    "anymask": "AnyMask",
    "anymask_fast": "AnyMask fast",
    "gain": "GAIN",
    "misgan": "MisGAN",
    "crlr": "CRLR",
    "dgbr": "DGBR",
    "mirrams": "MIRRAMS",
    "mask_dro": "MaskDRO",
    "pattern_submodels": "pattern submodels",
    "iterative_imputer": "IterativeImputer and LightGBM",
    "optimal": "Optimal",
    "stablemiss_local": "StableMiss with local φ",
    "stablemiss_local_augmented": "StableMiss with local φ and mask augmentation",
    "stablemiss_local_without_graph": "StableMiss with local φ and without the graph",
    "zero_fill": "g without φ",
    "mask_input": "g without φ that reads the mask",
    "mask_input_augmented": "g without φ that reads the mask with mask augmentation",
    "partial_convolution": "partial convolutions",
    "label_gaussian": f"Gaussian of the complete images{KEEPS_OBSERVED}",
    "factor_analysis": f"factor analysis by EM{KEEPS_OBSERVED}",
    "local_and_ridge": "mean of ridge and network with local φ",
    "gaussian_and_local": "Gaussian and network with local φ",
    "hour_of_week": "mean by hour of the week",
    "last_value": "last value",
    "decayed_last_value": "last value with decay",
    "ridge_on_lags": "ridge on lags",
    "boosting_on_lags": "LightGBM on lags",
    "boosting_on_lags_masked": "LightGBM on lags with masked copies",
    "boosting_on_lags_pooled": "LightGBM on lags for all sensors alike",
    "kalman": "Kalman filter by EM",
}

# Label → what it is, in the order of the tables.
DESCRIPTIONS = {
    "partial_vae": "Generative model: a variational autoencoder of the observed values; predicts the target "
    "with the missing values integrated out.",
    "miwae": "Generative model: a variational autoencoder with an importance-weighted bound.",
    "p_bigan": "Generative model: adversarially trained encoder and decoder.",
    "neumiss": "A network whose layers approximate the best linear predictor of each mask.",
    "dwr": "Linear regression with row weights that decorrelate the columns.",
    "srdo": "Linear regression with row weights that make columns look independent.",
    "stablenet": "A predictor on mean-imputed columns (tables 4 and 5: g) with row weights that decorrelate "
    "random features.",
    "stablemiss": "The paper's method: a network that generates the predictor from the mask, "
    "and row weights from the paper's literal covariances, with γ from its list by the validation loss "
    "(tables 4 and 5: one γ). "
    "Decorrelates column pairs and mask pairs (intra) and, under MAR, columns from masks (inter).",
    "stablemiss_unweighted": "The same network without row weights.",
    "stablemiss_weighted": "The same network with our form of the row weights: weighted covariances, and γ "
    "as a fraction of the critical γ above which the weights stay equal.",
    "stablemiss_full": "Figures: StableMiss with all terms, intra and inter.",
    "stablemiss_intra": "Figures: StableMiss with the terms between two columns and between two masks.",
    "stablemiss_inter": "Figures: StableMiss with the terms between a column and a mask.",
    "stablemiss_weighted_full": "Figures: our form of the weights, all terms.",
    "stablemiss_weighted_intra": "Figures: our form of the weights, only intra terms.",
    "stablemiss_weighted_inter": "Figures: our form of the weights, only inter terms.",
    "constant": "Predicts the mean of the training targets.",
    "ols": "Least squares on mean-imputed columns.",
    "em_mixture": "A Gaussian mixture of columns and target, fitted to the observed values by EM.",
    "boosting": "Boosted trees with native missing values.",
    "boosting_masked_copies": "The same, also trained on copies of the rows with more values masked.",
    "anymask": "This project's own method.",
    "anymask_fast": "The same with a smaller budget.",
    "gain": "Generative model: an imputer trained against a discriminator of single imputed values.",
    "misgan": "Generative model: generators of masks and of complete rows, and an imputer, each trained "
    "against a critic.",
    "crlr": "Linear regression with row weights, learned jointly, that balance all other columns between "
    "high and low values of each column.",
    "dgbr": "The same balance for the code of an auto-encoder, from which the target is predicted.",
    "mirrams": "A network trained with additional masking and consistency between both masks of a row.",
    "mask_dro": "A network trained for the worst of several missingness mechanisms.",
    "pattern_submodels": "One linear model per mask; masks with few rows get theirs from covariances over "
    "jointly observed rows.",
    "iterative_imputer": "Chained regressions complete the table, then boosted trees predict.",
    "label_gaussian": "One Gaussian with the mean and covariance of the complete training images; predicts "
    "missing pixels by their conditional mean and returns observed pixels as they are.",
    "factor_analysis": "Factor analysis of the incomplete training images, fitted by EM; predicts missing "
    "pixels by their conditional mean and returns observed pixels as they are.",
    "gaussian_and_local": "Completes an image by the Gaussian, and corrects it by a network with local φ "
    "that reads the image and its completion.",
    "stablemiss_local": "Our form of φ: inputs share the parameters of g, and φ emits a gain and a bias for "
    "each channel and place from the mask nearby. No row weights.",
    "stablemiss_local_augmented": "The same, with further pixels or sensors hidden at random in training.",
    "stablemiss_local_without_graph": "The same without mask augmentation and without the graph: each sensor "
    "is predicted from its own history.",
    "zero_fill": "g alone, the network that φ adapts in StableMiss; missing values are zero, the mean, and "
    "it does not read the mask.",
    "mask_input": "g alone; the mask is a further input.",
    "mask_input_augmented": "The same, with further pixels or sensors hidden at random in training.",
    "partial_convolution": "g alone, with convolutions that are divided by the observed share of their "
    "windows.",
    "hour_of_week": "Predicts the mean of each sensor by hour of the week.",
    "last_value": "Predicts that the last observed difference from that mean lasts.",
    "decayed_last_value": "The same, multiplied by a factor that depends on how old it is and how far ahead "
    "it is to predict.",
    "ridge_on_lags": "Ridge regression on the history of a sensor, the mean of its neighbours and the "
    "calendar, with the same coefficients for all sensors.",
    "boosting_on_lags": "Boosted trees on the same, and on the number of the sensor.",
    "boosting_on_lags_masked": "The same, also trained on copies with more readings hidden.",
    "boosting_on_lags_pooled": "The same without copies and without the number of the sensor.",
    "kalman": "A linear state space model of the history of each sensor, fitted by EM.",
    "local_and_ridge": "The mean of StableMiss with local φ and of ridge regression on the history of a "
    "sensor.",
    "linear": "The exact predictor of one Gaussian with the population's means and covariances; not ranked.",
    "optimal": "The exact Bayes predictor of the population.",
}

# What the comparison of early-stopped networks with those trained as published shows.
LONG_TRAINING = (
    "Networks trained as the paper describes (1000 epochs in batches of 64, Adam at 1e-3, no early stopping, "
    "no weight decay, γ from the paper's list by training loss) beside those that stop when the validation "
    "error no longer falls, on one instance of the same population. Gaps to the reference of the same "
    "training, on the same 8,192 test rows. Not as published: numbers and widths of layers are not searched, "
    "gradients are clipped, NeuMiss starts from the covariances of the columns, StableNet has our λ_p, and "
    "models are trained at 10, 50 and 90% missing only, so that Table 3 has three columns."
)


def title_of(label: str) -> str:
    """Display name of a label."""
    return TITLES.get(label, label)


def short_title(label: str) -> str:
    """Display name of a label without the remark that it keeps observed pixels."""
    return title_of(label).removesuffix(KEEPS_OBSERVED)


def array_line_title(line: ArrayLine) -> str:
    """Display name of a row; the paper writes "-ID" for a StableMiss trained at the level of the test."""
    mark = "§" if title_of(line.label).endswith(KEEPS_OBSERVED) else ""
    return short_title(line.label) + mark + (" trained as tested" if line.is_retrained else "")


def array_spread_text(comparison: ArrayComparison) -> str:
    """What follows ±, and why some values have none."""
    cells = [cell for line in comparison.lines for cell in line.cells if cell is not None]
    text = "± standard deviation"
    return f"{text}; without ±, of a single instance" if any(cell.n == 1 for cell in cells) else text


def array_notes(comparison: ArrayComparison) -> list[str]:
    """Sentences about the groups of rows, marks and gaps of a table of images or sensors."""
    notes = [
        "The paper's eight methods come first and are ranked separately from the others below them; a value "
        "that has no other to be compared with in its group and column is not ranked."
    ]
    lines = comparison.lines
    if any(cell is not None and cell.is_partial for line in lines for cell in line.cells):
        notes.append("‡: not ranked, because others of its group and column have more instances.")
    if any(array_line_title(line).endswith("§") for line in lines):
        notes.append("§: keeps observed pixels as they are.")
    if "retrained" in comparison.groups:
        titles = [column.title for column in comparison.columns if comparison.table.retrains(column)]
        notes.append(
            "Trained as tested: trained under the missingness of the test, which was done for "
            f"{' and '.join(titles)}; not ranked."
        )
    if comparison.n_missing:
        n_absent = comparison.n_absent
        notes.append(
            f"Not all runs are done: of {comparison.n_cells} values, {n_absent} are not there yet (a dash) "
            f"and {comparison.n_missing - n_absent} are of fewer than {comparison.n_instances} instances."
        )
    return notes


def array_instances_text(comparison: ArrayComparison) -> str:
    """Number of instances, such as "3 instances" or "1–3 of 3 instances"."""
    counts = [cell.n for line in comparison.lines for cell in line.cells if cell is not None] or [0]
    n = comparison.n_instances
    text = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)}–{max(counts)}"
    return f"{text if min(counts) == n else f'{text} of {n}'} instance{'' if n == 1 else 's'}"


def table_title(name: str) -> str:
    """Display name of a table or figure, such as "Table 11" or "Table 5 (didi)"."""
    name, _, data = name.partition("_")
    word = name.rstrip("0123456789")
    title = f"{word.capitalize()} {name[len(word) :]}".strip()
    return f"{title} ({data})" if data else title


def place_of(name: str) -> tuple[bool, int]:
    """Key to sort the names of tables and figures by: tables by their numbers, then figures."""
    numbers = "".join(letter for letter in name if letter.isdigit())
    return name.startswith("figure"), int(numbers or 0)


def reference_title(comparison: Comparison) -> str:
    """Display name of the reference; the paper writes "-ID" for a StableMiss trained at the test level."""
    return title_of(comparison.table.reference) + ("-ID" if comparison.table.reference_at_test_level else "")


def column_titles(comparison: Comparison) -> list[str]:
    """The level that names each column, in percent."""
    return [percent(comparison.table.column_level(column)) for column in comparison.columns]


def axis_title(comparison: Comparison) -> str:
    """Whether the levels of the columns are those of training rows, of test rows, or of both."""
    if not comparison.table.trains_for_each_column:
        return "tested at"
    has_one_test_level = len({column.test_level for column in comparison.columns}) == 1
    return "trained at" if has_one_test_level else "trained and tested at"


def instances_text(comparison: Comparison) -> str:
    """Number of instances behind the columns, such as "3", "1 of 3" or "1–2 of 3"."""
    counts = [len(instances) for instances in comparison.instances if instances] or [0]
    text = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)}–{max(counts)}"
    return text if min(counts) == comparison.n_instances else f"{text} of {comparison.n_instances}"


def decimals_for(references: Iterable[float | None]) -> int:
    """Decimals that distinguish gaps, given the size of the reference's errors."""
    return 0 if max((rmse for rmse in references if rmse is not None), default=0.0) >= 100 else 2


def number(value: float | None, decimals: int) -> str:
    """A number with a true minus sign and no negative zero; a dash for None.

    Examples
    --------
    >>> number(-12.5, 1), number(-0.001, 2), number(None, 2)
    ('−12.5', '0.00', '–')
    """
    return "–" if value is None else f"{value:z.{decimals}f}".replace("-", "−")


def as_percent(value: float | None) -> str:
    """A fraction in percent with one decimal; a dash for None."""
    return "–" if value is None else f"{number(100 * value, 1)}%"


def percent(level: float) -> str:
    """A level in percent without trailing zeros, such as "10%" or "12.5%"."""
    return f"{round(100 * level, 6):g}%"


def signed_percent(value: float | None) -> str:
    """A difference in percent with its sign; a dash for None. Below one per cent it has two decimals.

    Examples
    --------
    >>> signed_percent(0.0312), signed_percent(-0.0012), signed_percent(-0.00001)
    ('+3.1%', '−0.12%', '0.00%')
    """
    if value is None:
        return "–"
    text = f"{_difference(value)}%"
    return text if text.startswith("−") or not text.strip("0.%") else f"+{text}"


def interval_text(interval: tuple[float, float] | None) -> str:
    """An interval of differences in percent, in brackets and without the sign "%"; empty for None.

    Examples
    --------
    >>> interval_text((-0.012, 0.0004))
    '[−1.2, 0.04]'
    """
    return "" if interval is None else f"[{', '.join(_difference(end) for end in interval)}]"


def _difference(value: float) -> str:
    """A fraction in percent, so precise that a small difference keeps its sign."""
    return number(100 * value, 2 if abs(value) < 0.01 else 1)


def range_text(values: tuple[float, float] | None) -> str:
    """Smallest and largest of some positive numbers, with two significant digits; a dash for None.

    Examples
    --------
    >>> range_text((0.1, 45.63)), range_text((2.0, 2.0)), range_text((123.4, 5678.0))
    ('0.1–46', '2', '123–5678')
    """
    if values is None:
        return "–"
    low, high = (f"{value:.0f}" if value >= 100 else f"{value:.2g}" for value in values)
    return low if low == high else f"{low}–{high}"
