"""Prices for logs that hold none."""

import json

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.logs.prices import read_prices
from tests.data.logs.made import MAKERS
from tests.support.command_line import riskfront


@pytest.fixture
def logs(tmp_path):
    return MAKERS["every-eval-ever"](tmp_path / "logs")  # 3 tokens in, 4 out, no cost


def test_a_price_for_each_call(logs):
    runs = rf.read_runs(logs).priced({"small": 0.5, "large": 2})
    assert "cost" not in rf.read_runs(logs).values
    assert runs.value("cost")[runs.row("small")].tolist() == [0.5] * 4
    assert runs.value("cost")[runs.row("large")].tolist() == [2.0] * 4


def test_prices_of_tokens(logs, tmp_path):
    (tmp_path / "prices.csv").write_text(
        "model,per_million_input,per_million_output\nsmall,1,2\nlarge,10,\nother,9,9\n"
    )
    runs = rf.read_runs(logs).priced(read_prices(str(tmp_path / "prices.csv")))
    np.testing.assert_allclose(runs.value("cost")[runs.row("small")], 11e-6)
    np.testing.assert_allclose(runs.value("cost")[runs.row("large")], 30e-6)


def test_prices_on_the_command_line(logs, tmp_path):
    out = tmp_path / "runs.parquet"
    done = riskfront("import", "every-eval-ever", logs, "--prices", "small=1, large=10", "--out", out, "--json")
    assert done.returncode == 0
    costs = {found["run"]: found["cost"] for found in json.loads(done.stdout)["runs"]}
    assert costs == {"small": 1.0, "large": 10.0}
    assert rf.read_runs(out).value("cost").mean() == 5.5


def test_a_cascade_without_costs_says_what_to_do(logs, tmp_path):
    riskfront("import", "every-eval-ever", logs, "--out", tmp_path / "r.parquet")
    arguments = (
        "--reference",
        "large",
        "--limit",
        "score drop <= 0.03",
        "--minimize",
        "cost",
        "--confidence",
        "tokens",
    )
    done = riskfront("cascade", tmp_path / "r.parquet", *arguments)
    assert done.returncode == 2
    assert "--prices" in done.stderr


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_calls_take_has_no_usual_bounds(tmp_path):
    """A limit on the mean of prices needs the most that a call may cost, which is known where prices are by call."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"model": np.repeat(["small", "large"], 300), "example": [f"x{i}" for i in range(300)] * 2})
    table = table.assign(score=rng.random(600) < 0.8, latency=rng.random(600))
    table.to_csv(tmp_path / "table.csv", index=False)
    rf.read_runs(tmp_path / "table.csv").priced({"small": 0.1, "large": 4}).save(tmp_path / "runs.parquet")
    cheap = rf.calibrate(tmp_path / "runs.parquet", rf.Problem("cost <= 0.5", maximize="score"))
    assert (cheap.config["model"], cheap.loss_bounds["cost"]) == ("small", (0.0, 4.0))
    slow = rf.Problem("latency <= 0.9", maximize="score")
    with pytest.raises(rf.InvalidInputError, match="a limit on the mean 'latency' needs the most that it can be"):
        rf.calibrate(tmp_path / "runs.parquet", slow)
    assert rf.calibrate(tmp_path / "runs.parquet", slow, bounds={"latency": (0, 1)})


REFUSED = {
    "a model without a price": ({"small": 1}, "'large' has none. Prices: small"),
    "a price below 0": ({"small": 1, "large": -1}, "per_call = -1 for 'large'"),
    "a price of something else": ({"small": 1, "large": {"per_day": 1}}, "got per_day = 1"),
    "a price of tokens that were not counted": (
        {name: {"per_million_input": 1.0} for name in ("small", "large")},
        "the runs have no 'input_tokens'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_prices(case, tmp_path):
    prices, words = REFUSED[case]
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.read_runs(MAKERS["lm-eval"](tmp_path)).priced(prices)


@pytest.mark.parametrize("text", ["small", "small=x", "small=1,", "=", "absent.csv"])
def test_refused_texts(text):
    with pytest.raises(rf.InvalidInputError, match="prices must read"):
        read_prices(text)
