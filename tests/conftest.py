"""Settings for the whole suite."""

import os

# Set before numpy, torch and LightGBM are imported, because they read these variables only once. Tests fit
# small models, for which a second thread mostly waits, and `-n 2` already uses two cores. Tests of
# multi-threaded code set the number of threads explicitly.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
