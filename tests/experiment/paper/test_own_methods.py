"""A method of the user's beside the paper's: what goes wrong is said in a sentence, and earlier results stay."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._cli.reproduce import load_method
from riskfront.errors import InvalidInputError, StoreError
from riskfront.experiment._paper import run_experiment as module
from riskfront.experiment._paper.run_experiment import reproduce
from riskfront.experiment._paper.stored_tables import find_tables, with_fewer_exits
from riskfront.methods import Plan
from riskfront.statistics._procedures import FixedSequence
from tests.support import experiment_tables

NOTHING = object()


class NoDataclass:
    """Tests the cheapest setting first. Its plan may be spoilt."""

    name: ClassVar[str] = "own"
    guaranteed: ClassVar[bool] = True
    opt_fraction: Any = 0.5

    def __init__(self, rows: Any = None, error: Exception | None = None, **more: Any) -> None:
        self.rows, self.error = rows, error
        for name, value in more.items():
            setattr(self, name, value)

    def plan(self, opt: rf.LossTable, problem: rf.Problem) -> Any:
        if self.error is not None:
            raise self.error
        if isinstance(self.rows, str):
            return self.rows
        rows = np.argsort(opt.means("flops")[:, 0]) if self.rows is None else np.array(self.rows)
        return Plan(self, opt, rows, FixedSequence())


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return experiment_tables.store(tmp_path_factory.mktemp("tables"), "qnli.paper.cls", "qnli.paper.pooled", exits=5)


def test_a_class_that_is_no_dataclass_takes_part(tables: Path, tmp_path: Path) -> None:
    found = reproduce("flops", tables, tmp_path, methods=[NoDataclass()], trials=2)
    assert "own" in set(found["method"])


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (NoDataclass(error=RuntimeError("boom")), r"plan\(opt, problem\) raised RuntimeError: boom"),
        (NoDataclass(rows="a text"), "must return a riskfront.methods.Plan; it returned str"),
        (NoDataclass(rows=[10_000]), "rows of a plan must be whole numbers from 0 to"),
        (NoDataclass(rows=[-1]), "rows of a plan must be whole numbers from 0 to"),
        (NoDataclass(name="pareto-testing"), "takes part already; give yours another name"),
    ],
)
def test_what_goes_wrong_in_it_is_a_sentence(tables: Path, tmp_path: Path, method: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        reproduce("flops", tables, tmp_path, methods=[method], trials=1)


@dataclass(frozen=True)
class NeedsMore:
    needed: int


def test_what_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_method_module.py").write_text("def (:\n")
    (tmp_path / "raising_method_module.py").write_text("raise RuntimeError('no')\n")
    here = "tests.experiment.paper.test_own_methods"
    cases = {
        "broken_method_module:Own": "SyntaxError",
        "raising_method_module:Own": "RuntimeError: no",
        f"{here}:NeedsMore": "made without arguments",
        f"{here}:NOTHING": "lacks name, guaranteed, opt_fraction, plan",
    }
    for text, words in cases.items():
        with pytest.raises(InvalidInputError, match=words):
            load_method(text)
    assert load_method(f"{here}:NoDataclass").name == "own"
    monkeypatch.setattr(NoDataclass, "opt_fraction", "half")
    with pytest.raises(InvalidInputError, match="must be a number from 0 to below 1; got 'half'"):
        load_method(f"{here}:NoDataclass")


def test_an_interrupted_run_leaves_what_was_found_before(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduce("flops", tables, tmp_path, trials=1)
    before = (tmp_path / "flops.csv").read_text()
    original, calls = module.on_one_table, []

    def stopped(*given: Any, **more: Any) -> pd.DataFrame:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*given, **more)

    monkeypatch.setattr(module, "on_one_table", stopped)
    with pytest.raises(KeyboardInterrupt):
        reproduce("flops", tables, tmp_path, trials=2)
    assert (tmp_path / "flops.csv").read_text() == before
    assert (tmp_path / "flops.unfinished.csv").is_file()
    monkeypatch.setattr(module, "on_one_table", original)
    reproduce("flops", tables, tmp_path, trials=2)
    assert not (tmp_path / "flops.unfinished.csv").exists()


def test_refusals_before_anything_is_measured(tables: Path, tmp_path: Path) -> None:
    for name in ("optimizer", "cloud"):
        with pytest.raises(InvalidInputError, match="no method takes part"):
            reproduce(name, tables, tmp_path, methods=[NoDataclass()])
    (tmp_path / "file").write_text("as it was")
    with pytest.raises(StoreError, match="must be a folder that can be made"):
        reproduce("flops", tables, tmp_path / "file")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "as it was")]
    (tmp_path / "mnli.paper.cls.parquet").write_bytes((tables / "qnli.paper.cls.parquet").read_bytes())
    (tmp_path / "mnli.paper.cls.json").write_text('{"data": "qnli"}')
    with pytest.raises(StoreError, match="says that it is one of qnli"):
        find_tables(tmp_path, ("mnli",))
    with pytest.raises(InvalidInputError, match="must have exit thresholds 'tau_layer'"):
        with_fewer_exits(rf.LossTable([{"k": 0}], {"cost": np.zeros((1, 3))}), 3)
