"""Monitor: what counts, what is said, and that a saved monitor goes on as if it had never stopped."""

import json
import time

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._calibration.monitoring.detector import History
from riskfront._calibration.monitoring.words import prometheus
from tests.support.monitoring import certificate


def drawn(seed, n, *risks):
    rng = np.random.default_rng(seed)
    return (rng.random(n * len(risks)) < np.repeat(risks, n)).astype(int)


def test_a_change_raises_an_alarm_and_says_where():
    monitor = rf.Monitor(certificate("error <= 0.1"))
    assert not monitor.update({"error": drawn(0, 2000, 0.05)})
    assert monitor.verdict() == "No alarm after 2,000 outcomes."
    assert monitor.update({"error": drawn(1, 600, 0.25)})
    row = monitor.status.iloc[0]
    assert 2000 < row["alarm_at"] < 2300
    assert abs(row["change_at"] - 2001) < 60
    assert abs(row["risk_since"] - 0.25) < 0.12
    before = monitor.status.iloc[0][["alarm_at", "change_at"]].tolist()
    assert monitor.update({"error": [0] * 5000})  # it stays
    assert monitor.status.iloc[0][["alarm_at", "change_at"]].tolist() == before


def test_one_outcome_at_a_time_is_the_same_as_all_at_once():
    outcomes = drawn(2, 400, 0.05, 0.3)
    whole, single = rf.Monitor(certificate("error <= 0.1")), rf.Monitor(certificate("error <= 0.1"))
    whole.update({"error": outcomes})
    for outcome in outcomes:
        single.update({"error": [outcome]})
    one, other = whole.watches[0].detector, single.watches[0].detector
    assert one.alarm.row == other.alarm.row
    assert one.alarm.change == other.alarm.change
    assert one.evidence == pytest.approx(other.evidence, rel=1e-9)


@pytest.mark.parametrize("promise", ["no-false-alarm", "run-length"])
def test_a_saved_monitor_goes_on_where_it_was(tmp_path, promise):
    made = certificate("error <= 0.1", rf.Limit("error", at_most=0.2, per="label"), groups={"label": ["a", 1]})
    options = {"promise": promise, "time": "when", "warn_on": "score", "audit": 0.5}
    rng = np.random.default_rng(3)
    outcomes = pd.DataFrame(
        {
            "error": np.where(rng.random(3000) < 0.5, drawn(3, 1000, 0.05, 0.1, 0.4), np.nan),
            "label": rng.choice(["a", "1", "new"], 3000),
            "when": [f"t{i}" for i in range(3000)],
            "score": rng.random(3000),
        }
    )
    whole, parts = rf.Monitor(made, **options), rf.Monitor(made, **options)
    for start in range(0, 3000, 700):
        whole.update(outcomes[start : start + 700])
        parts.update(outcomes[start : start + 700])
        parts.save(tmp_path / "state.json")
        parts = rf.Monitor.load(tmp_path / "state.json")
    assert whole.alarm
    assert parts.to_dict()["watches"][0]["bets"] == whole.to_dict()["watches"][0]["bets"]
    assert parts.sentences() == whole.sentences()
    pd.testing.assert_frame_equal(parts.status, whole.status)
    assert parts.input_change.to_dict() == whole.input_change.to_dict()


@pytest.mark.slow
def test_state_and_work_do_not_grow():
    made = certificate("error <= 0.1", rf.Limit("error", at_most=0.2, per="g"), groups={"g": list("abc")})
    monitor = rf.Monitor(made, time="t")
    sizes = []
    for _ in range(3):
        n = 100_000
        monitor.update({"error": drawn(4, n, 0.03), "g": np.repeat(["a"], n), "t": np.repeat(["now"], n)})
        sizes.append(len(json.dumps(monitor.to_dict())))
    assert max(sizes) < 60_000
    assert sizes[2] < 1.1 * sizes[0]


def test_delta_is_divided_and_run_lengths_are_not_divided_among_groups():
    made = certificate("error <= 0.1", rf.Limit("error", at_most=0.2, per="g"), groups={"g": list("abc")})
    assert set(rf.Monitor(made, delta=0.1).status["threshold"]) == {40.0}
    lengths = rf.Monitor(made, promise="run-length", run_length=5000)
    assert set(lengths.status["threshold"]) == {10_000.0}
    assert lengths.status["evidence"].tolist() == [0.0] * 4


def test_missing_outcomes_count_as_the_worst_unless_declared_otherwise():
    made = certificate("error <= 0.1")
    gaps = np.where(np.arange(400) % 4 == 0, np.nan, 0.0)
    worst, left_out = rf.Monitor(made), rf.Monitor(made, missing="leave-out")
    assert worst.update({"error": gaps})
    assert "100 of 400 outcomes of 'error <= 0.1' were missing and counted as the worst." in worst.verdict()
    assert not left_out.update({"error": gaps})
    assert "100 missing outcomes of 'error <= 0.1' were left out" in left_out.verdict()
    texts = rf.Monitor(made)
    texts.update({"error": ["0", "timeout", None, "false", 1, True, ""]})
    row = texts.status.iloc[0]
    assert (row["outcomes"], row["missing"], row["risk"]) == (7, 3, 5 / 7)


def test_an_audit_counts_audited_outcomes_alone():
    made, errors = certificate("error <= 0.1"), drawn(5, 4000, 0.3)
    seen = np.random.default_rng(6).random(4000) < 0.1
    audited, plain = rf.Monitor(made, audit=0.1), rf.Monitor(made)
    audited.update({"error": np.where(seen, errors, np.nan)})
    plain.update({"error": errors[seen]})
    assert audited.watches[0].detector.evidence == plain.watches[0].detector.evidence
    assert "declared" not in audited.verdict()
    failed = rf.Monitor(made, audit=0.1)
    failed.update({"error": ["timeout", "0", None, "", "NA", float("nan"), pd.NA, 1]})
    row = failed.status.iloc[0]
    assert (row["outcomes"], row["missing"], row["risk"]) == (3, 1, 2 / 3)  # a label that cannot be read was audited
    doubted = rf.Monitor(made, audit=0.2)
    doubted.update({"error": np.where(seen, errors, np.nan)})
    assert "but 20 % was declared" in doubted.verdict()


def test_audits_with_probabilities_of_their_own_weigh_outcomes():
    """Audited ten times as often where errors are: the share of errors among audited ones is far above the risk."""
    rng = np.random.default_rng(7)
    n = 40_000
    errors = rng.random(n) < 0.05
    q = np.where(errors | (rng.random(n) < 0.1), 0.5, 0.05)
    seen = rng.random(n) < q
    made = certificate("error <= 0.1")
    weighed = rf.Monitor(made, audit_column="q", least_audit=0.05)
    weighed.update({"error": np.where(seen, errors, np.nan), "q": np.where(seen, q, 0.0)})
    assert not weighed.alarm
    assert weighed.status["risk"].iloc[0] == pytest.approx(0.05, abs=0.01)
    naive = rf.Monitor(made, missing="leave-out")
    assert naive.update({"error": np.where(seen, errors, np.nan)})
    lost = rf.Monitor(made, audit_column="q", least_audit=0.05)
    lost.update({"error": [np.nan, np.nan], "q": [0.5, 0.0]})
    assert lost.status[["outcomes", "missing"]].iloc[0].tolist() == [1, 1]  # audited, and its label never came
    with pytest.raises(rf.InvalidInputError, match=r"row 2 of these outcomes has 0\.01"):
        lost.update({"error": [0, 0], "q": [0.5, 0.01]})


@pytest.mark.parametrize(
    ("limit", "columns"),
    [("wrong / asked <= 0.1", ("wrong", "asked")), ("score drop from full <= 0.1", ("score of full", "score"))],
)
def test_one_audit_labels_all_losses_of_an_outcome(limit, columns):
    """A ratio and a drop have two columns: what one audit labels is not labelled with the square of its probability."""
    rng, n = np.random.default_rng(11), 20_000
    seen, bad = rng.random(n) < 0.1, rng.random(n) < 0.2
    values = dict(zip(columns, (bad.astype(float), np.ones(n) if "asked" in columns else np.zeros(n)), strict=True))
    labelled = {name: np.where(seen, found, np.nan) for name, found in values.items()}
    audited, own = (rf.Monitor(certificate(limit), **one) for one in ({"audit": 0.1}, OWN_AUDITS))
    audited.update(labelled)
    assert "declared" not in audited.verdict()
    own.update({**labelled, "q": np.where(seen, 0.1, 0.0)})
    assert own.status["alarm_at"].iloc[0] == audited.status["alarm_at"].iloc[0]


OWN_AUDITS = {"audit_column": "q", "least_audit": 0.1}


@pytest.mark.slow
def test_a_proxy_brings_the_alarm_forward():
    rng = np.random.default_rng(8)
    waits = {}
    for name in ("error <= 0.1 proxy judge", "error <= 0.1"):
        rows = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            errors = rng.random(20_000) < np.repeat([0.05, 0.2], [2000, 18_000])
            judge = np.clip(errors * 0.8 + 0.2 * rng.random(20_000), 0, 1)
            seen = rng.random(20_000) < 0.05
            monitor = rf.Monitor(certificate(name), audit=0.05)
            monitor.update({"error": np.where(seen, errors, np.nan), "judge": judge})
            rows.append(monitor.status["alarm_at"].iloc[0] - 2000)
        waits[name] = np.median(rows)
    assert waits["error <= 0.1 proxy judge"] < 0.75 * waits["error <= 0.1"]


def test_drops_from_a_reference_that_is_run_on_a_sample():
    made = certificate("score drop from full <= 0.05")
    rng = np.random.default_rng(9)
    score = rng.random(20_000) < 0.7
    full = np.where(rng.random(20_000) < 0.1, score | (rng.random(20_000) < 0.9), score).astype(float)
    sampled = np.where(rng.random(20_000) < 0.2, full, np.nan)
    monitor = rf.Monitor(made, audit={"score of full": 0.2})
    assert monitor.columns == ["score", "score of full"]
    assert not monitor.update({"score": score, "score of full": sampled})
    row = monitor.status.iloc[0]
    assert row["risk"] == pytest.approx((full - score).mean(), abs=0.01)
    worse = score & (rng.random(20_000) < 0.8)
    assert monitor.update({"score": worse, "score of full": sampled})


ONE, OTHER, ALL, NONE = [1, 0] * 150, [0, 1] * 150, [1] * 300, [0] * 300
KINDS = [
    ("recall >= 0.8", {}, {"recall": ALL}, {"recall": ONE}, (1.0, 0.5)),
    ("q0.9(latency) <= 300", {}, {"latency": [200.0] * 300}, {"latency": [1e9, 100] * 150}, (0.0, 0.5)),
    ("cost / solved <= 2", {"cost": (0, 5)}, {"cost": ALL, "solved": ALL}, {"cost": [4] * 300, "solved": ALL}, (1, 4)),
    ("tp / (tp + fp) >= 0.8", {}, {"tp": ALL, "fp": NONE}, {"tp": ONE, "fp": OTHER}, (1, 0.5)),
    ("error <= 0.1 given answered", {}, {"error": OTHER, "answered": ONE}, {"error": ALL, "answered": ONE}, (0, 1)),
    ("loss <= 20", {"loss": (10, 50)}, {"loss": [12] * 300}, {"loss": [40] * 300}, (12, 40)),
]


@pytest.mark.parametrize(("limit", "bounds", "good", "bad", "risks"), KINDS)
def test_every_kind_of_limit(limit, bounds, good, bad, risks):
    made = certificate(limit, bounds=bounds)
    fine, broken = rf.Monitor(made), rf.Monitor(made)
    assert not fine.update(good)
    assert broken.update(bad)
    assert fine.status["risk"].iloc[0] == pytest.approx(risks[0])
    assert broken.status["risk"].iloc[0] == pytest.approx(risks[1])


def test_limits_that_cannot_be_watched_are_refused_and_others_can_be_chosen():
    made = certificate(
        "error <= 0.1", rf.Limit("latency", worst=0.05, at_most=0.5), rf.Limit("error", gap_per="g", at_most=0.1)
    )
    with pytest.raises(
        rf.InvalidInputError, match="cannot be watched: it was certified by testing a stricter condition"
    ):
        rf.Monitor(made)
    with pytest.raises(rf.InvalidInputError, match="cannot be watched: it compares groups"):
        rf.Monitor(made, limits=["error gap between g <= 0.1"])
    assert len(rf.Monitor(made, limits=["error <= 0.1"]).watches) == 1


def test_groups_that_were_not_calibrated_are_named():
    made = certificate(rf.Limit("error", at_most=0.1, per="label"), groups={"label": [0, 1]})
    monitor = rf.Monitor(made)
    monitor.update({"error": [0, 1, 1, 1, 1], "label": [0, 1.0, "2", None, 2]})
    assert "2 outcomes belong to groups of 'label' that were not there at calibration: '2' (2)." in monitor.verdict()
    assert "1 outcomes have no 'label' and may belong to any" in monitor.verdict()
    assert monitor.status["outcomes"].tolist() == [2, 2]


def test_outcomes_without_a_group_count_in_every_group_where_they_are_above_the_limit():
    made = certificate("error <= 0.1 per g", groups={"g": ["a", "b"]})
    monitor = rf.Monitor(made)
    assert not monitor.update({"error": [0] * 200, "g": [None] * 200})  # they may hide nothing, and dilute nothing
    assert monitor.status["outcomes"].tolist() == [0, 0]
    assert monitor.update({"error": [1] * 20, "g": [None] * 20})
    assert monitor.status["outcomes"].tolist() == [20, 20]
    lost = rf.Monitor(made)
    assert lost.update({"error": [None] * 20, "g": [None] * 20})
    assert lost.status["missing"].tolist() == [20, 20]


def test_outcomes_without_a_group_are_left_out_where_that_was_declared():
    monitor = rf.Monitor(certificate("error <= 0.1 per g", groups={"g": ["a", "b"]}), missing="leave-out")
    assert not monitor.update({"error": [1] * 50, "g": [None] * 50})
    assert "50 missing outcomes of 'error per g <= 0.1' were left out, as declared" in monitor.verdict()
    audited = rf.Monitor(certificate("error <= 0.1 per g", groups={"g": ["a", "b"]}), missing="leave-out", audit=0.5)
    audited.update({"error": [0, None] * 200, "g": [None] * 400})
    assert not audited.doubtful_audits()


def test_outcomes_without_a_group_count_in_the_order_in_which_they_came():
    made = certificate("error <= 0.1 per g", groups={"g": ["a", "b"]})
    known, unknown = rf.Monitor(made), rf.Monitor(made)
    error = [0, 1, 0, 0, 1, 0, 1, 1]
    known.update({"error": error, "g": ["a"] * 8})
    unknown.update({"error": error, "g": ["a", None, "a", "a", None, "a", "a", None]})
    assert known.status["evidence"][0] == unknown.status["evidence"][0]


def test_an_outcome_of_another_group_is_named_once_however_many_limits_there_are():
    made = certificate("error <= 0.1 per g", "cost <= 0.9 per g", groups={"g": ["a", "b"]})
    monitor = rf.Monitor(made)
    monitor.update({"error": [0] * 3, "cost": [0.5] * 3, "g": ["c"] * 3})
    assert "3 outcomes belong to groups of 'g' that were not there at calibration: 'c' (3)." in monitor.verdict()


def test_nothing_counts_of_a_batch_with_an_outcome_out_of_bounds():
    monitor = rf.Monitor(certificate("error <= 0.1", "cost <= 0.5"))
    monitor.update({"error": [0], "cost": [0]})
    before = monitor.to_dict()
    with pytest.raises(rf.InvalidInputError, match=r"row 2 of these outcomes has 1\.5"):
        monitor.update({"error": [0, 0], "cost": [0, 1.5]})
    with pytest.raises(rf.InvalidInputError, match="'cost' is not among 'error'"):
        monitor.update({"error": [0, 0]})
    with pytest.raises(rf.InvalidInputError, match="equally long"):
        monitor.update({"error": [0, 0], "cost": [1]})
    assert monitor.to_dict() == before


def test_scores_that_change_are_a_warning_and_no_alarm():
    rng = np.random.default_rng(10)
    monitor = rf.Monitor(certificate("error <= 0.1"), warn_on="sure")
    monitor.update({"error": np.zeros(3000), "sure": rng.beta(5, 2, 3000)})
    assert not monitor.warning
    monitor.update({"error": np.zeros(3000), "sure": rng.beta(4, 3, 3000)})
    assert monitor.warning
    assert not monitor.alarm
    assert "Warning, not a broken limit: the scores 'sure' changed" in monitor.verdict()
    assert "riskfront_monitor_input_warning 1.0" in prometheus(monitor)


def test_history_keeps_every_outcome_in_few_points():
    history, rng, row = History(16), np.random.default_rng(11), 0
    for _ in range(200):
        n = int(rng.integers(1, 40))
        rows = np.arange(row, row + n)
        history.add(rows, None, np.stack([np.ones(n), np.full(n, 2.0)]), np.ones(n))
        row += n
        assert len(history.points) <= 16
        assert sum(point[2] for point in history.points) == row
        assert history.points[-1][0] == row - 1
    np.testing.assert_allclose(history.sums(), [row, 2 * row])


def test_the_prometheus_text_is_well_formed():
    made = certificate(rf.Limit("error", at_most=0.1, per="label"), groups={"label": ['a "b"\\', "c\nd"]})
    monitor = rf.Monitor(made)
    monitor.update({"error": [0, 1], "label": ['a "b"\\', "c\nd"]})
    lines = prometheus(monitor).splitlines()
    assert 'riskfront_monitor_counted_total{limit="error per label <= 0.1",group="a \\"b\\"\\\\"} 1.0' in lines
    assert 'riskfront_monitor_risk{limit="error per label <= 0.1",group="c\\nd"} 1.0' in lines
    for line in lines:
        assert line.startswith("#") or float(line.rpartition(" ")[2]) == float(line.rpartition(" ")[2])


def test_outcomes_pass_quickly():
    """A tenth of what benchmarks/monitoring.py measures, so that a busy machine does not fail."""
    monitor, outcomes = rf.Monitor(certificate("error <= 0.1")), drawn(12, 200_000, 0.05)
    started = time.process_time()
    monitor.update({"error": outcomes})
    assert len(outcomes) / (time.process_time() - started) > 20_000


REFUSED = {
    "a delta above 1": ({"delta": 1.5}, "delta must lie in"),
    "an unknown promise": ({"promise": "never"}, "there is no promise 'never'"),
    "a run of one": ({"run_length": 1}, "run_length must be a whole number"),
    "an unknown rule": ({"missing": "best"}, "there is no rule for missing outcomes 'best'"),
    "an audit of nothing": ({"audit": 0}, "audit must be a probability"),
    "a column without an audit": ({"audit_column": "q"}, "must be given together"),
    "an audit and a least audit": ({"audit": 0.1, "audit_column": "q", "least_audit": 0.1}, "not both"),
    "an unknown limit": ({"limits": ["eror <= 0.1"]}, "Did you mean 'error <= 0.1'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    options, words = REFUSED[case]
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.Monitor(certificate("error <= 0.1"), **options)
    table = rf.LossTable([{"k": 0}], {"error": [[1] * 50], "cost": [[1] * 50]})
    with pytest.raises(rf.NotCertifiedError):
        rf.Monitor(rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost")))


DAMAGED = {
    "cut off": lambda text: text[:100],
    "no object": lambda text: "[]",
    "another number": lambda text: text.replace('"outcomes": 0', '"outcomes": 7'),
    "another key": lambda text: text.replace('"clock"', '"klock"'),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_refused_files(case, tmp_path):
    file = tmp_path / "state.json"
    with pytest.raises(rf.StoreError, match="cannot read the monitor"):
        rf.Monitor.load(file)
    rf.Monitor(certificate("error <= 0.1")).save(file)
    file.write_text(DAMAGED[case](file.read_text()))
    before = file.read_text()
    with pytest.raises(rf.InvalidInputError, match="the monitor"):
        rf.Monitor.load(file)
    assert file.read_text() == before
