"""Certificates: what they show, refuse, write down and read back."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
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
    for column in ("a", "b", "error", "error per label", "cost", "p_value error", "p_value", "tested_at", "certified"):
        assert column in tested
    assert tested["p_value"].to_numpy() == pytest.approx(
        tested[["p_value error", "p_value error per label"]].max(axis=1).to_numpy()
    )
    assert (tested["certified"] == (tested["p_value"] <= tested["tested_at"])).all()


def test_what_was_measured_for_the_chosen_setting(certificate: rf.Certificate) -> None:
    """Each limit and group with its examples, mean and p-value; no bound and no margin, which would ignore the choice."""
    measured = certificate.measured
    assert list(measured["limit"]) == ["error <= 0.12"] + ["error per label <= 0.3"] * 3
    assert list(measured["group"])[1:] == ["x", "y", "z"]
    best = certificate.chosen.iloc[0]
    assert measured["measured"][0] == best["error"]
    assert measured["measured"][1:].max() == best["error per label"]
    assert measured["p_value"][0] == best["p_value error"]
    assert measured["p_value"][1:].max() == best["p_value error per label"]
    used = TABLE.n_examples if best["tested_by"] == "holm" else certificate.n_test
    assert measured["examples"][0] == measured["examples"][1:].sum() == used
    assert (measured["tested_at"] == best["tested_at"]).all()
    assert list(measured["compared_with"]) == [0.12, 0.3, 0.3, 0.3]
    assert set(measured["test"]) == {"binomial"}
    for said in (measured.columns, certificate.path.columns, json.dumps(certificate.to_dict())):
        assert "bound" not in [*said]
        assert "margin" not in said


@pytest.mark.parametrize("method", ["pareto-testing", "bonferroni", "holm", "sgt", "fallback"])
@pytest.mark.parametrize("p_value", ["betting", "hoeffding-bentkus"])
def test_the_p_values_shown_are_those_that_decided(method: str, p_value: str) -> None:
    """The largest over groups is the p-value of the limit on the testing path, whatever share of delta a test had."""
    limits = [
        rf.Limit("error", at_most=0.2, p_value=p_value),
        rf.Limit("error", at_most=0.4, per="label", p_value=p_value),
        rf.Limit("answered", at_least=0.25, p_value=p_value),
    ]
    found = rf.calibrate(random_table(n=1500), rf.Problem(limits, ["cost", "regret"]), method=method)
    assert found
    largest = found.measured.groupby(["chosen", "limit"], sort=False)["p_value"].max().unstack()[list(map(str, limits))]
    columns = [f"p_value {name}" for name in found.problem.limit_names]
    np.testing.assert_array_equal(largest.to_numpy(), found.chosen[columns].to_numpy())
    np.testing.assert_array_equal(
        found.measured.groupby("chosen")["tested_at"].first(), found.chosen["tested_at"].to_numpy()
    )


def test_groups_that_are_covered_are_listed(certificate: rf.Certificate) -> None:
    assert certificate.groups == {"label": ["x", "y", "z"]}
    assert certificate.to_dict()["groups"] == {"label": ["x", "y", "z"]}
    assert certificate.verdict() == (
        "With 90 % confidence, error stays at or below 12 % and error in every label (x, y and z) stays at or below 30 %. "
        "No other label is covered."
    )
    plain = rf.calibrate(TABLE, rf.Problem(["error <= 0.12"], ["cost"]))
    assert plain.groups == {}
    assert plain.verdict() == "With 90 % confidence, error stays at or below 12 %."


def test_groups_cannot_be_added_or_hidden(certificate: rf.Certificate) -> None:
    for groups in ({}, {"label": ["x", "y", "z", "w"]}, {"label": ["x"]}):
        changed = replace(certificate, groups=groups)
        loaded = rf.Certificate.from_dict(changed.to_dict())
        assert any(difference.startswith("groups") for difference in rf.verify(loaded, TABLE))


def test_many_groups_are_counted_in_the_verdict_and_listed_in_the_certificate() -> None:
    table = rf.LossTable(
        [{"a": 1}],
        {"error": np.zeros((1, 2000), dtype=bool), "cost": np.ones((1, 2000))},
        {"site": np.arange(2000) % 25, "label": np.arange(2000) % 2},
    )
    found = rf.calibrate(table, rf.Problem(["error <= 0.1 per site", "error <= 0.05 per label"], ["cost"]))
    assert found.groups == {"site": list(range(25)), "label": [0, 1]}
    assert "in every site (0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 15 more)" in found.verdict()
    assert found.verdict().endswith("No other site or label is covered.")


def test_a_method_without_a_guarantee_certifies_nothing() -> None:
    """It picks: in words, in data frames and in the file."""
    for method in ("alpha-constrained", "alpha-delta-constrained"):
        found = rf.calibrate(TABLE, PROBLEM, method=method)
        assert found
        assert not found.guaranteed
        assert found.verdict().startswith("NO GUARANTEE")
        assert found.to_dict()["guaranteed"] is False
        assert "certified" not in found.tested
        assert found.tested["picked"].any()
        assert "certified" not in found.to_dict()["path"]
        assert "certified" not in repr(found) + found.verdict() + found._repr_html_()
        assert rf.Certificate.from_dict(found.to_dict()).to_dict() == found.to_dict()
        frontier = rf.frontier(TABLE, PROBLEM, [0.1, 0.2], method=method)
        assert "n_certified" not in frontier
        assert (frontier["n_picked"] > 0).any()


def test_no_certificate_no_setting(nothing: rf.Certificate) -> None:
    assert not nothing
    assert len(nothing.certified) == len(nothing.chosen) == len(nothing.measured) == 0
    for use in (lambda: nothing.config, lambda: nothing.configs, lambda: nothing.mixture({"cost": 0.5})):
        with pytest.raises(NotCertifiedError, match=r"there is no certified setting to") as caught:
            use()
        assert isinstance(caught.value, LookupError)
    assert nothing.verdict().startswith("Nothing could be certified. ")
    assert nothing.to_dict()["config"] is None
    assert "0 of 1 tested" in repr(nothing)


def test_mixture() -> None:
    problem = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost", "regret"], ["answered"])
    found = rf.calibrate(TABLE, problem)
    assert len(found.chosen) > 1
    target = float(found.chosen["cost"].mean())
    mixed = found.mixture({"cost": target})
    assert mixed["weight"].sum() == pytest.approx(1)
    assert mixed["weight"] @ mixed["cost"] <= target + 1e-9
    assert found.configs[0] == found.config


@pytest.mark.slow
def test_settings_that_share_a_name_with_a_column() -> None:
    """They keep their values: in the certificate, the explored settings, mixtures and frontiers."""
    names = [
        "error",
        "cost",
        "p_value",
        "level",
        "tested_at",
        "certified",
        "picked",
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


def test_a_file_is_plain_json_and_comes_back(
    nothing: rf.Certificate, certificate: rf.Certificate, tmp_path: Path
) -> None:
    """tests/test_properties.py has certificates of any kind."""

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    for before in (nothing, certificate):
        before.save(tmp_path / "c.json")
        assert rf.Certificate.load(tmp_path / "c.json").to_dict() == before.to_dict()
        data = json.loads((tmp_path / "c.json").read_text(), parse_constant=refuse)
        assert data["schema_version"] == 3
        assert data["config"] == (before.config if before else None)


def with_changes(**changes: object) -> Callable[[str], str]:
    return lambda text: json.dumps(json.loads(text) | changes)


BAD_FILES = {
    "cut off": (lambda text: text[: len(text) // 2], r"must be as it was saved; it is no JSON: .* cut off"),
    "no object": (lambda text: "[1, 2]", "schema 'riskfront.certificate'"),
    "something else": (lambda text: '{"a": 1}', "schema 'riskfront.certificate'"),
    "an earlier schema": (with_changes(schema_version=2), "reads certificates of schema version 3; got 2"),
    "a later schema": (with_changes(schema_version=99), "reads certificates of schema version 3; got 99"),
    "no schema version": (with_changes(schema_version=None), "reads certificates of schema version 3; got None"),
    "incomplete": (
        lambda text: '{"schema": "riskfront.certificate", "schema_version": 3}',
        "incomplete or malformed",
    ),
    "another setting": (with_changes(config={"a": 99, "b": 99}), "agree with itself"),
    "another verdict": (with_changes(verdict="All is well."), "agree with itself"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_refused_files(case: str, certificate: rf.Certificate, tmp_path: Path) -> None:
    change, message = BAD_FILES[case]
    path = tmp_path / "c.json"
    with pytest.raises(StoreError, match=r"cannot read the certificate .*No such file"):
        rf.Certificate.load(path)
    certificate.save(path)
    path.write_text(change(path.read_text()))
    before = path.read_bytes()
    with pytest.raises(InvalidInputError, match=message):
        rf.Certificate.load(path)
    assert path.read_bytes() == before
