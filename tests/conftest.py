"""Settings for all tests."""

import os

# tests run in several processes (pytest-xdist): threads of the linear algebra under them only get in each other's way
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
