"""One bit turned around in every kind of file that riskfront writes: found, or without any effect."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from riskfront._cascades.policy import Policy
from riskfront._data.logs.runs import Runs, from_frame
from riskfront._data.stores.loss_store import LossStore, write_notes
from riskfront._support.checked_json import DamagedError
from riskfront._support.sealed_tensors import load_sealed, save_sealed

PLACES = 100
PROBLEM = rf.Problem(["error <= 0.2"], minimize=["cost"])


@dataclass(frozen=True)
class Kind:
    """A kind of file: ``write`` makes some in a folder, ``read`` gives all that a user gets of them, as a text."""

    name: str
    write: Callable[[Path], None]
    read: Callable[[Path], str]
    files: str = "**/*"


@dataclass(frozen=True)
class Result:
    """Of so many places: in how many the flip was found, had no effect, changed a result, or gave a raw error."""

    found: int = 0
    harmless: int = 0
    changed: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()

    @property
    def survived(self) -> bool:
        return not self.changed and not self.raw


def flip(kind: Kind, folder: Path, seed: int = 0, places: int = PLACES) -> Result:
    """Turn around one bit at each of many random places of all files together."""
    made = folder / "made"
    made.mkdir()
    kind.write(made)
    before = kind.read(made)
    files = sorted(path for path in made.glob(kind.files) if path.is_file() and path.stat().st_size)
    # files of a store are made larger than what is in them
    written = {path: len(path.read_bytes().rstrip(b"\0")) or 1 for path in files}
    rng = np.random.default_rng(seed)
    count = {"found": 0, "harmless": 0}
    changed, raw = [], []
    for number in range(places):
        trial = folder / "trial"
        shutil.copytree(made, trial)
        # every second time the smallest files have the same chance as the largest
        sizes = np.array([written[path] for path in files], dtype=float) ** (number % 2)
        path = trial / files[rng.choice(len(files), p=sizes / sizes.sum())].relative_to(made)
        data = bytearray(path.read_bytes())
        place, bit = int(rng.integers(written[made / path.relative_to(trial)])), int(rng.integers(8))
        data[place] ^= 1 << bit
        path.write_bytes(data)
        where = f"bit {bit} of byte {place} of {path.relative_to(trial)}"
        try:
            same = kind.read(trial) == before
            count["harmless"] += same
            changed += [] if same else [where]
        except rf.RiskfrontError:
            count["found"] += 1
        except Exception as error:
            raw.append(f"{where}: {type(error).__name__}: {error}")
        shutil.rmtree(trial)
    return Result(**count, changed=tuple(changed), raw=tuple(raw))


def _table() -> rf.LossTable:
    rng = np.random.default_rng(0)
    error, cost = rng.random((12, 300)) < 0.1, rng.random((12, 300))
    settings = [{"level": i / 10, "name": "ab"[i % 2]} for i in range(12)]
    return rf.LossTable(settings, {"error": error, "cost": cost}, groups={"label": rng.choice(["x", "y"], 300)})


def _read_table(folder: Path) -> str:
    table = rf.LossTable.load(folder / "t.parquet")
    return table.sha256 + str(table.declared_bounds)


class _Losses:
    fingerprint = "bit flips"

    def __call__(self, config: dict[str, Any], examples: Any) -> dict[str, Any]:
        return {"error": examples < config["level"], "cost": np.full(len(examples), 1 - config["level"])}


def _examples() -> Any:
    return np.random.default_rng(1).random(200)


def _write_store(folder: Path) -> None:
    settings = [{"level": i / 40} for i in range(9)]
    groups = {"half": _examples() < 0.5}
    rf.evaluate(_Losses(), _examples(), settings, groups=groups, store=folder / "run.zarr")
    write_notes(folder / "run.zarr", ["a note"])


def _read_store(folder: Path) -> str:
    store = LossStore(folder / "run.zarr")
    certificate = rf.calibrate(store, rf.Problem(["error <= 0.2", "error <= 0.5 per half"], minimize=["cost"]))
    return f"{store.table().sha256} {store.notes} {json.dumps(_without_uses(certificate))}"


def _without_uses(certificate: rf.Certificate) -> Any:
    return {name: value for name, value in certificate.to_dict().items() if name not in ("earlier_looks", "verdict")}


def _write_uses(folder: Path) -> None:
    space = rf.Space(level=rf.Float(0.0, 0.3))
    for budget in (3, 6):
        rf.tune(_Losses(), _examples(), space, PROBLEM, search="random", budget=budget, looks=folder, again=True)


def _read_uses(folder: Path) -> str:
    from riskfront._data.stores.storage import LocalStorage
    from riskfront._running.tuning.recorded_uses import _recorded

    return json.dumps([_recorded(LocalStorage(folder), f"uses/{path.name}") for path in (folder / "uses").iterdir()])


def _tuned(folder: Path, adaptive: bool = False) -> str:
    """The certificate of a run into a store; of a second run, what the store keeps of the first."""
    space, how = rf.Space(level=rf.Float(0.0, 0.3)), {"search": "random", "budget": 6, "adaptive": adaptive}
    found = rf.tune(_Losses(), _examples(), space, PROBLEM, store=folder / "run.zarr", n_jobs=1, seed=0, **how)
    return json.dumps(found.to_dict(), sort_keys=True)


def _policy() -> Policy:
    table = rf.LossTable([{"models": "small > large", "threshold 1": 0.8}], {"error": [[0] * 300], "cost": [[1] * 300]})
    return Policy("cascade", ("small", "large"), (0.8,), "sure", (0.5, 0.5), rf.calibrate(table, PROBLEM))


def _monitor() -> rf.Monitor:
    monitor = rf.Monitor(rf.calibrate(_table(), rf.Problem("error <= 0.3", minimize="cost")))
    monitor.update({"error": [0, 1, 0, 0, 1] * 20})
    return monitor


def _write_passes(folder: Path) -> None:
    rng = np.random.default_rng(3)
    arrays = {"probabilities": rng.random((20, 3)), "mask": rng.random((2, 2)) < 0.5, "precision": np.array(1)}
    save_sealed(arrays, folder / "a.safetensors", {"seed": "3"})


def _read_passes(folder: Path) -> str:
    try:
        arrays, about = load_sealed(folder / "a.safetensors")
    except DamagedError as error:  # each reader says what its file is for
        raise rf.StoreError(str(error)) from None
    return str({name: (array.dtype, array.tolist()) for name, array in arrays.items()}) + str(about)


def _frontier() -> rf.Frontier:
    problem = rf.Problem("error <= 0.3", minimize="cost")
    return rf.frontier(_table(), problem, {"error": [0.2, 0.3]}, simultaneous=True)


def _sequential() -> rf.Sequential:
    run = rf.Sequential([{"level": level} for level in (0.1, 0.2)], PROBLEM, examples=200, seed=0)
    for config, example in run.ask(40):
        losses = _Losses()(config, _examples()[[example]])
        run.tell((config, example), {name: float(value[0]) for name, value in losses.items()})
    return run


class _Refused(rf.StoreError):
    """Damage that was seen: a step or a table is made again, a checkpoint is not used."""


def _step(folder: Path, make: Callable[[Path], None]) -> str:
    """A training step: its files, where they are those that were written."""
    from safetensors.numpy import load_file

    from riskfront.transformers._learning.steps import Steps

    load = lambda path: str({name: array.tolist() for name, array in load_file(path / "a.safetensors").items()})  # noqa: E731
    return Steps(folder).run("1-step", {"seed": 1}, make, load)


def _make_step(path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"weights": np.random.default_rng(4).random((10, 4))}, path / "a.safetensors")
    (path / "report.json").write_text('{"accuracy": [0.5, 0.75]}', encoding="utf-8")


def _read_step(folder: Path) -> str:
    def make(path: Path) -> None:
        raise _Refused("made again")

    return _step(folder, make)


def _checkpoint(folder: Path) -> Any:
    import torch

    from riskfront.transformers._learning.steps import Checkpoint

    torch.manual_seed(5)
    modules = torch.nn.ModuleDict({"one": torch.nn.Linear(4, 3)})
    return Checkpoint(folder / "a.checkpoint", modules, torch.optim.Adam(modules.parameters()))


def _write_checkpoint(folder: Path) -> None:
    import torch

    kept = _checkpoint(folder)
    kept.modules["one"](torch.ones(2, 4)).sum().backward()
    kept.optimizer.step()
    kept.save({"epoch": 1, "order": [2, 0, 1]})


def _read_checkpoint(folder: Path) -> str:
    kept = _checkpoint(folder)
    position = kept.restore()
    if position is None:
        raise _Refused("begins at the beginning")
    return f"{position} {kept.modules.state_dict()} {kept.optimizer.state_dict()['state']}"


def _write_comparison(folder: Path) -> None:
    from riskfront.transformers._speed_up import Alternative, Gain, save_alternatives

    save_alternatives(folder, [Alternative("words", 0.7, 200, 1.5, 0.25), Alternative("half", 0.75, 100, 2.5, 0.5)])
    Gain(5.5, 2.25, 0.875, 0.75).save(folder)


def _read_comparison(folder: Path) -> str:
    from riskfront.transformers._speed_up import Gain, load_alternatives

    return f"{load_alternatives(folder)} {Gain.load(folder)}"


def _write_large(folder: Path) -> None:
    import pandas as pd

    rng = np.random.default_rng(6)
    rows = [{"level": level, "example": i} for level in range(6) for i in range(100)]
    frame = pd.DataFrame(rows).assign(error=rng.random(600) < 0.1, cost=rng.random(600))
    frame.to_parquet(folder / "rows.parquet")
    _read_large(folder)


def _read_large(folder: Path) -> str:
    """A table larger than memory, whose sorted rows stay in the cache; every table is, here."""
    from riskfront._data.reading import long_format, on_disk, opening

    layout = long_format.Layout(("level",), "example", loss_columns=("error", "cost"), group_columns=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_disk, "cache_folder", lambda: folder / "cache")
        patch.setattr(on_disk, "_states", lambda source: [])  # wherever it was copied to
        patch.setattr(on_disk, "_digest", lambda value: "0")
        if (folder / "cache").exists():
            patch.setattr(on_disk, "_convert", _made_again)
        source = opening.from_path(folder / "rows.parquet")
        table = on_disk.read_large(source, layout, ("example",), None, ())
        return json.dumps(_without_uses(rf.calibrate(table, PROBLEM)))


def _made_again(work: Any) -> None:
    raise _Refused("made again")


def _runs() -> Runs:
    import pandas as pd

    rng = np.random.default_rng(2)
    rows = [
        {"model": model, "example": f"e{i}", "score": float(rng.random() < 0.7), "cost": float(rng.random())}
        for model in ("small", "large")
        for i in range(60)
    ]
    return from_frame(pd.DataFrame(rows), ["model"], ["example"])


def _read_runs(folder: Path) -> str:
    from riskfront._data.logs.read_runs import read_runs

    return str(read_runs(folder / "runs.parquet").frame().to_csv())


KINDS = {
    kind.name: kind
    for kind in (
        Kind("saved table", lambda folder: _table().save(folder / "t.parquet"), _read_table),
        Kind("saved runs", lambda folder: _runs().save(folder / "runs.parquet"), _read_runs),
        Kind(
            "policy",
            lambda folder: _policy().save(folder / "p.json"),
            lambda f: str(Policy.load(f / "p.json").to_dict()),
        ),
        Kind(
            "certificate",
            lambda folder: rf.calibrate(_table(), rf.Problem("error <= 0.3", minimize="cost")).save(folder / "c.json"),
            lambda f: str(rf.Certificate.load(f / "c.json").to_dict()),
        ),
        Kind(
            "monitor",
            lambda folder: _monitor().save(folder / "m.json"),
            lambda f: str(rf.Monitor.load(f / "m.json").to_dict()),
        ),
        Kind(
            "frontier",
            lambda folder: _frontier().save(folder / "f.json"),
            lambda f: str(rf.Frontier.load(f / "f.json").to_dict()),
        ),
        Kind(
            "sequential run",
            lambda folder: _sequential().save(folder / "s.json"),
            lambda f: str(rf.Sequential.load(f / "s.json").to_dict()),
        ),
        Kind("training step of an accelerated folder", lambda folder: str(_step(folder, _make_step)), _read_step),
        Kind("checkpoint of a training", _write_checkpoint, _read_checkpoint),
        Kind("comparison in an accelerated folder", _write_comparison, _read_comparison),
        Kind("sorted table larger than memory", _write_large, _read_large, "cache/**/*"),
        Kind("traces, and examples of an accelerated folder", _write_passes, _read_passes),
        Kind("store of losses", _write_store, _read_store, "**/run.zarr/**/*"),
        Kind("record of uses", _write_uses, _read_uses),
        Kind("store of `tune`", lambda folder: str(_tuned(folder)), _tuned),
        Kind("store of `tune(adaptive=True)`", lambda f: str(_tuned(f, True)), lambda f: _tuned(f, True)),
    )
}
