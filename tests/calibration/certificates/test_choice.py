"""Picking among the chosen settings: by an objective, by a condition, and so that verify agrees."""

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._calibration.certificates.choice import choose
from riskfront.errors import InvalidInputError
from tests.support.command_line import riskfront

PROBLEM = rf.Problem(["error <= 0.1 given answered"], minimize=["cost"], maximize=["answered"])


def make_table(n: int = 3000) -> rf.LossTable:
    """The larger the threshold lambda, the fewer answers; the deeper, the dearer and the better."""
    rng = np.random.default_rng(0)
    sure, luck = rng.random(n), rng.random(n)
    configs = [{"depth": d, "lambda": t} for d in (1, 2, 3) for t in (0.0, 0.3, 0.6)]
    error = np.stack([luck < (0.3 / c["depth"]) * (1.1 - sure) for c in configs])
    answered = np.stack([sure >= c["lambda"] for c in configs])
    cost = np.stack([np.full(n, c["depth"] / 3, dtype=np.float32) for c in configs])
    return rf.LossTable(configs, {"error": error, "answered": answered, "cost": cost})


TABLE = make_table()
CERTIFICATE = rf.calibrate(TABLE, PROBLEM)


def test_the_best_in_an_objective() -> None:
    chosen = CERTIFICATE.chosen
    assert len(chosen) > 2
    found = choose(CERTIFICATE, "answered")
    assert found.config == CERTIFICATE.configs[int(chosen["answered"].to_numpy().argmax())]
    assert choose(CERTIFICATE, "cost").config == CERTIFICATE.config
    limited = choose(CERTIFICATE, "error given answered").config
    assert limited == CERTIFICATE.configs[int(chosen["error given answered"].to_numpy().argmin())]


def test_the_first_that_meets_a_condition() -> None:
    chosen = CERTIFICATE.chosen
    least = float(np.sort(chosen["answered"].to_numpy())[1])
    found = choose(CERTIFICATE, f"answered >= {least}")
    place = int(np.argmax(chosen["answered"].to_numpy() >= least))
    assert found.config == CERTIFICATE.configs[place]
    others = [config for config in CERTIFICATE.configs if config != found.config]
    assert found.configs == [found.config, *others], "the others keep their order"
    with pytest.raises(
        InvalidInputError, match="must be met by a certified setting; the chosen ones have answered from"
    ):
        choose(CERTIFICATE, "answered >= 1.5")
    for wrong in ("sharpness", "sharpness >= 2", "3", "answered = 0.5"):
        with pytest.raises(InvalidInputError, match="a choice must be one of cost, answered, error given answered"):
            choose(CERTIFICATE, wrong)


def test_everything_else_follows(tmp_path) -> None:
    found = choose(CERTIFICATE, "answered")
    assert sorted(map(str, found.configs)) == sorted(map(str, CERTIFICATE.configs))
    best = found.measured[found.measured["chosen"] == 1].iloc[0]
    assert best["measured"] == pytest.approx(found.chosen.iloc[0]["error given answered"])
    found.save(tmp_path / "c.json")
    assert rf.Certificate.load(tmp_path / "c.json").config == found.config
    assert rf.verify(found, TABLE) == []
    none = rf.calibrate(TABLE, rf.Problem(["error <= 0.0001"], minimize=["cost"]))
    assert not choose(none, "cost")
    assert choose(CERTIFICATE, "").config == CERTIFICATE.config


def test_of_equals_the_one_that_answers_most() -> None:
    """An error that does not see lambda, and a cost that does not either: abstaining would be for nothing."""
    problem = rf.Problem(["error <= 0.3"], minimize=["cost"])
    for seed in range(3):
        assert rf.calibrate(TABLE, problem, seed=seed).config["lambda"] == 0.0
    selective = rf.Problem(["error <= 0.25 given answered"], minimize=["cost"])
    config = rf.calibrate(TABLE, selective).config
    certified = rf.calibrate(TABLE, selective).certified
    assert config["lambda"] == certified[certified["depth"] == config["depth"]]["lambda"].min()


@pytest.mark.slow
def test_on_the_command_line(tmp_path) -> None:
    rows = [
        {**config, "example": i, **{name: TABLE.losses(name)[c, i] for name in TABLE.loss_names}}
        for c, config in enumerate(TABLE.configs.to_dict("records"))
        for i in range(200)
    ]
    frame = pd.DataFrame(rows).astype({"error": int, "answered": int})
    frame.to_csv(tmp_path / "losses.csv", index=False)
    command = [
        "calibrate",
        tmp_path / "losses.csv",
        "--config-columns",
        "depth,lambda",
        "--limit",
        "error <= 0.3 given answered",
    ]
    goals = ["--minimize", "cost", "--maximize", "answered", "--out", tmp_path / "c.json"]
    done = riskfront(*command, *goals, "--choose", "answered")
    assert (done.returncode, done.stderr) == (0, "")
    certificate = rf.Certificate.load(tmp_path / "c.json")
    assert certificate.chosen["answered"].iloc[0] == certificate.chosen["answered"].max()
    assert riskfront("verify", tmp_path / "c.json", tmp_path / "losses.csv").returncode == 0
    given = riskfront(*command, "--minimize", "cost given answered", "--out", tmp_path / "c.json")
    assert (given.returncode, given.stderr) == (0, "")
    assert rf.Certificate.load(tmp_path / "c.json").problem.objectives[0] == rf.Objective("cost", given="answered")
