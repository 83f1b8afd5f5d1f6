"""How far a training is, in one file: weights, optimizer, random numbers and position. What goes on from it ends the same.

The file carries a digest of its content; one that is damaged is not used.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from riskfront._support.checked_json import DIGEST
from riskfront._support.files import written_whole

SECONDS = 60.0  # between two checkpoints, and at least twenty times what it takes to write one


@dataclass
class Checkpoint:
    """Keeps the state of a training in a file now and then.

    Args:
        path: of the file; None to keep nothing.
        modules: whatever learns.
        optimizer: Adam or AdamW.
    """

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
