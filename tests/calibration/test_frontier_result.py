"""Frontier: choose any combination of limits, save, load, verify, and go where certificates go."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import riskfront as rf
from tests.calibration.test_simultaneous import BOTH, GRID, PROBLEM, world


@pytest.fixture(scope="module")
def table() -> rf.LossTable:
    return world(2400, 24, seed=11)


@pytest.fixture(scope="module")
def found(table: rf.LossTable) -> rf.Frontier:
    return rf.frontier(table, BOTH, GRID, simultaneous=True)


def test_every_combination_keeps_its_limits_and_looser_ones_are_no_worse(found: rf.Frontier) -> None:
    frame = found.frame
    assert len(frame) == len(found.counts) == 12
    held = frame[frame["n_certified"] > 0]
    assert (held["error"] <= held["limit on error"]).all()
    assert (held["error per g"] <= held["limit on error per g"]).all()
    for _, along in held.groupby("limit on error"):
        counts = along.sort_values("limit on error per g")["n_certified"]
        assert counts.is_monotonic_increasing


def test_chosen_certificates_verify_and_say_where_they_come_from(
    table: rf.LossTable, found: rf.Frontier, tmp_path
) -> None:
    for error, per_group in ((0.1, 0.2), (0.3, 0.1)):
        certificate = found.choose({"error": error, "error per g": per_group})
        assert certificate.problem.limits == (
            replace(BOTH.limits[0], at_most=error),
            replace(BOTH.limits[1], at_most=per_group),
        )
        assert certificate.frontier["chosen"] == {"error": error, "error per g": per_group}
        assert set(certificate.frontier["values"]["error"]) == set(GRID["error"])
        certificate.save(tmp_path / "c.json")
        loaded = rf.Certificate.load(tmp_path / "c.json")
        assert loaded.to_dict() == certificate.to_dict()
        assert rf.verify(loaded, table) == []
        assert rf.verify(loaded, table.subset(range(2399)))
    forged = replace(certificate, frontier={**certificate.frontier, "values": {"error": [0.3], "error per g": [0.1]}})
    assert rf.verify(forged, table)  # as if no other values had been looked at


def test_nothing_certified_is_a_result_with_a_reason(table: rf.LossTable) -> None:
    found = rf.frontier(table, PROBLEM, {"error": [0.002, 0.2]}, simultaneous=True)
    nothing = found.choose({"error": 0.002})
    assert not nothing
    assert "error <= 0.002" in nothing.verdict()
    assert rf.verify(nothing, table) == []
    with pytest.raises(rf.NotCertifiedError):
        _ = nothing.config


def test_why_nothing_is_certified_is_said_at_the_level_that_a_value_has_for_sure(table: rf.LossTable) -> None:
    tight = [0.0005 * k for k in range(1, 9)]
    found = rf.frontier(table, PROBLEM, {"error": [*tight, 0.2]}, simultaneous=True)
    assert len(found.failures) >= 6
    for failure in found.failures.values():
        assert failure["p_value"] > failure["tested_at"]
        assert failure["tested_at"] == pytest.approx(0.1 * 0.95 * 0.3 / 9)  # a third of the layers, one of nine values
        # so many examples without any loss would do, and one fewer would not
        alpha, perfect = float(failure["limit"].split("<= ")[1]), failure["examples_if_perfect"]
        assert (1 - alpha) ** perfect <= failure["tested_at"] < (1 - alpha) ** (perfect - 1)


def test_every_combination_without_a_setting_has_a_reason(table: rf.LossTable) -> None:
    values = {"error": np.linspace(0.0005, 0.008, 25), "error per g": np.linspace(0.001, 0.3, 12)}
    found = rf.frontier(table, BOTH, values, simultaneous=True)
    nothing = [place for place, count in enumerate(found.counts) if count == 0]
    assert len(nothing) > 200
    assert sorted(map(int, found.failures)) == nothing
    assert all(failure["examples_if_perfect"] for failure in found.failures.values())


def test_saved_and_loaded_it_gives_the_same_certificates(found: rf.Frontier, tmp_path) -> None:
    found.save(tmp_path / "f.json")
    loaded = rf.Frontier.load(tmp_path / "f.json")
    at = {"error": 0.2, "error per g": 0.3}
    assert loaded.choose(at).to_dict() == found.choose(at).to_dict()
    assert loaded.choose({name: np.float32(value) for name, value in at.items()}).problem == found.choose(at).problem
    assert loaded.guarantee() == found.guarantee()
    with pytest.raises(rf.InvalidInputError, match="Take one from it by riskfront choose"):
        rf.Certificate.load(tmp_path / "f.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counts": [1]}, "agree with itself"),
        ({"guarantee": "With 99.9 % confidence"}, "agree with itself"),
        ({"method": "alpha-constrained"}, "agree with itself"),
        ({"schema": "x"}, "riskfront.frontier"),
        ({"schema_version": 9}, "schema version"),
        ({"path": {}}, "malformed"),
    ],
)
def test_damaged_files_are_refused(found: rf.Frontier, change: dict, words: str, tmp_path) -> None:
    import json

    (tmp_path / "f.json").write_text(json.dumps({**found.to_dict(), **change}))
    before = (tmp_path / "f.json").read_text()
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.Frontier.load(tmp_path / "f.json")
    assert (tmp_path / "f.json").read_text() == before


def test_a_frontier_is_one_question_and_its_choices_are_none() -> None:
    table = world(600, 8, seed=21)
    first = rf.frontier(table, PROBLEM, {"error": [0.1, 0.2]}, simultaneous=True)
    assert first.choose({"error": 0.1}).earlier_looks == first.choose({"error": 0.2}).earlier_looks == ()
    later = rf.calibrate(table, PROBLEM)
    assert later.delta_of_all_looks == pytest.approx(0.2)
    again = rf.frontier(table, PROBLEM, {"error": [0.2, 0.1]}, simultaneous=True)
    assert again.earlier_looks == ()  # the same question, in another order
    other = rf.frontier(table, PROBLEM, {"error": [0.1, 0.3]}, simultaneous=True)
    assert other.choose({"error": 0.1}).delta_of_all_looks == pytest.approx(0.3)
    assert "counting all three uses" in other.guarantee()


def test_limits_that_do_not_vary_hold_everywhere(table: rf.LossTable) -> None:
    found = rf.frontier(table, BOTH, {"error": [0.1, 0.3]}, simultaneous=True)
    certificate = found.choose({"error": 0.3})
    assert certificate.chosen["error per g"].max() <= 0.2
    assert rf.verify(certificate, table) == []


@pytest.mark.slow
def test_betting_limits_and_several_objectives(tmp_path) -> None:
    rng = np.random.default_rng(4)
    share = np.clip(rng.normal(np.linspace(0.02, 0.3, 12)[:, None], 0.05, (12, 900)), 0, 1)
    cost, slow = np.linspace(1, 0.2, 12), np.linspace(0.2, 1, 12)
    losses = {"loss": share, "cost": cost[:, None] + 0 * share, "latency": slow[:, None] + 0 * share}
    table = rf.LossTable([{"k": k} for k in range(12)], losses)
    problem = rf.Problem("loss <= 0.1", minimize=["cost", "latency"])
    found = rf.frontier(table, problem, {"loss": [0.05, 0.1, 0.2]}, simultaneous=True)
    certificate = found.choose({"loss": 0.2}, "latency")
    assert certificate.choice == "latency"
    assert certificate.config["k"] == 0
    assert len(certificate.chosen) > 2
    assert rf.verify(certificate, table) == []
    rf.write_report(certificate, tmp_path / "r.html")
    assert "Chosen from" in (tmp_path / "r.html").read_text()
    assert rf.Monitor(certificate).outcomes == 0


def test_missing_outcomes_count_and_are_accounted_for() -> None:
    error = (np.random.default_rng(8).random((3, 800)) < 0.03).astype(float)
    error[:, :40] = np.nan
    table = rf.LossTable([{"k": k} for k in range(3)], {"error": error, "cost": [[3] * 800, [2] * 800, [1] * 800]})
    with pytest.warns(rf.LeftOutWarning, match="counts as the worst"):
        found = rf.frontier(table, PROBLEM, {"error": [0.05, 0.2]}, simultaneous=True)
    assert not found.choose({"error": 0.05})  # 5 % are missing, and count
    assert found.intake.worst == 120


def asked(alphas: dict, problem: rf.Problem = BOTH, **options: object) -> Callable[[rf.Frontier, rf.LossTable], object]:
    return lambda found, table: rf.frontier(table, problem, alphas, **{"simultaneous": True, **options})


def chosen(**wanted: object) -> Callable[[rf.Frontier, rf.LossTable], object]:
    return lambda found, table: found.choose({name.replace("_", " "): value for name, value in wanted.items()})


FINE = np.linspace(0.01, 0.3, 100)
REFUSED = {
    "a choice between two values": (chosen(error=0.11, error_per_g=0.2), "nearest are 0.05 and 0.1"),
    "a choice for one of two limits": (chosen(error=0.1), "'error per g' has none"),
    "a choice for an unknown limit": (chosen(mistakes=0.1), "mistakes"),
    "a choice that is no number": (chosen(error="much", error_per_g=0.2), "must be a number"),
    "no values": (asked({}), "at least one"),
    "values of an unknown limit": (asked({"mistakes": [0.1]}), "mistakes"),
    "no values of a limit": (asked({"error": []}), "finite numbers"),
    "nan as a value": (asked({"error": [0.1, float("nan")]}), "finite numbers"),
    "too many combinations": (asked({"error": FINE, "error per g": FINE}), "combinations"),
    "values by name that do not hold together": (asked(GRID, simultaneous=False), "simultaneous=True"),
    "a method without a path": (asked(GRID, method="split-fst"), "pareto-testing"),
    "a method that tests in a graph": (asked({"error": [0.1]}, PROBLEM, method="sgt"), "in a sequence"),
    "a method without a guarantee": (asked({"error": [0.1]}, PROBLEM, method="alpha-constrained"), "in a sequence"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(found: rf.Frontier, table: rf.LossTable, case: str) -> None:
    use, words = REFUSED[case]
    with pytest.raises(rf.InvalidInputError, match=words):
        use(found, table)
