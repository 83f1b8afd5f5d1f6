"""A Gaussian process (scikit-learn's) for one value of a setting, as guided search needs it."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront._support.arrays import FloatArray
from riskfront.search._quiet import quiet

_LENGTHS = (0.1, 10.0)  # of the kernel, in units of the space's sides
_SCALES = (0.05, 50.0)
_NOISES = (1e-6, 0.3)  # in units of the variance told
_GROWTH = 20  # kernels are fitted anew when a twentieth more is known, and kept in between


class Surrogate:
    """Learns a value from the settings told, and predicts it, with its uncertainty, for others."""

    def __init__(self) -> None:
        self._kernel: Any = None
        self._fitted_to = 0
        self._model: Any = None

    def fit(self, points: FloatArray, values: FloatArray) -> None:
        """Learn from all (settings, features) and their (settings,) values."""
        due = len(values) - self._fitted_to >= max(1, len(values) // _GROWTH)
        self._condition(points, values, "fmin_l_bfgs_b" if due else None)
        if due:
            self._kernel, self._fitted_to = self._model.kernel_, len(values)

    def believe(self, points: FloatArray, values: FloatArray) -> None:
        """Take more values for granted, without learning a kernel from them."""
        self._condition(points, values, None)

    def predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation, (settings,) each, of what would be told."""
        mean, deviation = self._model.predict(points, return_std=True)
        return mean, np.maximum(deviation, 1e-9)

    def _condition(self, points: FloatArray, values: FloatArray, optimizer: str | None) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor

        kernel = _first_kernel(points.shape[1]) if self._kernel is None else self._kernel
        model = GaussianProcessRegressor(kernel, optimizer=optimizer, normalize_y=True)
        with quiet("sklearn"):  # a kernel at its bounds is no news here: it means that a dimension does not matter
            self._model = model.fit(points, values)


def _first_kernel(n_features: int) -> Any:
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    smooth = ConstantKernel(1.0, _SCALES) * Matern([0.5] * n_features, _LENGTHS, nu=2.5)
    # Two settings side by side differ by a little more than a smooth function does: examples flip one by one.
    return smooth + WhiteKernel(1e-3, _NOISES)
