"""The rules of the comparison at budget "standard", for the reader: what they are about → rule."""

from __future__ import annotations

RULES_OF_COMPARISON = {
    "Training rows": "85% of the 16,384 rows of a synthetic table, 90% of the house sales.",
    "Validation rows": "15% of the rows of a synthetic table, 5% of the house sales; the same rows for all "
    "methods of an instance. They decide when a network stops, which γ StableMiss uses, how many components "
    "the EM mixture has, and how many trees LightGBM has. No method is trained on them, also not in the end. "
    "OLS, DWR and SRDO do not see them; the classifier inside SRDO stops on a tenth of the training rows.",
    "Stopping": "All networks that predict: the validation loss of the task after each epoch, on all "
    "validation rows. After 8 epochs without a lower loss, training returns to the best epoch and continues "
    "with 0.3 times the learning rate; this happens three times, the fourth time it ends. The parameters of "
    "the best epoch are kept. LightGBM stops after 50 trees without a lower validation loss.",
    "γ": "StableMiss trains a network for each γ of the paper's list and keeps the one with the lowest "
    "validation loss. Values of γ whose weights differ by less than 0.5% on average share one network, and "
    "the smallest of them is reported. With the paper's weights this is usually the whole list.",
    "Latent size": "40 for MIWAE, P-BiGAN and Partial VAE. The synthetic covariances have rank 35 plus a "
    "small diagonal.",
    "Settings": "One setting of each method for all synthetic tables, and one for the real table. Both were "
    "compared with at least a dozen others on other data (docs/default_settings.md) and are within 1% of the "
    "best found there. For DWR, SRDO and StableNet they are the ones with clearly unequal weights that are: "
    "weights that stay nearly equal were as good or up to 0.5% better, and then the first two are least "
    "squares on mean-imputed columns. The row OLS is therefore their limit; where their error is above "
    "it, their weights do harm.",
    "Test rows": "8,192 of a synthetic table, 5% of the house sales, the same for all methods.",
    "What is left out": "Tables 2, 10 and 11, in which every column needs a training of its own, have five "
    "of the nine columns. AnyMask, the slowest method, is in tables 1 and 3 only, at every budget.",
    "Instances": "Five in tables 1, 3, 6–9 and both figures, three in tables 2, 10 and 11: random "
    "populations with seeds that were not used in development, or random splits of the house sales.",
    "Versions of the code": "The run was interrupted and continued while other parts of the project "
    "changed. A record is computed again if a setting of its method changed. Whether other changes altered "
    "scores was checked by repeating old records (docs/reproduction.md).",
}
