"""A process that puts one question to a tune store, at the same moment as another: python -m tests.faults.asker ..."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import riskfront as rf
from riskfront._data.stores.open_storage import RemoteStorage
from riskfront._data.stores.storage import LocalStorage
from riskfront._running.tuning import tune as tuning


class Coins:
    fingerprint = "coins of the askers"

    def __call__(self, config: dict[str, Any], examples: Any) -> dict[str, Any]:
        wrong = np.random.default_rng(config["k"]).random(len(examples)) < 0.02
        return {"error": wrong, "cost": np.full(len(examples), 1 - config["k"] / 400)}


def slow_down(seconds: float) -> None:
    """Every list of names and every creation takes longer."""
    for kind in (LocalStorage, RemoteStorage):
        for name in ("names", "create"):
            setattr(kind, name, _late(getattr(kind, name), seconds))


def _late(real: Any, seconds: float) -> Any:
    def late(self: Any, *args: Any) -> Any:
        time.sleep(seconds)
        found = real(self, *args)
        time.sleep(seconds)
        return found

    return late


def meet(folder: Path, me: str, count: int) -> None:
    """Wait until all are here."""
    (folder / me).touch()
    until = time.monotonic() + 100  # some of them start late on a busy machine
    while len(list(folder.iterdir())) < count:
        if time.monotonic() > until:
            raise SystemExit("the others did not come")
        time.sleep(0.001)


def main() -> None:
    given = json.loads(sys.argv[1])
    slow_down(given["delay"])
    real = tuning.record_use

    def at_the_same_moment(*args: Any, **named: Any) -> Any:
        meet(Path(given["meeting"]), str(given["limit"]), given["askers"])
        return real(*args, **named)

    tuning.record_use = at_the_same_moment
    problem = rf.Problem([f"error <= {given['limit']}"], minimize=["cost"])
    try:
        found = rf.tune(
            Coins(),
            np.random.default_rng(3).random(600),
            rf.Space(k=rf.Int(0, 400)),
            problem,
            search="random",
            budget=5,
            store=given["store"],
            storage_options=given["options"],
            again=given["again"],
        )
        print(json.dumps({"verdict": found.verdict(), "earlier": len(found.earlier_looks)}))
    except rf.SpentExamplesError as error:
        print(json.dumps({"refused": str(error)}))


if __name__ == "__main__":
    main()
