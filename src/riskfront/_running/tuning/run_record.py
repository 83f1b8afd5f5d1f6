"""What the first run into a store decided for all later ones, so that a run that is gone on with gives the same certificate.

Without this the certificate would depend on the machine: on its number of workers and on its speed.
"""

from __future__ import annotations

from riskfront._data.stores.loss_store import LossStore
from riskfront._running.evaluation.result_rows import RowsOf
from riskfront._support.checked_json import from_bytes, to_bytes
from riskfront.errors import InvalidInputError, StoreError


class RunRecord:
    """Decisions by name, in the store of the planning examples; forgotten at the end of the run where there is no store."""

    def __init__(self, rows: RowsOf) -> None:
        self._storage = rows.storage if isinstance(rows, LossStore) else None

    def known(self, name: str) -> int | None:
        """What was decided before, if anything was."""
        text = None if self._storage is None else self._storage.read(f"search/{name}.json")
        if self._storage is None or text is None:
            return None
        try:
            return int(from_bytes(text)[name])
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"'{self._storage.url}/search/{name}.json' must hold a number; it was damaged ({error}). "
                "Restore it from a copy."
            ) from None

    def settle(self, name: str, value: int) -> int:
        """What was decided first: this value, unless another one was before, or at the same moment by another process."""
        if self._storage is not None:
            self._storage.create(f"search/{name}.json", to_bytes({name: value}))
        known = self.known(name)
        return value if known is None else known


def batch_size(record: RunRecord, given: int | None, workers: int) -> int:
    """How many settings the search proposes at a time: as in the first run into the store, else as given, else one a worker."""
    chosen = record.settle("batch_size", workers if given is None else given)
    if given is not None and chosen != given:
        raise InvalidInputError(
            f"batch_size must be {chosen}, as in the run that this store was made by; got {given}. What a search proposes "
            "depends on it: leave it out, or use another store."
        )
    return chosen
