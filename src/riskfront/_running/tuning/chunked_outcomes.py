"""Outcomes of settings on chunks of examples: evaluated when they are wanted, kept in memory or in one store a chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from riskfront._data.groups import Groups
from riskfront._data.table import LossTable
from riskfront._problems.spaces.space import Config
from riskfront._running.evaluation.evaluate import write_as_they_come
from riskfront._running.evaluation.failing_examples import Failures, all_failed, all_missing
from riskfront._running.evaluation.outcome import Bounds, RowsOf
from riskfront._running.evaluation.workers import Workers, part_of
from riskfront._support.arrays import Array, FloatArray, IntArray
from riskfront._support.progress import ProgressBar
from riskfront.errors import InvalidInputError

Cell = tuple[int, int]  # a setting and a chunk
Price = Callable[[Config, Any], Any]


class ChunkedOutcomes:
    """The outcomes of settings on the chunks of one part of the examples.

    Args:
        edges: borders of the chunks.
        rows: where the settings of each chunk are kept.
        configs: the settings, by row; the list may grow.
    """

    def __init__(
        self,
        examples: Any,
        edges: IntArray,
        groups: dict[str, Groups],
        rows: Sequence[RowsOf],
        configs: list[Config],
        bounds: Bounds | None,
    ) -> None:
        self.examples, self.edges, self._groups, self._rows = examples, edges, groups, list(rows)
        self.configs, self._bounds = configs, dict(bounds or {})
        self._names: list[str] = []  # of the losses, where they are known from other examples
        self._read: dict[Cell, dict[str, Array]] = {}

    @property
    def n_settings(self) -> int:
        return len(self.configs)

    @property
    def loss_names(self) -> list[str]:
        return next((rows.loss_names for rows in self._rows if rows.loss_names), self._names)

    @property
    def stored_configs(self) -> list[Config]:
        """The settings that have outcomes on the first chunk, whoever evaluated them."""
        return self._rows[0].configs

    def known(self, row: int, chunk: int) -> bool:
        return self.configs[row] in self._rows[chunk]

    def level(self, row: int) -> int:
        """How many chunks of a setting are known, from the first on."""
        return next((k for k in range(len(self._rows)) if not self.known(row, k)), len(self._rows))

    def evaluated(self) -> int:
        """How many outcomes are kept: settings x examples."""
        sizes = np.diff(self.edges)
        return int(sum(len(rows) * size for rows, size in zip(self._rows, sizes, strict=True)))

    def like(self, other: ChunkedOutcomes) -> None:
        """Losses are called and declared as on other examples."""
        self._names = other.loss_names

    def table(self, rows: Sequence[int], chunks: slice) -> LossTable:
        start, stop = int(self.edges[chunks.start]), int(self.edges[chunks.stop])
        losses: dict[str, Any] = {}
        wanted = [[self._cell(row, k) for k in range(chunks.start, chunks.stop)] for row in rows]
        masked: Any = np.ma  # whose functions carry no types
        for name in self.loss_names:
            losses[name] = masked.stack([masked.concatenate([cell[name] for cell in cells]) for cells in wanted])
            if not np.ma.is_masked(losses[name]):
                losses[name] = np.ma.getdata(losses[name])
        groups = {name: of.at(slice(start, stop)) for name, of in self._groups.items()}
        return LossTable([self.configs[row] for row in rows], losses, groups, self._bounds)

    def _cell(self, row: int, chunk: int) -> dict[str, Array]:
        if (row, chunk) not in self._read:
            table = self._rows[chunk].table([self.configs[row]], bounds=self._bounds)
            self._read[row, chunk] = {name: table.outcomes(name, np.array([0]))[0] for name in table.loss_names}
        return self._read[row, chunk]

    def spent(self, price: str | Price) -> float:
        """What all outcomes that are kept cost."""
        cells = [(row, k) for row in range(len(self.configs)) for k in range(len(self._rows)) if self.known(row, k)]
        return float(sum(self._price(price, *cell).sum() for cell in cells))

    def price_of(self, price: str | Price, row: int) -> float:
        """The mean price of an evaluation of a setting on its first chunk."""
        return float(self._price(price, row, 0).mean())

    def _price(self, price: str | Price, row: int, chunk: int) -> FloatArray:
        size = int(np.diff(self.edges)[chunk])
        if isinstance(price, str):
            found = self._cell(row, chunk)
            if price not in found:
                raise InvalidInputError(f"price must name a loss, or be a function; there is no loss '{price}'.")
            return np.asarray(np.ma.filled(found[price].astype(np.float64), 0.0))
        part = part_of(self.examples, (int(self.edges[chunk]), int(self.edges[chunk + 1])))
        given = price(dict(self.configs[row]), part)
        try:
            values = np.broadcast_to(np.asarray(given, dtype=np.float64), (size,))
        except (TypeError, ValueError):
            values = np.full(size, np.nan)
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise InvalidInputError(
                f"the price of an evaluation must be a number, or one for each example, at least 0; for {self.configs[row]} on "
                f"{size} examples the function returned {str(given)[:80]}."
            )
        return values

    def evaluate(self, cells: Sequence[Cell], workers: Workers, bar: ProgressBar, failures: Failures | None) -> None:
        """Evaluate settings on chunks and write each down when it comes; failures are collected, or the first is raised."""
        wanted = [cell for cell in dict.fromkeys(cells) if not self.known(*cell)]
        parts = [(int(self.edges[k]), int(self.edges[k + 1])) for _, k in wanted]
        write_as_they_come(
            [(self.configs[row], self._rows[k]) for row, k in wanted],
            partial(workers.run, parts=parts),
            bar,
            failures,
            lambda: self.loss_names,
            sizes=[stop - start for start, stop in parts],
        )
        failed, names = [cell for cell in wanted if not self.known(*cell)], self.loss_names
        if failed and not names:
            raise all_failed(failures or {})
        for row, k in failed:
            self._rows[k].write(self.configs[row], all_missing(names, self._rows[k].n_examples))
