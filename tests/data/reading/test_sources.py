"""Data as people have them: the same results from a table, a store, a path, and a certificate verified by any of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._cli import main

pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")

EXAMPLES = np.random.default_rng(0).random(600)
PROBLEM = rf.Problem([rf.Limit("error", at_most=0.3), rf.Limit("wait", at_most=6)], minimize="cost")
CONFIGS = [{"x": i / 20} for i in range(20)]
BOUNDS = {"wait": (0.0, 10.0)}


def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
    cost = np.full(len(examples), 1 - config["x"])
    return {"error": examples < config["x"] ** 2, "cost": cost, "wait": 10 * examples * cost}


@pytest.fixture
def table(tmp_path: Path) -> rf.LossTable:
    return rf.evaluate(losses, EXAMPLES, CONFIGS, store=tmp_path / "run.zarr", bounds=BOUNDS)


def test_a_table_a_store_and_paths_are_the_same_data(table: rf.LossTable, tmp_path: Path) -> None:
    store, saved = rf.LossStore(tmp_path / "run.zarr"), tmp_path / "saved.parquet"
    table.save(saved)
    expected = rf.calibrate(table, PROBLEM)
    assert expected
    trials = rf.experiment.run(table, PROBLEM, methods=["pareto-testing"], trials=3)
    frontier = rf.frontier(table, PROBLEM, [0.2, 0.3])
    for data in (store, tmp_path / "run.zarr", str(tmp_path / "run.zarr"), f"file://{tmp_path}/run.zarr", saved):
        certificate = rf.calibrate(data, PROBLEM)
        assert certificate.config == expected.config
        for one in (table, store, tmp_path / "run.zarr"):
            if certificate.data_sha256 == expected.data_sha256 or one is not table:
                assert rf.verify(certificate, one) == []
        pd.testing.assert_frame_equal(rf.experiment.run(data, PROBLEM, methods=["pareto-testing"], trials=3), trials)
        pd.testing.assert_frame_equal(rf.frontier(data, PROBLEM, [0.2, 0.3]), frontier)
    assert rf.verify(expected, saved) == []


def test_long_files_are_read_as_the_problem_needs(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    frame = pd.DataFrame([(i, e) for i in range(4) for e in range(200)], columns=["x", "example"])
    frame["error"] = (random.random(len(frame)) < frame["x"] / 10).astype(int)
    frame["cost"] = 1 - frame["x"] / 4
    frame.to_csv(tmp_path / "long.csv", index=False)
    problem = rf.Problem("error <= 0.3", minimize="cost")
    certificate = rf.calibrate(tmp_path / "long.csv", problem)
    assert (
        certificate.data_sha256 == rf.calibrate(rf.read_table(tmp_path / "long.csv", problem)[0], problem).data_sha256
    )
    assert rf.verify(certificate, tmp_path / "long.csv") == []


def test_a_certificate_of_the_table_of_evaluate_is_verified_by_its_store(
    table: rf.LossTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate = rf.calibrate(table, PROBLEM)
    certificate.save(tmp_path / "certificate.json")
    # a store sorts its settings, evaluate returns them as they were given; and it may have gone on since
    rf.evaluate(losses, EXAMPLES, [{"x": 0.999}], store=tmp_path / "run.zarr", bounds=BOUNDS)
    assert rf.verify(certificate, tmp_path / "run.zarr") == []
    assert rf.verify(certificate, rf.LossStore(tmp_path / "run.zarr")) == []
    with pytest.raises(SystemExit, match="0"):
        main(["verify", str(tmp_path / "certificate.json"), f"file://{tmp_path}/run.zarr"])
    assert "matches" in capsys.readouterr().out


def test_bounds_of_the_certificate_count_and_not_those_of_the_store(table: rf.LossTable, tmp_path: Path) -> None:
    wider = rf.LossStore(tmp_path / "run.zarr").table(bounds={"wait": (0, 50)})
    certificate = rf.calibrate(wider, PROBLEM)
    assert certificate.loss_bounds["wait"] == (0, 50)
    assert rf.verify(certificate, tmp_path / "run.zarr") == []


TWICE = pd.DataFrame([[0, 0, 1, 0.5, 0]], columns=["knob", "example", "error", "cost", "error"])
NO_DATA = "a LossStore, a data frame, or the path of a file"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, NO_DATA),
        (3, NO_DATA),
        ({"error": []}, NO_DATA),
        (rf.LossStore, NO_DATA),
        (TWICE, "'error' comes more than once in 'the data frame'"),
    ],
    ids=["nothing", "a number", "a dictionary", "a class", "two columns of one name"],
)
def test_refusals(data: Any, words: str) -> None:
    for use in (rf.calibrate, rf.experiment.run, lambda d, p: rf.frontier(d, p, [0.1])):
        with pytest.raises(rf.InvalidInputError, match=words):
            use(data, PROBLEM)
