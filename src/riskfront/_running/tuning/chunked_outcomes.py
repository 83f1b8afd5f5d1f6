"""Outcomes of settings on chunks of examples: evaluated when they are wanted, kept in memory or in one store a chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from riskfront._data.groups import Groups
from riskfront._data.table import LossTable
from riskfront._problems.spaces.space import Config, config_id
from riskfront._running.evaluation.failing_examples import (
    SKIP_HINT,
    Failures,
    WorkersLostError,
    all_failed,
    all_missing,
    lost_workers,
    with_evaluated,
)
from riskfront._running.evaluation.outcome import Bounds, Failure, RowsOf
from riskfront._running.evaluation.workers import Workers, part_of
from riskfront._support.arrays import Array, FloatArray, IntArray
from riskfront._support.progress import ProgressBar
from riskfront.errors import InvalidInputError

Cell = tuple[int, int]  # a setting and a chunk
Price = Callable[[Config, Any], Any]


class ChunkedOutcomes:
    """The outcomes of settings on the chunks of one part of the examples.

    Args:
        examples: of the part.
        edges: borders of the chunks.
        groups: of the examples.
        rows: where the settings of each chunk are kept.
        configs: the settings, by row; the list may grow.
        bounds: of losses.
    """

    def __init__(
        self,
        examples: Any,
        edges: IntArray,
        groups: dict[str, Groups],
        rows: Sequence[RowsOf],
        configs: list[Config],
        bounds: Bounds | None,
        names: Sequence[str] = (),
    ) -> None:
        self.examples, self._edges, self._groups, self._rows = examples, edges, groups, list(rows)
        self.configs, self._bounds = configs, dict(bounds or {})
        self._names = list(names)  # of the losses, where they are known from other examples
        self._read: dict[Cell, dict[str, Array]] = {}

    @property
    def edges(self) -> IntArray:
        return self._edges

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
        sizes = np.diff(self._edges)
        return int(sum(len(rows) * size for rows, size in zip(self._rows, sizes, strict=True)))

    def like(self, other: ChunkedOutcomes) -> None:
        """Losses are called and declared as on other examples."""
        self._names = other.loss_names

    def table(self, rows: Sequence[int], chunks: slice) -> LossTable:
        start, stop = int(self._edges[chunks.start]), int(self._edges[chunks.stop])
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

    def spent(self, price: str | Price | None) -> float | None:
        """What all outcomes that are kept cost."""
        if price is None:
            return None
        cells = [(row, k) for row in range(len(self.configs)) for k in range(len(self._rows)) if self.known(row, k)]
        return float(sum(self._price(price, *cell).sum() for cell in cells))

    def price_of(self, price: str | Price, row: int) -> float:
        """The mean price of an evaluation of a setting on its first chunk."""
        return float(self._price(price, row, 0).mean())

    def _price(self, price: str | Price, row: int, chunk: int) -> FloatArray:
        size = int(np.diff(self._edges)[chunk])
        if isinstance(price, str):
            found = self._cell(row, chunk)
            if price not in found:
                raise InvalidInputError(f"price must name a loss, or be a function; there is no loss '{price}'.")
            return np.asarray(np.ma.filled(found[price].astype(np.float64), 0.0))
        part = part_of(self.examples, (int(self._edges[chunk]), int(self._edges[chunk + 1])))
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
        configs = [self.configs[row] for row, _ in wanted]
        parts = [(int(self._edges[k]), int(self._edges[k + 1])) for _, k in wanted]
        failed: list[tuple[Cell, Failure]] = []
        stopped: list[tuple[Cell, Failure]] = []

        def begun() -> Any:
            for config in configs:
                if stopped:
                    return
                yield config

        results = workers.run(begun(), parts)
        try:
            for index, outcome in results:
                cell, failure = wanted[index], None
                if isinstance(outcome, Failure):
                    failure = outcome
                    failed.append((cell, outcome))
                else:
                    failure = self._written(cell, outcome.losses) or outcome.failure
                if failure is not None:
                    if failures is None or failure.fatal:
                        stopped.append((cell, failure))
                    else:
                        failures[config_id(configs[index])] = (configs[index], failure)
                bar.advance(parts[index][1] - parts[index][0])
        except WorkersLostError as lost:
            raise lost_workers(lost, configs, self._rows[0]) from lost.__cause__
        finally:
            results.close()  # type: ignore[attr-defined]
        if stopped:
            (row, chunk), failure = stopped[0]
            hint = "" if failure.fatal else SKIP_HINT
            raise with_evaluated(partial(failure.error, self.configs[row]), self._rows[chunk], hint)
        names = self.loss_names
        if failed and not names:
            raise all_failed(failures or {})
        for (row, chunk), _ in failed:
            self._rows[chunk].write(self.configs[row], all_missing(names, int(np.diff(self._edges)[chunk])))

    def _written(self, cell: Cell, losses: Any) -> Failure | None:
        row, chunk = cell
        names = self.loss_names
        if names and losses.keys() != set(names):
            reason = f"the losses function must return the same losses at every setting, {sorted(names)}"
            return Failure(f"{reason}; got {sorted(losses)}")
        try:
            self._rows[chunk].write(self.configs[row], losses)
        except InvalidInputError as problem:
            return Failure(str(problem).rstrip("."), fatal=True)
        return None
