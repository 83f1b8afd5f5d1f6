"""`riskfront reproduce tables` killed without warning in the middle of tracing: the same command goes on."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from riskfront._cli import main
from tests.support import tiny_transformers as tiny
from tests.support.processes import started

KILLED = """
import sys, time
from riskfront.transformers._pruning.pruning_trace import PruningTrace

keep, kept = PruningTrace._keep, []

def slow(self, *given):
    keep(self, *given)
    kept.append(1)
    if len(kept) == 3:
        print("here", flush=True)
        time.sleep(120)

PruningTrace._keep = slow
from riskfront._cli import main
main(sys.argv[1:])
"""


def test_killed_in_the_middle(
    encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = tiny.make_frame(260, 5)
    frame.assign(split=np.where(np.arange(260) < 180, "train", "test")).to_csv(tmp_path / "tiny.csv", index=False)
    options = {"model": encoder_folder, "data": tmp_path / "tiny.csv", "work": tmp_path / "work", "test-split": "test"}
    options |= {"train-rows": 100, "validation-rows": 30, "test-rows": 60, "exit-rows": 60, "token-rows": 30}
    options |= {"token-shares": "0,0.5", "exit-thresholds": 5, "max-length": 40}
    command = ["reproduce", "tables", *(word for name, value in options.items() for word in (f"--{name}", str(value)))]
    with started([sys.executable, "-c", KILLED, *command]) as run:
        run.line(lambda line: line == "here\n" or None)
        run.kill()
    assert not (tmp_path / "work" / "tables").exists(), "no table before all is traced"
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert said.count("done before") == 6, "five steps of training and the other exits"
    for exits in ("pooled", "cls"):
        path = tmp_path / "work" / "tables" / f"tiny.paper.{exits}.parquet"
        about = json.loads(path.with_suffix(".json").read_text("utf-8"))
        table = rf.LossTable.load(path)
        assert (table.n_configs, table.n_examples) == (about["settings"], about["rows"]) == (20, 60)
