"""Workers and speed differ from machine to machine; what the first run into a store decided holds for the next."""

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import riskfront as rf
from riskfront._data.stores.loss_store import LossStore
from riskfront._problems.spaces.space import Choice, Config, Float, Int, Space
from riskfront._running.tuning import search_loop
from riskfront.errors import InvalidInputError, StoreError

pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")

EXAMPLES = np.random.default_rng(5).random((900, 2))
SPACE = Space(t=Float(0, 1), model=Choice(["small", "large"]))
PROBLEM = rf.Problem([rf.Limit("error", at_most=0.15)], minimize="cost")


class Losses:
    fingerprint = "losses"

    def __init__(self, most: int = 10**9) -> None:
        self.most, self.calls = most, 0

    def __call__(self, config: Config, examples: Any) -> dict[str, Any]:
        self.calls += 1
        if self.calls > self.most:
            raise KeyboardInterrupt
        x, small = np.asarray(examples), config.get("model") == "small"
        error = x[:, 0] < 0.4 * (1 - config["t"]) ** 2 + 0.03 * small
        return {"error": error, "cost": (config["t"] + 0.1 * x[:, 1]) * (0.6 if small else 1.0)}


def tune(losses: Any, jobs: int, **options: Any) -> rf.Certificate:
    given: dict[str, Any] = {"search": "optuna", "budget": 30, "bounds": {"cost": (0, 2)}, **options}
    with joblib.parallel_config(backend="threading"):
        return rf.tune(losses, EXAMPLES, given.pop("space", SPACE), PROBLEM, n_jobs=jobs, **given)


@pytest.mark.parametrize("search", ["optuna", "guided"])
def test_a_batch_size_makes_the_certificate_independent_of_the_number_of_workers(search: str) -> None:
    one, two, three = (tune(Losses(), jobs, search=search, batch_size=4) for jobs in (1, 2, 3))
    assert one.explored.equals(two.explored)
    assert one.explored.equals(three.explored)
    assert one.path.equals(two.path)
    assert one.path.equals(three.path)
    alone = tune(Losses(), 1, search=search)
    assert not alone.explored.equals(one.explored), "the batch size matters to a search that learns"


@pytest.mark.parametrize(("first", "then"), [(1, 2), (2, 1), (3, 1)])
def test_a_run_goes_on_with_other_workers_as_it_would_have_with_the_first(
    first: int, then: int, tmp_path: Path
) -> None:
    whole = tune(Losses(), first)
    with pytest.raises(KeyboardInterrupt):
        tune(Losses(11), first, store=tmp_path / "run.zarr")
    again = tune(Losses(), then, store=tmp_path / "run.zarr")
    assert again.explored.equals(whole.explored)
    assert again.path.equals(whole.path)
    assert again.config == whole.config
    assert rf.verify(again, tmp_path / "run.zarr") == []


def test_another_batch_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        tune(Losses(5), 1, store=tmp_path / "run.zarr", batch_size=3)
    with pytest.raises(InvalidInputError, match="batch_size must be 3, as in the run"):
        tune(Losses(), 1, store=tmp_path / "run.zarr", batch_size=2)
    with pytest.raises(InvalidInputError, match="batch_size must be a whole number"):
        tune(Losses(), 1, batch_size=0)
    (tmp_path / "run.zarr" / "opt" / "search" / "batch_size.json").write_text("{}")
    with pytest.raises(StoreError, match=r"batch_size.json' must hold a number; it was damaged"):
        tune(Losses(), 1, store=tmp_path / "run.zarr")


@pytest.mark.parametrize("quick", [True, False])
def test_a_slower_machine_goes_on_as_the_first_one_decided(
    quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a small space is evaluated whole rests on time, and is decided once."""
    space = Space(t=Int(0, 1), model=Choice([str(i) for i in range(30)]))
    options: dict[str, Any] = {"search": "guided", "budget": None, "space": space}
    monkeypatch.setattr(search_loop, "_SECONDS", 1e9 if quick else 0.0)
    whole = tune(Losses(), 1, **options)
    with pytest.raises(KeyboardInterrupt):
        tune(Losses(20), 1, store=tmp_path / "run.zarr", **options)
    assert len(LossStore(tmp_path / "run.zarr" / "opt")) == 20
    monkeypatch.setattr(search_loop, "_SECONDS", 0.0 if quick else 1e9)
    again = tune(Losses(), 1, store=tmp_path / "run.zarr", **options)
    assert again.explored.equals(whole.explored)
    assert again.path.equals(whole.path)
