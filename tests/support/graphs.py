"""Graphs that tests compare with: a chain is fixed-sequence testing."""

import numpy as np

from riskfront.statistics._graphs import Graph


def chain(n: int, weights: np.ndarray | None = None) -> Graph:
    """A path 0 -> 1 -> ... -> n - 1, with all the weight on node 0 unless it is given."""
    start = np.eye(1, n).ravel() if weights is None else weights
    return Graph(start, np.minimum(np.arange(n + 1), max(n - 1, 0)), np.arange(1, n), np.ones(n - 1))
