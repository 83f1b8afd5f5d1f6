"""Work that is done once: each step leaves a folder that says what it was made from, whole or not at all.

The folder lists the digests of its files, which are checked before they are used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from riskfront._support.files import make_usual, sync_file
from riskfront._support.folder_digests import check_digests, write_digests
from riskfront._support.temporary_folders import LOCK, scratch_folder
from riskfront.errors import RiskfrontError, StoreError

Result = TypeVar("Result")
ABOUT = "step.json"
_CHECKPOINT = ".checkpoint"


class Steps:
    """Steps in one folder. A step is redone when what it is made from, or the step it comes after, has changed, and when its
    files are not those that were written.

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
            try:
                check_digests(target)
            except StoreError as error:
                self._say(f"{name}: made again, because {error}")
            else:
                self._say(f"{name}: done before")
                return load(target)
        self._say(f"{name} ...")
        try:
            with scratch_folder(self.folder, f".{name}.") as unfinished:
                make(unfinished)
                about = {"made_from": json.loads(identity), "sha256": sha256}
                (unfinished / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
                written = [path.relative_to(unfinished) for path in unfinished.rglob("*") if path.is_file()]
                write_digests(unfinished, [path for path in written if path.name != LOCK])
                _publish(unfinished, target)
        except OSError as error:
            if isinstance(error, RiskfrontError):
                raise
            raise StoreError(f"cannot write the step '{target}': {error.strerror or error}.") from error
        for old in self.folder.glob(f".{name}.*{_CHECKPOINT}"):
            old.unlink(missing_ok=True)
        return load(target)

    def made(self, name: str) -> str:
        """The digest of what a step of this run was made from, for steps that need the results of several others."""
        return self._made[name]

    def checkpoint(self, name: str) -> Path:
        """Where the step that is being made may keep how far it is. The file is removed when the step is done; that of a step
        made from something else is never seen."""
        return self.folder / f".{name}.{self._made[name][:16]}{_CHECKPOINT}"


def _publish(unfinished: Path, target: Path) -> None:
    """A finished folder takes its place, readable like any other."""
    (unfinished / LOCK).unlink(missing_ok=True)
    for path in unfinished.rglob("*"):
        if path.is_file():
            make_usual(path)
            sync_file(path)
    mask = os.umask(0)
    os.umask(mask)
    unfinished.chmod(0o777 & ~mask)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(unfinished, target)


def _is_done(target: Path, sha256: str) -> bool:
    try:
        return bool(json.loads((target / ABOUT).read_text(encoding="utf-8"))["sha256"] == sha256)
    except (OSError, ValueError, KeyError, TypeError):
        return False
