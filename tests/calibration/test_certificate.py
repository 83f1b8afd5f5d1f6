"""Certificates: what they show, refuse, write down and read back."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError, NotCertifiedError, StoreError
from tests.support.tables import random_table

PROBLEM = rf.Problem([rf.Limit("error", at_most=0.12), rf.Limit("error", at_most=0.3, per="label")], ["cost"])
TABLE = random_table(n=800)


@pytest.fixture(scope="module")
def certificate() -> rf.Certificate:
    return rf.calibrate(TABLE, PROBLEM, seed=3)


@pytest.fixture(scope="module")
def nothing() -> rf.Certificate:
    return rf.calibrate(random_table(n=50), rf.Problem([rf.Limit("error", at_most=0.001)], ["cost"]))


def test_the_contract(certificate: rf.Certificate) -> None:
    assert certificate
    assert set(certificate.config) == {"a", "b"}
    assert len(certificate.chosen) == 1
    assert certificate.chosen[["a", "b"]].to_dict("records") == [certificate.config]
    assert len(certificate.certified) == certificate.tested["certified"].sum()
    assert certificate.guaranteed
    assert certificate.n_opt == round(800 * certificate.parameters["opt_fraction"])
    assert certificate.n_opt + certificate.n_test == 800
    assert certificate.seed == 3
    assert TABLE.has_fingerprint(certificate.data_sha256)
    assert certificate.version == rf.__version__
    assert certificate.diagnosis is None
    assert "90 % confidence" in certificate.verdict()
    assert "error stays at or below 12 %" in certificate.verdict()
    assert "in every label" in certificate.verdict()


def test_the_testing_path(certificate: rf.Certificate) -> None:
    tested = certificate.tested
    for column in ("a", "b", "error", "error per label", "cost", "p_value error", "p_value", "level", "certified"):
        assert column in tested
    assert tested["p_value"].to_numpy() == pytest.approx(
        tested[["p_value error", "p_value error per label"]].max(axis=1).to_numpy()
    )
    assert (tested["certified"] == (tested["p_value"] <= tested["level"])).all()


def test_bounds_agree_with_the_verdict(certificate: rf.Certificate) -> None:
    bounds = certificate.bounds
    assert list(bounds["limit"]) == ["error <= 0.12"] + ["error per label <= 0.3"] * 3
    assert list(bounds["group"])[1:] == ["x", "y", "z"]
    assert (bounds["margin"] >= 0).all()
    assert (bounds["bound"] <= bounds["at"]).all()
    assert (bounds["risk"] <= bounds["bound"]).all()
    np.testing.assert_allclose(bounds["margin"], bounds["at"] - bounds["bound"], atol=1e-12)


@pytest.mark.parametrize("method", ["bonferroni", "sgt", "holm", "fallback"])
def test_bounds_agree_with_the_verdict_at_small_levels(method: str) -> None:
    """The chosen setting of a grid may be judged at a tiny share of delta; its bound must still be below the limit."""
    table = random_table(shape=(6, 6, 6), n=1500)
    for limit in (rf.Limit("error", at_most=0.12), rf.Limit("drop", at_most=0.35), rf.Limit("answered", at_least=0.3)):
        found = rf.calibrate(table, rf.Problem([limit], ["cost"]), method=method)
        assert found
        assert (found.bounds["margin"] >= -1e-9).all()


def test_no_certificate_no_setting(nothing: rf.Certificate) -> None:
    assert not nothing
    assert len(nothing.certified) == len(nothing.chosen) == len(nothing.bounds) == 0
    for use in (lambda: nothing.config, lambda: nothing.configs, lambda: nothing.mixture({"cost": 0.5})):
        with pytest.raises(NotCertifiedError, match=r"there is no certified setting to") as caught:
            use()
        assert isinstance(caught.value, LookupError)
    assert nothing.verdict().startswith("Nothing could be certified. ")
    assert nothing.to_dict()["config"] is None
    assert "0 of 1 tested" in repr(nothing)


def test_no_guarantee_is_said() -> None:
    for method in ("alpha-constrained", "alpha-delta-constrained"):
        found = rf.calibrate(TABLE, PROBLEM, method=method)
        assert not found.guaranteed
        assert found.verdict().startswith("NO GUARANTEE")
        assert found.to_dict()["guaranteed"] is False


def test_mixture() -> None:
    problem = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost", "regret"], ["answered"])
    found = rf.calibrate(TABLE, problem)
    assert len(found.chosen) > 1
    target = float(found.chosen["cost"].mean())
    mixed = found.mixture({"cost": target})
    assert mixed["weight"].sum() == pytest.approx(1)
    assert mixed["weight"] @ mixed["cost"] <= target + 1e-9
    assert found.configs[0] == found.config


def test_settings_that_share_a_name_with_a_column() -> None:
    """They keep their values: in the certificate, the explored settings, mixtures and frontiers."""
    names = [
        "error",
        "cost",
        "p_value",
        "level",
        "certified",
        "chosen",
        "planned",
        "weight",
        "alpha",
        "n_certified",
        "group",
    ]
    losses = {"error": TABLE.losses("error")[:3], "cost": TABLE.losses("cost")[:3]}
    problem = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost"])
    for name in names:
        table = rf.LossTable([{name: value} for value in (10, 20, 30)], losses)
        found = rf.calibrate(table, problem)
        column = found.setting_columns[name]
        assert found.config[name] in (10, 20, 30)
        assert set(found.explored[column]) == {10, 20, 30}
        assert set(found.mixture({"cost": 1.0})[column]) <= {10, 20, 30}
        frontier = rf.frontier(table, problem, [0.12, 0.2])
        assert set(frontier["alpha"]) == {0.12, 0.2}
        assert any(set(frontier[c]) <= {10, 20, 30} for c in (name, f"setting {name}") if c in frontier)


@pytest.mark.parametrize("method", ["pareto-testing", "holm", "sgt", "alpha-constrained"])
def test_json_round_trip(method: str, tmp_path: Path) -> None:
    problem = rf.Problem(
        [rf.Limit("error", at_most=0.12, per="label"), rf.Limit("answered", at_least=0.3)], ["cost", "regret"]
    )
    before = rf.calibrate(TABLE, problem, method=method)
    before.save(tmp_path / "c.json")
    after = rf.Certificate.load(tmp_path / "c.json")
    assert after.to_dict() == before.to_dict()
    assert after.problem == before.problem
    assert after.configs == before.configs
    pd.testing.assert_frame_equal(after.path, before.path)
    pd.testing.assert_frame_equal(after.bounds, before.bounds)
    assert rf.verify(after, TABLE) == []


def test_json_round_trip_of_nothing(nothing: rf.Certificate, tmp_path: Path) -> None:
    nothing.save(tmp_path / "c.json")
    after = rf.Certificate.load(tmp_path / "c.json")
    assert not after
    assert after.to_dict() == nothing.to_dict()


def test_json_is_plain_json(certificate: rf.Certificate, tmp_path: Path) -> None:
    certificate.save(tmp_path / "c.json")

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    data = json.loads((tmp_path / "c.json").read_text(), parse_constant=refuse)
    assert data["schema_version"] == 1
    assert data["config"] == certificate.config


def test_bad_files(certificate: rf.Certificate, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    with pytest.raises(StoreError, match=r"cannot read the certificate .*No such file"):
        rf.Certificate.load(path)
    certificate.save(path)
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    with pytest.raises(InvalidInputError, match=r"must be JSON; it is not, or it was cut off"):
        rf.Certificate.load(path)
    for content, message in (
        ({"a": 1}, "schema 'riskfront.certificate'"),
        ({"schema": "riskfront.certificate", "schema_version": 99}, "schema version 1; got 99"),
        ({"schema": "riskfront.certificate", "schema_version": 1}, "incomplete or malformed"),
        ([1, 2], "schema 'riskfront.certificate'"),
    ):
        path.write_text(json.dumps(content))
        with pytest.raises(InvalidInputError, match=message):
            rf.Certificate.load(path)


def test_saving_where_nothing_is(certificate: rf.Certificate, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"does not. Create it first"):
        certificate.save(tmp_path / "no" / "c.json")
