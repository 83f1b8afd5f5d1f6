"""The files of a tool, one after the other: which can be read, and what is said of the others."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import Importer, Record
from riskfront.errors import InvalidInputError, LeftOutWarning, RiskfrontError


def read_files(importer: Importer, files: Sequence[Path], skip_broken: bool) -> tuple[list[Record], dict[str, int]]:
    """What all files hold, and for each that is left out why, with the number of answers that could be read of it."""
    kept: list[Record] = []
    skipped: dict[str, int] = {}
    seen: dict[tuple[str, str], tuple[str, Mapping[str, Any]]] = {}
    for file in files:
        try:
            found = _of_log(file, importer, seen)
        except RiskfrontError as error:
            if not skip_broken or len(files) == 1:
                raise _with_advice(error, len(files)) from None
            skipped[f"{file.name}: {error}"] = 0
            continue
        partial = next((record.partial for record in found if record.partial), None)
        if skip_broken and partial is not None:
            skipped[f"{file.name}: {partial}"] = len(found)
            continue
        kept += found
    for reason in skipped:
        warnings.warn(LeftOutWarning(f"a log was skipped: {reason}"), stacklevel=4)
    if skipped and not kept:
        raise InvalidInputError(f"some log must be readable; all {len(skipped):,} were skipped: {next(iter(skipped))}")
    return kept, skipped


def _of_log(file: Path, importer: Importer, seen: dict[tuple[str, str], tuple[str, Mapping[str, Any]]]) -> list[Record]:
    """What one file holds. What is ``seen`` of an example is kept once: all models are asked the same long prompts."""
    found, log, written = list[Record](), str(file), _written(file)
    for record in importer.records(file):
        record.log, record.when = log, record.when or written
        record.example, known = seen.setdefault((record.task, record.example), (record.example, record.about))
        if known == record.about:
            record.about = known
        found.append(record)
    return found


def _written(file: Path) -> str:
    return datetime.fromtimestamp(file.stat().st_mtime, tz=timezone.utc).isoformat()


def _with_advice(error: RiskfrontError, files: int) -> RiskfrontError:
    if files == 1 or not isinstance(error, InvalidInputError):
        return error
    return InvalidInputError(f"{error} To go on without such files: skip_broken=True, --skip-broken.")
