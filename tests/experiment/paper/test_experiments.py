"""Every description end to end on small tables: numbers, files, figures."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError, StoreError
from riskfront.experiment._paper import optimizers, stored_tables
from riskfront.experiment._paper.descriptions import EXPERIMENTS
from riskfront.experiment._paper.run_experiment import KINDS, reproduce
from tests.support.experiment_tables import simulated_table

TEXTS = [name for name, experiment in EXPERIMENTS.items() if experiment.data[0] not in stored_tables.MAKERS]
SMALL = 200_000  # bytes of a figure


@pytest.mark.parametrize("name", TEXTS)
def test_an_experiment_gives_numbers_and_figures(name: str, tables: Path, tmp_path: Path) -> None:
    said: list[str] = []
    found = reproduce(name, tables, tmp_path, trials=1 if name == "optimizer" else 2, say=said.append)
    experiment = EXPERIMENTS[name]
    here = [data for data in experiment.data if data in ("ag_news", "qqp", "mnli")]
    assert list(dict.fromkeys(found["data"])) == here
    assert len(said) == len(here)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / f"{name}.csv")[["data", "exits"]], found[["data", "exits"]])
    figures = sorted(path.name for path in tmp_path.glob("*.png"))
    assert len(figures) == len(here)
    for path in tmp_path.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < SMALL
    wanted = {
        lineup.label(method.name) for lineup in experiment.lineups for method in lineup.made_for(simulated_table(20))
    }
    searches = {optimizers.GRID, *optimizers.STRATEGIES}
    assert (searches if name == "optimizer" else wanted) <= set(found.get("method", []))


@pytest.mark.parametrize("name", ["router", "quantisation"])
def test_experiments_on_logs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    score = random.random((6, 300)) < np.linspace(0.9, 0.6, 6)[:, None]
    table = rf.LossTable([{"model": f"m{k}"} for k in range(6)], {"score": score})
    cost = np.repeat(np.linspace(1, 0.1, 6, dtype=np.float32)[:, None], 300, axis=1)
    made = stored_tables.with_drops(table, "m0", EXPERIMENTS[name].minimize[0], cost)
    assert (made.losses("score_drop")[3] == score[0].astype(int) - score[3]).all()
    monkeypatch.setitem(stored_tables.MAKERS, name, lambda folder: made)
    found = reproduce(name, tmp_path, tmp_path / "out", trials=2)
    assert set(found["data"]) == {name}
    assert (tmp_path / "out" / f"{name}.{name}.png").is_file()


def test_methods_of_ones_own_join(tables: Path, tmp_path: Path) -> None:
    found = reproduce("flops", tables, tmp_path, methods=[rf.BonferroniTesting()], trials=2)
    assert "bonferroni" in set(found["method"])
    sets = reproduce("selective-two-free", tables, tmp_path, methods=[rf.BonferroniTesting()], trials=1)
    assert "bonferroni" in set(sets["method"])


def test_where_nothing_is_certified_the_full_model_counts(tables: Path, tmp_path: Path) -> None:
    found = reproduce("flops", tables, tmp_path, trials=2)
    nothing = found[found["certified_something"] == 0]
    assert (found["speed-up"] >= 1).all()
    assert np.allclose(nothing["speed-up"], 1)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"ag_news.paper.cls.parquet; it holds none"):
        reproduce("two-objectives", tmp_path, tmp_path)
    with pytest.raises(StoreError, match="must hold the logs"):
        reproduce("router", tmp_path, tmp_path)
    with pytest.raises(InvalidInputError, match="experiment"):
        reproduce("two-objective", tmp_path, tmp_path)


def test_every_kind_has_an_experiment() -> None:
    assert {experiment.kind for experiment in EXPERIMENTS.values()} == set(KINDS)
