"""check with logs of a policy at work, which hold one answer a request."""

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._cascades.replay import replay
from tests.support.command_line import riskfront
from tests.support.runs import simulated_runs

LIMIT = "score drop <= 0.08"


@pytest.fixture(scope="module")
def policy():
    cascade = rf.Cascade(simulated_runs(n=2500), confidence="confidence", thresholds=6)
    problem = rf.Problem([LIMIT], minimize="cost", reference="m2")
    return cascade.policy(rf.calibrate(cascade.table(), problem))


def at_work(policy, seed=9, n=1500, worse=0.0):
    """What the policy does on new requests, one row a request, with the reference's score beside it."""
    runs = simulated_runs(seed=seed, n=n)
    first, last = (runs.row(name) for name in policy.models)
    sure = policy.confidence.matrix(runs)[first] >= policy.thresholds[0]
    answered = np.where(sure, first, last)
    score = runs.value("score")[answered, np.arange(n)] * (np.random.default_rng(seed).random(n) >= worse)
    model = np.array(runs.names)[answered]
    found = pd.DataFrame({"model": model, "request": [f"r{i}" for i in range(n)], "score": score})
    return found.assign(**{"score of m2": runs.value("score")[runs.row("m2")]}), runs


@pytest.mark.slow
@pytest.mark.parametrize(("worse", "says", "status"), [(0.0, "keeps every limit", 0), (0.4, "is broken", 1)])
def test_one_answer_a_request(policy, tmp_path, worse, says, status):
    rows, _ = at_work(policy, worse=worse)
    rows.rename(columns={"request": "example"}).to_csv(tmp_path / "requests.csv", index=False)
    policy.save(tmp_path / "policy.json")
    done = riskfront("check", tmp_path / "policy.json", tmp_path / "requests.csv")
    assert done.returncode == status, done.stderr
    assert says in " ".join(done.stdout.split())


def test_it_says_the_same_as_runs_of_all_models(policy, tmp_path):
    rows, runs = at_work(policy)
    rows.rename(columns={"request": "example"}).to_csv(tmp_path / "requests.csv", index=False)
    short, long = (replay(policy, found) for found in (rf.read_runs(tmp_path / "requests.csv"), runs))
    for table in (short, long):
        np.testing.assert_array_equal(table.losses("score")[0], rows["score"])
        np.testing.assert_array_equal(table.losses("score")[1], rows["score of m2"])
    assert rf.check(policy.certificate, short).says == rf.check(policy.certificate, long).says == "holds"


def test_requests_without_the_reference_are_left_out_and_counted(policy, tmp_path):
    rows, _ = at_work(policy)
    asked = np.random.default_rng(0).random(len(rows)) < 0.3
    rows = rows.rename(columns={"request": "id"}).assign(**{"score of m2": rows["score of m2"].where(asked)})
    rows.loc[asked.nonzero()[0][:20], ["model", "score"]] = None  # nobody answered: the worst
    rows.to_json(tmp_path / "requests.jsonl", orient="records", lines=True)
    table = replay(policy, rf.read_runs(tmp_path / "requests.jsonl"))
    assert table.n_examples == asked.sum()
    assert str(table.intake) == (
        f"1,500 rows read: {asked.sum() - 20} used, 20 counted as the worst, {1500 - asked.sum():,} left out (the reference "
        "was not asked)."
    )
    found = rf.check(policy.certificate, table)
    drop = (rows["score of m2"] - rows["score"].fillna(0))[asked].mean()
    assert found.limits["measured"][0] == pytest.approx(drop)


def test_the_log_of_serve_is_watched(policy, tmp_path):
    rows, _ = at_work(policy)
    failed = [[] for _ in range(len(rows))]
    rows = rows.rename(columns={"request": "id"}).assign(abstained=False, failed=failed, calls=1)
    rows.to_json(tmp_path / "requests.jsonl", orient="records", lines=True)
    policy.save(tmp_path / "policy.json")
    done = riskfront("monitor", tmp_path / "policy.json", tmp_path / "requests.jsonl", "--audit", "score of m2=1")
    assert done.returncode == 0, done.stderr
    assert "1,500" in done.stdout


REFUSED = {
    "no column of the reference": (lambda rows: rows.drop(columns="score of m2"), "must have a column 'score of m2'"),
    "a reference without a score": (lambda rows: rows.assign(**{"score of m2": np.nan}), "score of m2'"),
    "a model of another policy": (lambda rows: rows.assign(model="m7"), "'m7' is none of them"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_logs(policy, tmp_path, case):
    change, words = REFUSED[case]
    rows, _ = at_work(policy, n=50)
    change(rows.rename(columns={"request": "example"})).to_csv(tmp_path / "r.csv", index=False)
    with pytest.raises(rf.InvalidInputError, match=words):
        replay(policy, rf.read_runs(tmp_path / "r.csv"))
