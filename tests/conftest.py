"""Settings for the whole suite."""

import os

# Before numpy, torch and LightGBM are imported, which read these once. Tests fit small models, on which a
# second thread spends more time waiting than working, and `-n 2` already keeps two cores busy. Tests of
# multi-threaded code ask for its number of threads explicitly.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
