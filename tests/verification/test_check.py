"""check: new data confirm a certificate, contradict it, or are too few to tell; each with a known error probability."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from tests.support.command_line import riskfront
from tests.support.runs import simulated_runs

PROBLEM = rf.Problem(["error <= 0.1"], minimize="cost")


def table(seed, rate, n=1500, loss="error"):
    rng = np.random.default_rng([seed, 3])
    errors = rng.random((2, n)) < np.array([[0.01], [rate]])
    return rf.LossTable(
        [{"m": "safe"}, {"m": "cheap"}], {loss: errors, "cost": np.array([[2.0], [1.0]]) * np.ones((2, n))}
    )


@pytest.fixture(scope="module")
def certificate():
    found = rf.calibrate(table(0, 0.05), PROBLEM)
    assert found.config == {"m": "cheap"}
    return found


@pytest.mark.parametrize(
    ("rate", "n", "says"), [(0.05, 1500, "holds"), (0.2, 1500, "broken"), (0.1, 300, "unclear"), (0.05, 10, "unclear")]
)
def test_what_new_data_say(certificate, rate, n, says):
    found = rf.check(certificate, table(1, rate, n))
    assert found.says == says
    assert found.n == n
    assert {"holds": "keeps every limit", "broken": "is broken", "unclear": "do not tell"}[says] in found.verdict()


def test_refusals(certificate):
    for data, options, words in (
        (table(0, 0.05), {}, "needs new examples"),  # those it was made of
        (table(1, 0.05).select([0]), {}, "must hold the certified setting once"),
        (table(1, 0.05), {"delta": 2}, "delta must lie in"),
    ):
        with pytest.raises(rf.InvalidInputError, match=words):
            rf.check(certificate, data, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "wrong"), [(0.1001, "holds"), (0.0999, "broken")])
def test_each_statement_is_wrong_with_probability_at_most_delta(certificate, rate, wrong):
    trials, delta = 300, 0.1
    said = [rf.check(certificate, table(100 + t, rate, 400), delta=delta).says for t in range(trials)]
    assert said.count(wrong) / trials <= delta + 3 * np.sqrt(delta * (1 - delta) / trials)
    assert said.count("unclear") > 0


def test_order_of_the_new_examples_does_not_matter():
    rng = np.random.default_rng(0)
    problem = rf.Problem([rf.Limit("regret", at_most=0.3)], minimize="cost")
    values = rng.random((2, 2000)) * np.array([[0.3], [0.5]])
    losses = {"regret": values, "cost": np.array([[2.0], [1.0]]) * np.ones((2, 2000))}
    made = rf.calibrate(rf.LossTable([{"m": "a"}, {"m": "b"}], losses), problem)
    new = rng.random((2, 500)) * np.array([[0.3], [0.5]])
    found = []
    for order in (np.arange(500), np.argsort(new[1]), np.argsort(-new[1])):
        parts = {"regret": new[:, order], "cost": losses["cost"][:, :500]}
        found.append(rf.check(made, rf.LossTable([{"m": "a"}, {"m": "b"}], parts)).limits["p_value kept"].iloc[0])
    assert len(set(found)) == 1


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(
    "limit",
    [
        rf.Limit("error", at_most=0.1, per="label"),
        rf.Limit("right", at_least=0.85),
        rf.Limit("latency", at_most=0.8, quantile=0.7),
        rf.Limit("error", at_least=-0.08, drop_from="full"),
    ],
    ids=str,
)
def test_every_kind_of_limit(limit, same):
    """New data like the old ones confirm it; data that have moved contradict it."""

    def data(seed, rate=0.05, stretch=1.0, n=3000):
        rng = np.random.default_rng([seed, 8])
        errors = rng.random((2, n)) < np.array([[0.01], [rate]])
        cost = np.array([[2.0], [1.0]]) * np.ones((2, n))
        losses = {"error": errors, "right": ~errors, "latency": stretch * rng.random((2, n)), "cost": cost}
        return rf.LossTable([{"m": "full"}, {"m": "small"}], losses, {"label": rng.integers(0, 2, n)})

    certificate = rf.calibrate(data(0), rf.Problem([limit], minimize="cost"))
    assert certificate.config == {"m": "small"}
    found = rf.check(certificate, data(1) if same else data(1, rate=0.3, stretch=3.0))
    assert found.says == ("holds" if same else "broken")


def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, seed, rate):
        losses = table(seed, rate)
        frame = losses.configs.loc[np.repeat([0, 1], 1500)].reset_index(drop=True)
        frame = frame.assign(
            example=np.tile(np.arange(1500), 2),
            error=losses.losses("error").ravel(),
            cost=losses.losses("cost").ravel(),
        )
        frame.to_parquet(name)

    write("old.parquet", 0, 0.05)
    write("good.parquet", 1, 0.05)
    write("bad.parquet", 2, 0.2)
    riskfront("calibrate", "old.parquet", "--limit", "error <= 0.1", "--minimize", "cost", "--out", "c.json")
    good = riskfront("check", "c.json", "good.parquet")
    assert good.returncode == 0
    assert "keeps every limit" in good.stdout
    bad = riskfront("check", "c.json", "bad.parquet", "--json")
    assert bad.returncode == 1
    assert json.loads(bad.stdout)["says"] == "broken"
    assert "needs new examples" in riskfront("check", "c.json", "old.parquet").stderr


@pytest.mark.slow
def test_a_policy_is_checked_on_new_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    simulated_runs(n=3000).save("runs.parquet")
    simulated_runs(seed=4, n=3000).save("new.parquet")
    worse = simulated_runs(seed=4, n=3000)
    worse.values["score"][:2] = 0.0
    worse.save("worse.parquet")
    options = ["--limit", "score drop <= 0.08", "--reference", "m2", "--minimize", "cost", "--out", "policy"]
    made = riskfront("cascade", "runs.parquet", *options, "--json")
    assert made.returncode == 0, made.stderr
    assert len(json.loads(made.stdout)["models"]) >= 2
    good = riskfront("check", "policy/policy.json", "new.parquet")
    assert "keeps every limit" in " ".join(good.stdout.split())
    assert riskfront("check", "policy/policy.json", "worse.parquet").returncode == 1
    old = riskfront("check", "policy/policy.json", "runs.parquet")
    assert old.returncode == 2
    assert "3,000 of these 3,000 are among those the policy was made of" in old.stderr
    simulated_runs(seed=4, n=3000).only(["m1", "m2"]).save("few.parquet")
    if "m0" in json.loads(made.stdout)["models"]:
        assert "'m0' is missing" in riskfront("check", "policy/policy.json", "few.parquet").stderr


@pytest.mark.parametrize("how", ["reordered", "half", "a tenth", "single precision", "one setting"])
def test_a_check_knows_the_examples_of_the_certificate(how):
    """In whatever order, number or precision: what the setting lost on them is written down in the certificate."""

    def drawn(seed, n=1000):
        rng = np.random.default_rng([77, seed])
        error = rng.random((20, n)) < np.linspace(0.01, 0.3, 20)[:, None]
        return {"error": error, "cost": np.linspace(1, 0, 20)[:, None] + 0.01 * rng.random((20, n))}

    settings, problem, old = [{"k": k} for k in range(20)], rf.Problem("error <= 0.1", minimize="cost"), drawn(0)
    certificate = rf.calibrate(rf.LossTable(settings, old), problem)
    certificate = rf.Certificate.from_dict(certificate.to_dict())
    assert rf.verify(certificate, rf.LossTable(settings, old)) == []

    def as_new(losses):
        n = {"half": 500, "a tenth": 100}.get(how, 1000)
        order = np.random.default_rng(1).permutation(1000)[:n] if how != "single precision" else np.arange(1000)
        losses = {name: array[:, order] for name, array in losses.items()}
        if how == "single precision":
            losses["cost"] = losses["cost"].astype(np.float32)
        rows = [certificate.config["k"]] if how == "one setting" else range(20)
        return rf.LossTable([{"k": k} for k in rows], {name: array[list(rows)] for name, array in losses.items()})

    with pytest.raises(rf.InvalidInputError, match=r"a check needs new examples; about [\d,]+ of these"):
        rf.check(certificate, as_new(old))
    assert rf.check(certificate, as_new(drawn(1))).says in ("holds", "unclear")


def priced(seed, n=1000):
    rng = np.random.default_rng([79, seed])
    error = rng.random((5, n)) < np.linspace(0.01, 0.05, 5)[:, None]
    return {"error": error, "cost": np.linspace(1, 0.2, 5)[:, None] * rng.lognormal(-5, 1, (5, n))}


@pytest.mark.parametrize(
    "other",
    [
        lambda cost: cost.round(6),
        lambda cost: cost.round(5),
        lambda cost: np.array([[float(f"{x:.3g}") for x in row] for row in cost]),
        lambda cost: np.floor(cost * 1e6) / 1e6,
    ],
    ids=["to 6 decimals", "to 5 decimals", "to 3 digits", "cut off"],
)
def test_a_check_knows_examples_whose_costs_were_rounded(other):
    settings, problem = [{"k": k} for k in range(5)], rf.Problem("error <= 0.1", minimize="cost")
    certificate = rf.calibrate(rf.LossTable(settings, priced(0)), problem)
    certificate = rf.Certificate.from_dict(json.loads(json.dumps(certificate.to_dict())))

    def as_new(seed):
        losses = priced(seed)
        order = np.random.default_rng(2).permutation(1000)
        return rf.LossTable(settings, {"error": losses["error"][:, order], "cost": other(losses["cost"])[:, order]})

    with pytest.raises(rf.InvalidInputError, match=r"a check needs new examples; about [\d,]+ of these"):
        rf.check(certificate, as_new(0))
    assert rf.check(certificate, as_new(1)).says == "holds"


@pytest.mark.slow
@pytest.mark.parametrize(
    "cost",
    [
        lambda rng, n: np.minimum(rng.zipf(1.5, (3, n)), 10**6) / 10**6,
        lambda rng, n: rng.lognormal(0, 1, (3, n)),
        lambda rng, n: rng.lognormal(0, 1, (3, n)).round(2),
        lambda rng, n: 0.000125 * rng.poisson(300, (3, n)),
    ],
    ids=["few values", "continuous", "rounded", "tokens"],
)
def test_equal_losses_are_no_proof_of_equal_examples(cost):
    """Where outcomes have few values, or crowd, new examples lose what old ones lost."""
    settings, problem = [{"k": k} for k in range(3)], rf.Problem("error <= 0.2", minimize="cost")
    for seed in range(20):
        rng = np.random.default_rng([78, seed])
        made = [{"error": rng.random((3, n)) < 0.02, "cost": cost(rng, n)} for n in (400, 300 + 30 * seed)]
        certificate = rf.calibrate(rf.LossTable(settings, made[0]), problem)
        assert rf.check(certificate, rf.LossTable(settings, made[1])).says == "holds"


class TestGroups:
    """A certificate speaks of the groups that it lists; a check says nothing of others, and nothing without its groups."""

    @staticmethod
    def table(groups: str, risks: dict[str, float], seed: int, n: int = 900) -> rf.LossTable:
        rng = np.random.default_rng(seed)
        group = np.array(list(groups))[rng.integers(0, len(groups), n)]
        error = rng.random((1, n)) < np.array([risks[one] for one in group])
        return rf.LossTable([{"k": 0}], {"error": error, "cost": rng.random((1, n))}, groups={"g": group})

    def certificate(self, limit: str) -> rf.Certificate:
        return rf.calibrate(
            self.table("abc", {"a": 0.02, "b": 0.02, "c": 0.02}, 0, 3000), rf.Problem(limit, minimize="cost")
        )

    @pytest.mark.parametrize("limit", ["error <= 0.1 per g", "error gap between g <= 0.15"])
    def test_a_certified_group_without_a_new_example_is_not_confirmed(self, limit: str) -> None:
        found = rf.check(self.certificate(limit), self.table("ab", {"a": 0.02, "b": 0.02}, 1, 2000))
        assert found.says == "unclear"
        absent = found.limits[found.limits["n"] == 0]
        assert all("c" in group for group in absent["group"])
        assert "No new example speaks of" in found.verdict()

    @pytest.mark.slow
    @pytest.mark.parametrize("limit", ["error <= 0.1 per g", "error gap between g <= 0.15"])
    def test_a_group_that_was_not_certified_breaks_no_limit(self, limit: str) -> None:
        new = self.table("abcd", {"a": 0.02, "b": 0.02, "c": 0.02, "d": 0.7}, 2, 3000)
        found = rf.check(self.certificate(limit), new)
        assert found.says == "holds"
        others = found.limits[found.limits["says"] == "not covered"]
        assert len(others) > 0
        assert all("d" in group for group in others["group"])
        assert "was not certified for group" in found.verdict()

    def test_groups_are_the_same_after_a_certificate_was_saved(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(3)

        def numbered() -> rf.LossTable:
            losses = {"error": rng.random((1, 900)) < 0.02, "cost": rng.random((1, 900))}
            return rf.LossTable([{"k": 0}], losses, groups={"g": rng.integers(0, 3, 900)})

        rf.calibrate(numbered(), rf.Problem("error <= 0.1 per g", minimize="cost")).save(tmp_path / "c.json")
        assert rf.check(rf.Certificate.load(tmp_path / "c.json"), numbered()).says == "holds"

    @pytest.mark.parametrize("groups", [["a", "b"], [0, 1]])
    def test_a_limit_of_all_examples_names_no_group(self, groups: list[Any]) -> None:
        def month(seed: int, risk: float) -> rf.LossTable:
            rng = np.random.default_rng(seed)
            losses = {"error": rng.random((1, 1500)) < risk, "cost": rng.random((1, 1500))}
            return rf.LossTable([{"k": 0}], losses, groups={"g": rng.choice(groups, 1500)})

        problem = rf.Problem(["error <= 0.1", "error <= 0.9 per g"], minimize="cost")
        found = rf.check(rf.calibrate(month(0, 0.02), problem), month(1, 0.3))
        assert "the limit 'error <= 0.1' is broken on data like these" in found.verdict()
        assert found.limits["group"].tolist() == [None, *groups]
        assert "nan" not in found._repr_html_()
