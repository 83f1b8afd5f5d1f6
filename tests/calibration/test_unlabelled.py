"""calibrate with unlabelled examples: what is certified, what is said, what is refused, and that it can be recomputed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._problems.proxies import batch_column
from riskfront._reporting.page import python_command
from riskfront._reporting.sentences import how_made, unlabelled_words
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._evidence.prediction_powered import with_unlabelled
from tests.support.command_line import riskfront

M, N, TIMES = 25, 600, 12
RATES = np.linspace(0.01, 0.3, M)[:, None]
CONFIGS = pd.DataFrame({"k": np.arange(M)})
PROBLEM = rf.Problem("error <= 0.1 proxy judge", minimize="cost")


def drawn(rng: np.random.Generator, n: int) -> dict[str, Any]:
    judge = rng.random(n) < RATES
    return {"judge": judge, "error": judge & (rng.random(n) < 0.6), "answered": rng.random((M, n)) < 0.9}


def tables(seed: int = 0, **groups: Any) -> tuple[rf.LossTable, rf.LossTable]:
    rng = np.random.default_rng(seed)
    here, there = drawn(rng, N), drawn(rng, TIMES * N)
    here["cost"] = np.repeat(np.linspace(1, 0, M)[:, None], N, axis=1)
    g, h = rng.random(N) < 0.5, rng.random(TIMES * N) < 0.5
    del there["error"]
    return rf.LossTable(CONFIGS, here, {"g": g}), rf.LossTable(CONFIGS, there, {"g": h})


@pytest.mark.slow
def test_a_good_proxy_brings_more_than_labels_alone() -> None:
    alone, helped = [], []
    for seed in range(12):
        labelled, others = tables(seed)
        alone.append(rf.calibrate(labelled, rf.Problem("error <= 0.1", minimize="cost")).config["k"])
        helped.append(rf.calibrate(labelled, PROBLEM, unlabelled=others).config["k"])
    assert np.mean(helped) > np.mean(alone) + 0.5


def test_what_the_certificate_says() -> None:
    labelled, others = tables()
    found = rf.calibrate(labelled, PROBLEM, unlabelled=others)
    assert found.unlabelled is not None
    assert found.unlabelled["examples"] == found.unlabelled["used"] == TIMES * N
    assert found.unlabelled["sha256"] == others.fingerprint
    assert found.data_sha256 == labelled.fingerprint
    (brought,) = found.unlabelled["limits"]
    assert brought["proxy"] == "judge"
    assert 0.2 < brought["variance_left"] < 0.9
    assert found.measured["test"].tolist() == ["betting"]
    # what was measured is the mean over labelled examples, in the units of the loss
    _, test = with_unlabelled(labelled, PROBLEM, others, 0)[0].split(found.parameters["opt_fraction"])
    measured = test.means("error", np.array([found.config["k"]]))[0, 0]
    assert found.measured["measured"].iloc[0] == pytest.approx(measured)
    words = " ".join(unlabelled_words(found))
    assert "7,200 unlabelled examples helped" in words
    assert "each label counts for about" in words
    assert "proxy judge" in how_made(found)["Unlabelled"]
    assert "unlabelled=unlabelled" in python_command(found)
    assert "error <= 0.1 proxy judge" in str(found.problem)


@pytest.mark.slow
def test_it_is_saved_loaded_and_recomputed(tmp_path: Path) -> None:
    labelled, others = tables()
    found = rf.calibrate(labelled, PROBLEM, unlabelled=others)
    found.save(tmp_path / "c.json")
    loaded = rf.Certificate.load(tmp_path / "c.json")
    assert loaded.unlabelled == found.unlabelled
    assert rf.verify(loaded, labelled, unlabelled=others) == []
    assert rf.verify(loaded, labelled, unlabelled=tables(1)[1]) != []
    with pytest.raises(rf.InvalidInputError, match="made with 7,200 unlabelled examples; give them too"):
        rf.verify(loaded, labelled)
    plain = rf.calibrate(labelled, rf.Problem("error <= 0.1", minimize="cost"))
    with pytest.raises(rf.InvalidInputError, match="without unlabelled examples"):
        rf.verify(plain, labelled, unlabelled=others)
    data = json.loads((tmp_path / "c.json").read_text())
    data["unlabelled"]["limits"][0]["variance_left"] = 0.01
    del data["blake3"]
    (tmp_path / "c.json").write_text(json.dumps(data))
    changed = rf.Certificate.load(tmp_path / "c.json")
    assert any("variance_left" in part for part in rf.verify(changed, labelled, unlabelled=others))


@pytest.mark.parametrize(
    "limit",
    [
        "error <= 0.15 per g proxy judge",
        "error <= 0.15 given answered proxy judge",
        "error <= 0.15 given g proxy judge",
        "error drop from 0 <= 0.2 proxy judge",
        "right >= 0.85 proxy judge",
    ],
)
def test_groups_conditions_drops_and_lower_limits(limit: str) -> None:
    labelled, others = tables(3)
    losses = {name: labelled.losses(name) for name in labelled.loss_names}
    labelled = rf.LossTable(CONFIGS, {**losses, "right": ~losses["error"]}, {"g": labelled.group("g")})
    problem = rf.Problem(limit, minimize="cost")
    found = rf.calibrate(labelled, problem, unlabelled=others)
    assert found
    assert found.unlabelled is not None
    if "drop" not in limit:
        assert found.unlabelled["limits"][0]["variance_left"] < 0.95
    assert rf.verify(found, labelled, unlabelled=others) == []


@pytest.mark.slow
@pytest.mark.parametrize("method", ["split-fst", "bonferroni", "holm", "constrained-path", "low-risk-path", "sgt"])
def test_every_method_takes_them(method: str) -> None:
    labelled, others = tables(4)
    found = rf.calibrate(labelled, PROBLEM, method=method, unlabelled=others)
    assert found
    assert unlabelled_words(found)
    assert rf.verify(found, labelled, unlabelled=others) == []


def test_nothing_is_certified_that_measures_above_its_limit() -> None:
    """A proxy that knows the loss would let a mean above the limit pass: the labels have the last word."""
    rng = np.random.default_rng(0)
    error = np.zeros((1, 400), dtype=bool)
    error[0, :44] = True
    here = rf.LossTable([{"k": 0}], {"error": error, "judge": error, "cost": error})
    others = rf.LossTable([{"k": 0}], {"judge": rng.random((1, 8000)) < 0.02})
    found = rf.calibrate(here, PROBLEM, method="bonferroni", unlabelled=others)
    assert not found
    assert found.path["p_value"].tolist() == [1.0]


def test_planning_uses_the_proxy() -> None:
    """Risks of planning examples come nearer to the truth with its help."""
    rng, settings = np.random.default_rng(0), pd.DataFrame({"k": np.arange(300)})
    judge, elsewhere = (rng.random((300, n)) < 0.15 for n in (N, TIMES * N))
    losses = {"judge": judge, "error": judge & (rng.random((300, N)) < 0.6), "cost": np.ones((300, N))}
    labelled, others = rf.LossTable(settings, losses), rf.LossTable(settings, {"judge": elsewhere})
    opt, _ = with_unlabelled(labelled, PROBLEM, others, 0)[0].split(0.3)
    alone, helped = Evidence(PROBLEM, opt).risks() - 0.09, Evidence.of_planning(PROBLEM, opt).risks() - 0.09
    assert np.square(helped).mean() < 0.7 * np.square(alone).mean()


def test_the_order_of_rows_decides_nothing_but_a_draw() -> None:
    """Unlabelled rows that come sorted by their proxy give batches like any others."""
    labelled, others = tables(5)
    order = np.argsort(others.losses("judge").sum(axis=0), kind="stable")
    joined, _ = with_unlabelled(labelled, PROBLEM, others.subset(order), 0)
    means = joined.losses(batch_column("judge"))[-1]
    assert abs(np.corrcoef(np.arange(N), means)[0, 1]) < 0.15


@pytest.mark.slow
def test_a_frontier_takes_them_too() -> None:
    labelled, others = tables(6)
    for together in (False, True):
        found = rf.frontier(labelled, PROBLEM, [0.05, 0.1], unlabelled=others, simultaneous=together)
        assert (found["n_certified"] > 0).all()


@pytest.mark.slow
def test_a_frontier_to_choose_from_takes_them_too(tmp_path: Path) -> None:
    labelled, others = tables(6)
    problem = rf.Problem(["error <= 0.1 proxy judge", "error <= 0.2 per g proxy judge"], minimize="cost")
    first, second = problem.limit_names
    values = {first: [0.05, 0.1, 0.15], second: [0.1, 0.2]}
    found = rf.frontier(labelled, problem, values, simultaneous=True, unlabelled=others)
    found.save(tmp_path / "f.json")
    for at in (0.1, 0.15):
        certificate = rf.Frontier.load(tmp_path / "f.json").choose({first: at, second: 0.2})
        assert certificate
        assert certificate.unlabelled is not None
        assert certificate.unlabelled["sha256"] == others.fingerprint
        assert [one["limit"] for one in certificate.unlabelled["limits"]] == list(map(str, certificate.problem.limits))
        assert all(0.2 < one["variance_left"] < 0.95 for one in certificate.unlabelled["limits"])
        assert rf.verify(certificate, labelled, unlabelled=others) == []
        assert rf.verify(certificate, labelled, unlabelled=tables(7)[1]) != []
        assert "unlabelled=unlabelled).choose" in python_command(certificate)
    rf.write_decide_page(found, tmp_path / "d.html")
    assert "7,200 unlabelled examples helped to test" in (tmp_path / "d.html").read_text(encoding="utf-8")
    with pytest.raises(rf.InvalidInputError, match="names a proxy, which needs unlabelled examples"):
        rf.frontier(labelled, problem, values, simultaneous=True)


@pytest.mark.slow
def test_other_unlabelled_examples_are_another_question() -> None:
    """Whoever asks the same labels with the help of one set of unlabelled examples after another has as many tries."""
    labelled, others = tables(8)
    grid = {"error": [0.05, 0.1]}
    asked: list[tuple[Any, list[float]]] = []
    for unlabelled in (others, tables(9)[1], others):
        frontier = rf.frontier(labelled, PROBLEM, grid, simultaneous=True, unlabelled=unlabelled)
        asked.append((unlabelled, [rf.calibrate(labelled, PROBLEM, unlabelled=unlabelled).delta_of_all_looks]))
        asked[-1][1].append(frontier.choose({"error": 0.1}).delta_of_all_looks)
    assert [deltas for _, deltas in asked] == [
        pytest.approx([0.2, 0.1]),
        pytest.approx([0.4, 0.3]),
        pytest.approx([0.2, 0.1]),
    ]


def test_new_examples_are_checked_by_their_labels() -> None:
    labelled, others = tables(7)
    found = rf.calibrate(labelled, PROBLEM, unlabelled=others)
    errors = drawn(np.random.default_rng(9), 2000)["error"]
    new = rf.LossTable(CONFIGS, {"error": errors, "cost": np.ones((M, 2000))})
    assert rf.check(found, new).says == "holds"


def test_what_is_refused() -> None:
    labelled, others = tables()
    with pytest.raises(rf.InvalidInputError, match="names a proxy, which needs unlabelled examples"):
        rf.calibrate(labelled, PROBLEM)
    with pytest.raises(rf.InvalidInputError, match="limits that name a proxy"):
        rf.calibrate(labelled, rf.Problem("error <= 0.1", minimize="cost"), unlabelled=others)
    with pytest.raises(rf.InvalidInputError, match=r"'jugde'; known: .*Did you mean 'judge'"):
        rf.calibrate(labelled, rf.Problem("error <= 0.1 proxy jugde", minimize="cost"), unlabelled=others)
    with pytest.raises(rf.InvalidInputError, match="must be others"):
        rf.calibrate(labelled, PROBLEM, unlabelled=labelled)


def test_texts_of_limits_with_proxies() -> None:
    for text in ("error <= 0.1 proxy judge", "recall >= 0.9 proxy a judge", "score drop from full <= 0.1 proxy judge"):
        assert str(rf.Limit.parse(text)) == text
    assert rf.Limit.parse("error <= 0.1 per g proxy judge") == rf.Limit("error", at_most=0.1, per="g", proxy="judge")


def test_proxies_need_bounds_where_they_are_no_shares() -> None:
    labelled, others = tables(8)
    losses = {name: labelled.losses(name) for name in ("error", "cost")}
    scores = 10.0 * labelled.losses("judge")
    wide = rf.LossTable(CONFIGS, {**losses, "judge": scores})
    with pytest.raises(rf.InvalidInputError, match="'judge' needs bounds"):
        rf.calibrate(wide, PROBLEM, unlabelled=others)
    wide = rf.LossTable(CONFIGS, {**losses, "judge": scores}, bounds={"judge": (0, 10)})
    more = rf.LossTable(CONFIGS, {"judge": 10.0 * others.losses("judge")}, bounds={"judge": (0, 10)})
    assert rf.calibrate(wide, PROBLEM, unlabelled=more)


def test_clusters_are_averaged_on_both_sides() -> None:
    rng = np.random.default_rng(0)
    here, there = drawn(rng, 200), drawn(rng, 2000)
    here = {name: np.repeat(values, 3, axis=1) for name, values in here.items()}
    here["cost"] = np.repeat(np.linspace(1, 0, M)[:, None], 600, axis=1)
    labelled = rf.LossTable(CONFIGS, here, {"patient": np.repeat(np.arange(200), 3)})
    others = rf.LossTable(CONFIGS, {"judge": np.repeat(there["judge"], 2, axis=1)}, {"patient": np.arange(4000) // 2})
    found = rf.calibrate(labelled, PROBLEM, clusters="patient", unlabelled=others)
    assert found.unlabelled is not None
    assert found.unlabelled["examples"] == 2000
    assert rf.verify(found, labelled, unlabelled=others) == []


def long(table: rf.LossTable, path: Path) -> Path:
    k, example = np.meshgrid(np.arange(M), np.arange(table.n_examples), indexing="ij")
    columns = {name: table.losses(name).ravel().astype(float) for name in table.loss_names if name != "answered"}
    frame = pd.DataFrame({"k": k.ravel(), "example": example.ravel(), **columns})
    frame["note"] = "a text that no role fits"
    frame.to_parquet(path)
    return path


@pytest.mark.slow
def test_the_command_line(tmp_path: Path) -> None:
    here, there = (long(table, tmp_path / f"{name}.parquet") for name, table in zip("ab", tables(), strict=True))
    out, page = tmp_path / "c.json", tmp_path / "page.html"
    wanted = ["--limit", "error <= 0.1 proxy judge", "--minimize", "cost"]
    done = riskfront("calibrate", here, "--unlabelled", there, *wanted, "--out", out, "--report", page)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    assert "7,200 unlabelled examples helped to test" in text
    assert "leaves" in text
    assert "unlabelled examples helped to test" in page.read_text()
    done = riskfront("verify", out, here, "--unlabelled", there)
    assert (done.returncode, done.stderr) == (0, "")
    done = riskfront("verify", out, here)
    assert (done.returncode, "give them too" in done.stderr) == (2, True)
    assert rf.verify(rf.Certificate.load(out), here, unlabelled=there) == []
    done = riskfront("frontier", here, "--unlabelled", there, *wanted, "--alphas", "0.05,0.1")
    assert (done.returncode, done.stderr) == (0, "")
    asked = [
        "--limit",
        "error <= 0.05..0.1/2 proxy judge",
        "--minimize",
        "cost",
        "--page",
        page,
        "--out",
        tmp_path / "f.json",
    ]
    done = riskfront("decide", here, "--unlabelled", there, *asked)
    assert (done.returncode, done.stderr) == (0, "")
    riskfront("choose", tmp_path / "f.json", "--limit", "error <= 0.1", "--out", out)
    done = riskfront("verify", out, here, "--unlabelled", there)
    assert (done.returncode, done.stderr) == (0, "")
    done = riskfront("calibrate", here, *wanted)
    assert (done.returncode, "--unlabelled FILE" in done.stderr) == (2, True)


@pytest.mark.slow
def test_missing_outcomes_are_refused(tmp_path: Path) -> None:
    """Filled with the worst, proxies of labelled and unlabelled examples would no longer be of one kind."""
    here, there = (long(table, tmp_path / f"{name}.parquet") for name, table in zip("ab", tables(), strict=True))
    _without_first(here, "judge", tmp_path / "gap.parquet")
    with pytest.raises(rf.InvalidInputError, match="needs every outcome"):
        rf.calibrate(tmp_path / "gap.parquet", PROBLEM, unlabelled=there)
    _without_first(there, "judge", tmp_path / "gap.parquet")
    with pytest.raises(rf.InvalidInputError, match="must have every proxy at every setting"):
        rf.calibrate(here, PROBLEM, unlabelled=tmp_path / "gap.parquet")


def _without_first(path: Path, column: str, out: Path) -> None:
    frame = pd.read_parquet(path)
    frame.loc[0, column] = np.nan
    frame.to_parquet(out)


def test_unlabelled_examples_that_come_twice_are_refused() -> None:
    labelled, others = tables()
    twice = others.subset(np.repeat(np.arange(others.n_examples), 2))
    with pytest.raises(rf.InvalidInputError, match="needs every example once"):
        rf.calibrate(labelled, PROBLEM, unlabelled=twice)
    with pytest.raises(rf.InvalidInputError, match="needs every example once"):
        rf.frontier(labelled, PROBLEM, [0.1, 0.2], unlabelled=twice)
    with pytest.raises(rf.InvalidInputError, match="needs every example once"):
        rf.frontier(labelled, PROBLEM, {"error": [0.1, 0.2]}, simultaneous=True, unlabelled=twice)
