"""The figures and tables of runs and comparisons."""

from collections.abc import Mapping

import numpy as np

DrawsBySolver = Mapping[str, np.ndarray]
