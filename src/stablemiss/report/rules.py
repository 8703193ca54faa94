"""The rules of the comparison at budget "standard", for the reader."""

from __future__ import annotations

from stablemiss.experiments.array_tables import ARRAY_TABLES, OUTAGE_LEVEL
from stablemiss.experiments.budgets import BUDGETS
from stablemiss.report.summary import ARRAY_SECONDS
from stablemiss.report.text import percent

_STANDARD = BUDGETS["standard"]
_TABLE_4, _TABLE_5 = ARRAY_TABLES["table4"], ARRAY_TABLES["table5"]

# Tables without images and sensor networks: what a rule is about → rule.
_TABLES = {
    "Training rows": "85% of the 16,384 rows of a synthetic table, 90% of the house sales.",
    "Validation rows": "15% of the rows of a synthetic table, 5% of the house sales; the same rows for all "
    "methods of an instance. They decide when a network stops, which γ StableMiss uses, how many components "
    "the EM mixture has, how many trees LightGBM has, when the weights of CRLR and DGBR are final, and the "
    "ridge of pattern submodels. No method is trained on them, also not in the end. "
    "OLS, DWR and SRDO do not see them; the classifier inside SRDO stops on a tenth of the training rows.",
    "Stopping": "All networks that predict: the validation loss of the task after each epoch, on all "
    "validation rows. After 8 epochs without a lower loss, training returns to the best epoch and continues "
    "with 0.3 times the learning rate; this happens three times, the fourth time it ends. The parameters of "
    "the best epoch are kept. LightGBM stops after 50 trees without a lower validation loss. CRLR and DGBR, "
    "which are trained on all rows at once, stop by their whole objective.",
    "γ": "StableMiss trains a network for each γ of the paper's list and keeps the one with the lowest "
    "validation loss. Values of γ whose weights differ by less than 0.5% on average share one network, and "
    "the smallest of them is reported. With the paper's weights this is usually the whole list.",
    "Latent size": "40 for MIWAE, P-BiGAN, Partial VAE and MisGAN. The synthetic covariances have rank 35 "
    "plus a small diagonal.",
    "Settings": "One setting of each method for all synthetic tables, and one for the real table. Both were "
    "compared with at least a dozen others on other data (docs/default_settings.md) and are within 1% of the "
    "best found there. For DWR, SRDO and StableNet they are the ones with clearly unequal weights that are: "
    "weights that stay nearly equal were as good or up to 0.5% better, and then the first two are least "
    "squares on mean-imputed columns. The row OLS is therefore their limit; where their error is above "
    "it, their weights do harm. The last group of rows, from GAIN on, has default parameters, which were not "
    "compared with others in this way.",
    "Test rows": "8,192 of a synthetic table, 5% of the house sales, the same for all methods.",
    "What is left out": "Tables 2, 10 and 11, in which every column needs a training of its own, have five "
    "of the nine columns. AnyMask, the slowest method, is in tables 1 and 3 only, at every budget, and the "
    "last group of rows in tables 1, 3 and 6–9.",
    "Instances": "Five in tables 1, 3, 6–9 and both figures, three in tables 2, 10 and 11: random "
    "populations with seeds that were not used in development, or random splits of the house sales.",
    "Versions of the code": "The run was interrupted and continued while other parts of the project "
    "changed. A record is computed again if a setting of its method changed. Whether other changes altered "
    "scores was checked by repeating old records (docs/reproduction.md).",
}

# Images and sensor networks. Epochs, learning rates and γ are among the parameters that the page lists: they
# are in array_methods, which needs torch, as pages do not.
_ARRAYS = {
    "Training rows": f"Table 4: {_STANDARD.n_images:,} of MNIST's training images. Table 5: one window in "
    f"{_STANDARD.window_stride} of the training period; for imposed outages, of three of four weeks of "
    "2023. The same for all methods of an instance.",
    "Validation rows": "A tenth of these images, or of the weeks of these windows, the same for all methods "
    "of an instance. No method is trained on them, but the usual readings of table 5 count them. Only "
    "networks on flat rows use them, to stop.",
    "Training": "All forms of StableMiss, g without φ and partial convolutions have the same g, learning "
    "rate, weight decay, batch size and number of epochs (more of them for the two months of table 5, which "
    "have fewer windows), one cycle of the learning rate and no early stopping. StableNet has the same g and "
    "larger batches, because its weights are those of the rows of a batch, and therefore more epochs. "
    "NeuMiss, Partial VAE, MIWAE and P-BiGAN read flat rows, in at most 40 epochs, which are as many steps "
    "in table 4, with early stopping by the validation loss. On images the last three still improved at the "
    "end, so that longer training might help them.",
    "γ": "StableMiss has one γ, in the middle of the paper's list, because each takes a training.",
    "Settings": "Table 4: near the best of a few that were compared with one seed on held-out training "
    "images (docs/default_settings.md). Table 5: chosen in trials on weeks and months of 2023 and 2024, "
    "which are also the test periods of some columns, so that errors of all methods may be slightly too low "
    "there. Networks with g have the same settings.",
    "Test rows": f"Table 4: {_STANDARD.n_test_images:,} of MNIST's test images. Table 5: one window in "
    f"{_STANDARD.window_stride} of another period, or of held-out weeks of 2023, on which outages are "
    f"imposed: sensors, or districts, are dark for {percent(OUTAGE_LEVEL)} of the time. What is to be "
    "predicted stays as it is. The same for all methods of an instance.",
    "Errors": "RMSEs, not gaps, because the best possible error is unknown. Table 4: over all pixels of the "
    "raw output; rows that keep observed pixels say so. Table 5: over the observed readings. All methods "
    "predict differences from the usual readings by hour of the week of the training windows: means that are "
    "shrunk to those of larger groups of readings.",
    "Instances": f"{_TABLE_4.n_instances} in table 4: other images and masks. {_TABLE_5.n_instances} in "
    "table 5: other validation weeks and outages. Random numbers of the fits differ as well; the periods of "
    "table 5 do not.",
    "Trained as tested": "Some methods are also trained under the missingness of some tests; these rows come "
    "last and are not ranked.",
    "Time": f"A fit should end within {ARRAY_SECONDS // 60} minutes. Slower ones are listed; none is "
    "stopped.",
}

# What a group of rules is about → what a rule is about → rule.
RULES_OF_COMPARISON = {"Tables 1–3, 6–11 and figures": _TABLES, "Tables 4 and 5": _ARRAYS}
