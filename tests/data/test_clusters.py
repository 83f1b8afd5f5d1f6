"""Rows of one patient as one averaged row: the table, the certificate, its words, and files."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.reading.sources import clustered

RNG = np.random.default_rng(2)
PATIENT = RNG.integers(0, 400, 1500)
SITE = np.where(PATIENT < 150, "north", "south")
ERROR = RNG.random((6, 1500)) < np.linspace(0.01, 0.3, 6)[:, None]
COST = np.linspace(0.9, 0.1, 6)[:, None] + 0.01 * RNG.random((6, 1500))
TABLE = rf.LossTable(
    [{"k": k} for k in range(6)],
    {"error": ERROR, "cost": COST},
    groups={"patient": PATIENT, "site": SITE, "visit": np.arange(1500) % 3},
)
PROBLEM = rf.Problem([rf.Limit("error", at_most=0.15, per="site")], minimize="cost")


def test_one_mean_row_each() -> None:
    table = TABLE.by_cluster("patient")
    assert table.clusters == "patient"
    assert table.n_examples == len(np.unique(PATIENT))
    names = pd.unique(PATIENT)
    expected = np.stack([ERROR[:, name == PATIENT].mean(axis=1) for name in names], axis=1)
    np.testing.assert_allclose(table.losses("error"), expected)
    assert not table.is_binary("error")
    assert table.group_names == ["site"]  # visits differ within a patient
    sites = table.group("site")
    assert [sites.levels[code] for code in sites.codes] == ["north" if name < 150 else "south" for name in names]


def test_certificate_says_so_and_is_verified(tmp_path) -> None:
    certificate = rf.calibrate(TABLE, PROBLEM, clusters="patient")
    assert certificate.clusters == "patient"
    assert "mean over all rows of one patient" in certificate.notes[0]
    assert certificate.n_opt + certificate.n_test == len(np.unique(PATIENT))
    certificate.save(tmp_path / "c.json")
    again = rf.Certificate.load(tmp_path / "c.json")
    assert rf.verify(again, TABLE) == []
    assert rf.verify(again, TABLE.by_cluster("patient")) == []
    TABLE.by_cluster("patient").save(tmp_path / "t.parquet")
    assert rf.verify(again, tmp_path / "t.parquet") == []
    assert rf.calibrate(TABLE, PROBLEM).clusters is None


def test_notes_are_compared(tmp_path) -> None:
    certificate = rf.calibrate(TABLE, PROBLEM, clusters="patient")
    (added,) = rf.verify(replace(certificate, notes=(*certificate.notes, "Audited: no errors.")), TABLE)
    assert added == "the note 'Audited: no errors.' is not one that these data give"
    (missing,) = rf.verify(replace(certificate, notes=()), TABLE)
    assert missing.endswith("is missing")


def test_parts_stay_means_and_must_both_be() -> None:
    opt, test = TABLE.by_cluster("patient").split(0.3)
    assert opt.clusters == test.clusters == "patient"
    plan = rf.ParetoTesting().plan(opt, PROBLEM)
    assert rf.certify(plan, test, PROBLEM).clusters == "patient"
    with pytest.raises(rf.InvalidInputError, match="of one kind"):
        rf.certify(plan, TABLE, PROBLEM)


AVERAGED = TABLE.by_cluster("patient")
ANSWERED = rf.LossTable(TABLE.configs, {"error": ERROR, "cost": COST, "answered": ~ERROR}, groups={"patient": PATIENT})
#: Of 400 with a 0.9-quantile of 360, means over five rows have one of 290: "stays at or below 300" would not be true
REFUSED = {
    "a quantile": (TABLE, "q0.9(error) <= 0.5", "a quantile of averages"),
    "a quantile of means": (AVERAGED, "q0.9(error) <= 0.5", "a quantile of averages"),
    "the worst": (TABLE, "worst 20 % of error <= 0.5", "hides"),
    "the worst of means": (AVERAGED, "worst 20 % of error <= 0.5", "hides"),
    "groups inside of clusters": (TABLE, "error <= 0.1 per visit", "same in all rows"),
    "a condition": (ANSWERED, "error <= 0.1 given answered", "Write a ratio"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    table, limit, words = REFUSED[case]
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.calibrate(table, rf.Problem(limit, minimize="cost"), clusters=None if table is AVERAGED else "patient")
    with pytest.raises(rf.InvalidInputError, match="averaged once"):
        clustered(AVERAGED, "site")
