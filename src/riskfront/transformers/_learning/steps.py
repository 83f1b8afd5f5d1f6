"""Training that was stopped goes on: steps that are done once, and a checkpoint inside the longest.

A step leaves a folder that says what it was made from, whole or not at all. It lists the digests of its files, and the
checkpoint carries one of its content; what is damaged is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from riskfront._support.checked_json import DIGEST, check_digests, write_digests
from riskfront._support.files import LOCK, make_usual, scratch_folder, sync_file, written_whole
from riskfront.errors import RiskfrontError, StoreError

SECONDS = 60.0  # between two checkpoints, and at least twenty times what it takes to write one
Result = TypeVar("Result")
ABOUT = "step.json"
_CHECKPOINT = ".checkpoint"


@dataclass
class Checkpoint:
    """Keeps the state of a training in a file now and then, or nothing where there is no path; `optimizer` is Adam or AdamW."""

    path: Path | None
    modules: nn.ModuleDict
    optimizer: torch.optim.Optimizer
    _last: float = field(default_factory=lambda: time.monotonic())
    _pause: float = 0.0

    def is_due(self) -> bool:
        return self.path is not None and time.monotonic() - self._last >= max(SECONDS, self._pause)

    def save(self, position: dict[str, Any]) -> None:
        """Everything as it is now; `position` is plain values."""
        if self.path is None:
            return
        begin = time.monotonic()
        tensors = {f"module.{name}": value.contiguous() for name, value in self.modules.state_dict().items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value.contiguous() for name, value in state.items()}
        tensors["random"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors |= {f"cuda.{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
        with written_whole(self.path) as path:
            about = json.dumps(position)
            save_file(_unshared(tensors), path, metadata={"position": about, DIGEST: _digest(tensors, about)})
        self._last = time.monotonic()
        self._pause = 20 * (self._last - begin)

    def restore(self) -> dict[str, Any] | None:
        """Put everything back as it was, and return the position; None where there is no checkpoint."""
        if self.path is None or not self.path.is_file():
            return None
        try:
            with safe_open(self.path, "pt") as file:
                about = dict(file.metadata() or {})
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            if about[DIGEST] != _digest(tensors, about["position"]):
                return None  # damaged
            position = json.loads(about["position"])
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError, OverflowError):
            return None  # whatever it is, it is no checkpoint: begin at the beginning
        self.modules.load_state_dict(_part(tensors, "module."))
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in _part(tensors, "optimizer.").items():
            number, _, name = key.partition(".")
            state.setdefault(int(number), {})[name] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        torch.set_rng_state(tensors["random"])
        for i, random in _part(tensors, "cuda.").items():
            torch.cuda.set_rng_state(random, int(i))
        return dict(position)


def _digest(tensors: dict[str, Tensor], about: str) -> str:
    from blake3 import blake3

    digest = blake3(about.encode())
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(json.dumps([name, str(value.dtype), list(value.shape)]).encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return str(digest.hexdigest())


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _unshared(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights that two layers share are written twice: safetensors holds no shared memory."""
    seen: set[int] = set()
    found = {}
    for name, value in tensors.items():
        found[name] = value.clone() if value.data_ptr() in seen and value.numel() else value
        seen.add(value.data_ptr())
    return found


class Steps:
    """Steps in one folder. A step is redone when what it is made from, or the step it comes after, has changed, and when its
    files are not those that were written. `say` is told in one line what is done and what is found done.
    """

    def __init__(self, folder: str | os.PathLike[str], say: Callable[[str], None] = lambda line: None) -> None:
        self.folder, self.say = Path(folder), say
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
                self.say(f"{name}: made again, because {error}")
            else:
                self.say(f"{name}: done before")
                return load(target)
        self.say(f"{name} ...")
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
