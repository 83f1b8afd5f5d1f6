"""Work that is done once: each step leaves a folder that says what it was made from, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from riskfront.errors import StoreError

Result = TypeVar("Result")
ABOUT = "step.json"


class Steps:
    """Steps in one folder. A step is redone when what it is made from, or the step it comes after, has changed.

    Args:
        folder: made when it is not there.
        say: told in one line what is done and what is found done.
    """

    def __init__(self, folder: str | os.PathLike[str], say: Callable[[str], None] = lambda line: None) -> None:
        self.folder, self._say = Path(folder), say
        self._made: dict[str, str] = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write in '{self.folder}': {error.strerror}.") from error

    def run(
        self,
        name: str,
        made_from: Mapping[str, Any],
        make: Callable[[Path], None],
        load: Callable[[Path], Result],
        *,
        after: str = "",
    ) -> Result:
        """What the step left, made now if it is not there; `after` names the step of this run whose result it needs."""
        before = self._made[after] if after else ""
        identity = json.dumps({"step": name, "after": before, **made_from}, sort_keys=True)
        sha256 = self._made[name] = hashlib.sha256(identity.encode()).hexdigest()
        target = self.folder / name
        if _is_done(target, sha256):
            self._say(f"{name}: done before")
            return load(target)
        self._say(f"{name} ...")
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=self.folder))
        try:
            make(unfinished)
            about = {"made_from": json.loads(identity), "sha256": sha256}
            (unfinished / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
            shutil.rmtree(target, ignore_errors=True)
            unfinished.chmod(0o755)
            os.replace(unfinished, target)
        except OSError as error:
            raise StoreError(f"cannot write the step '{target}': {error.strerror or error}.") from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return load(target)


def _is_done(target: Path, sha256: str) -> bool:
    try:
        return bool(json.loads((target / ABOUT).read_text(encoding="utf-8"))["sha256"] == sha256)
    except (OSError, ValueError, KeyError, TypeError):
        return False
