"""Object storage: options reach every door, a service that is down is a sentence."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from riskfront._data.stores.loss_store import LossStore
from tests.faults import servers
from tests.support.processes import closed_port

SETTINGS = [{"k": k} for k in range(5)]
PROBLEM = rf.Problem("error <= 0.2", minimize="cost")


class Losses:
    fingerprint = "object storage"

    def __call__(self, config: dict[str, Any], examples: Any) -> dict[str, Any]:
        return {"error": examples < config["k"] / 100, "cost": np.full(len(examples), 1 - config["k"] / 100)}


def examples() -> Any:
    return np.random.default_rng(0).random(400)


def test_options_reach_every_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with servers.s3() as options:
        given: Any = {"storage_options": options}
        table = rf.evaluate(Losses(), examples(), SETTINGS, store="s3://bucket/run.zarr", **given)
        assert LossStore("s3://bucket/run.zarr", **given).table(SETTINGS).sha256 == table.sha256
        certificate = rf.calibrate("s3://bucket/run.zarr", PROBLEM, **given)
        assert rf.verify(certificate, "s3://bucket/run.zarr", **given) == []
        space = rf.Space(k=rf.Int(0, 30))
        call: Any = {"search": "grid", "store": "s3://bucket/tune.zarr"}
        tuned = rf.tune(Losses(), examples(), space, PROBLEM, **call, **given)
        assert rf.verify(tuned, "s3://bucket/tune.zarr", **given) == []
        assert rf.tune(Losses(), examples(), space, PROBLEM, **call, **given).to_dict() == tuned.to_dict()
        other = rf.Problem("error <= 0.1", minimize="cost")
        with pytest.raises(rf.SpentExamplesError):
            rf.tune(Losses(), examples(), space, other, **call, **given)
        table.save(tmp_path / "t.parquet")
        monkeypatch.setenv("RISKFRONT_STORAGE_OPTIONS", json.dumps(options))
        again = rf.calibrate("s3://bucket/run.zarr", PROBLEM)
        assert again.to_dict() == certificate.to_dict()


@pytest.mark.parametrize("door", ["evaluate", "tune", "calibrate", "store"])
def test_a_service_that_is_down(door: str) -> None:
    url = "s3://bucket/run.zarr"
    doors: dict[str, Any] = {
        "evaluate": lambda given: rf.evaluate(Losses(), examples(), SETTINGS, store=url, **given),
        "tune": lambda given: rf.tune(Losses(), examples(), rf.Space(k=rf.Int(0, 9)), PROBLEM, store=url, **given),
        "calibrate": lambda given: rf.calibrate(url, PROBLEM, **given),
        "store": lambda given: LossStore(url, **given),
    }
    started = time.monotonic()
    with closed_port() as port, pytest.raises(rf.StoreError, match=r"cannot (read|write|open) .*s3://bucket") as said:
        doors[door]({"storage_options": {**servers.options(port), "config_kwargs": {"retries": {"max_attempts": 1}}}})
    assert "endpoint" in str(said.value)
    assert "\n" not in str(said.value)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("text", ["{", "[1]", "9" * 5000])
def test_options_of_the_environment(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(rf.StoreError, match=r"storage_options \(for commands: RISKFRONT_STORAGE_OPTIONS\)"):
        LossStore("nowhere://bucket/run.zarr")
    monkeypatch.setenv("RISKFRONT_STORAGE_OPTIONS", text)
    with pytest.raises(rf.InvalidInputError, match="RISKFRONT_STORAGE_OPTIONS must be"):
        LossStore("memory://somewhere")


def test_wrong_keys(tmp_path: Path) -> None:
    with servers.s3() as options, pytest.raises(rf.RiskfrontError, match="nowhere"):
        rf.evaluate(Losses(), examples(), SETTINGS, store="s3://nowhere/run.zarr", storage_options=options)


def test_few_requests_a_setting(tmp_path: Path) -> None:
    """Losses of settings that are evaluated within a second share their objects."""
    log = tmp_path / "log"
    settings = [{"k": k} for k in range(100)]
    with servers.s3(log) as options:
        given: Any = {"storage_options": options}
        rf.evaluate(Losses(), examples(), settings, store="s3://bucket/run.zarr", **given)
        evaluated = servers.requests(log).total()
        rf.calibrate("s3://bucket/run.zarr", PROBLEM, **given)
        calibrated = servers.requests(log).total() - evaluated
        space = rf.Space(k=rf.Float(0, 30))
        rf.tune(
            Losses(), examples(), space, PROBLEM, search="random", budget=100, store="s3://bucket/tune.zarr", **given
        )
        tuned = servers.requests(log).total() - evaluated - calibrated
    assert evaluated < 60, "5 requests a setting were 505"
    assert calibrated < 60, "404"
    assert tuned < 150, "1,108"
