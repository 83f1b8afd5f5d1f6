"""Policies: they do what the table said, count what they did, escape from errors, and cannot be changed unnoticed."""

import asyncio
import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import riskfront as rf
from riskfront._cascades.policy import ModelsFailedError, slim
from riskfront._cli.cascades import refuse_exports
from tests.support.calls import functions_entered
from tests.support.runs import simulated_runs


def made(kind=rf.Cascade, confidence="confidence", **options):
    cascade = kind(simulated_runs(n=2500), confidence=confidence, thresholds=6, **options)
    table = cascade.table()
    certificate = rf.calibrate(table, rf.Problem(["score drop <= 0.08"], minimize="cost", reference="m2"))
    return cascade, table, certificate, cascade.policy(certificate)


@pytest.fixture(scope="module")
def cascaded():
    return made()


def calls(cascade, *names):
    """Models as functions of the position of an example."""
    runs = cascade.runs

    def model(row):
        return lambda i: {
            "answer": (runs.names[row], i),
            "confidence": runs.value("confidence")[row, i],
            "cost": runs.value("cost")[row, i],
        }

    return {name: model(runs.row(name)) for name in runs.names}


@pytest.mark.slow
def test_a_policy_does_what_was_certified(cascaded):
    cascade, table, certificate, policy = cascaded
    assert len(policy.models) == 2
    row = [table.config(r) for r in range(table.n_configs)].index(certificate.config)
    models, score = calls(cascade), cascade.runs.value("score")
    for i in range(300):
        answer = policy.route(i, models)
        assert score[cascade.runs.row(answer.model), i] == table.losses("score")[row, i]
        assert answer.cost == pytest.approx(table.losses("cost")[row, i])
        assert len(answer.called) == table.losses("calls")[row, i]
        assert answer.answer == (answer.model, i)


@pytest.mark.slow
def test_a_policy_of_limits_that_were_chosen_after_looking(tmp_path):
    cascade = rf.Cascade(simulated_runs(n=2500), confidence="confidence", thresholds=6)
    problem = rf.Problem(["score drop <= 0.08"], minimize="cost", reference="m2")
    frontier = cascade.frontier(problem, {"score drop from m2": [0.05, 0.08, 0.15]})
    certificate = frontier.choose({"score drop from m2": 0.15})
    assert frontier.rules[json.dumps(certificate.config)].startswith("Ask ")
    policy = cascade.policy(certificate)
    policy.save(tmp_path / "policy.json")
    loaded = rf.Policy.load(tmp_path / "policy.json")
    assert loaded.certificate.frontier["chosen"] == {"score drop from m2": 0.15}
    for i in range(50):
        assert loaded.route(i, calls(cascade)).model == policy.route(i, calls(cascade)).model
    monitor = rf.Monitor(loaded.certificate)
    monitor.update({"score": np.ones(30), "score of m2": np.ones(30)})
    assert not monitor.alarm


@pytest.mark.slow
def test_counts_agree_with_the_prediction(cascaded):
    cascade, table, certificate, _ = cascaded
    policy = cascade.policy(certificate)
    models, n = calls(cascade), cascade.runs.n_examples
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: policy.route(i, models), range(n)))
    counts = policy.counts.to_dict()
    assert counts["requests"] == n
    for name, share in zip(policy.models, policy.shares, strict=True):
        assert counts["answered"][name] == round(share * n)
    row = [table.config(r) for r in range(table.n_configs)].index(certificate.config)
    assert counts["mean_cost"] == pytest.approx(table.means("cost")[row, 0])
    assert counts["escalated"] == counts["answered"][policy.models[1]]


def test_async(cascaded):
    cascade, _, _, policy = cascaded
    models = calls(cascade)

    def later(model):
        async def call(i):
            await asyncio.sleep(0)
            return model(i)

        return call

    async def all_of_them():
        waiting = {name: later(model) for name, model in models.items()}
        return [await policy.aroute(i, waiting) for i in range(50)]

    assert [a.model for a in asyncio.run(all_of_them())] == [policy.route(i, models).model for i in range(50)]


def test_an_error_escalates_and_is_counted(cascaded):
    cascade, _, certificate, _ = cascaded
    policy = cascade.policy(certificate)
    models = calls(cascade)

    def broken(prompt):
        raise TimeoutError("no reply")

    answer = policy.route(3, models | {policy.models[0]: broken})
    assert answer.model == policy.models[1]
    assert answer.errors == {policy.models[0]: "TimeoutError: no reply"}
    with pytest.raises(ModelsFailedError, match=f"{policy.models[1]} failed"):
        policy.route(3, models | dict.fromkeys(policy.models, broken))
    counts = policy.counts.to_dict()
    assert (counts["requests"], counts["failed"], counts["escalated"]) == (2, 1, 2)
    assert counts["errors"] == {policy.models[0]: 2, policy.models[1]: 1}
    assert counts["called"] == dict.fromkeys(policy.models, 2)


def test_who_is_not_sure_of_anything_is_passed_over(cascaded):
    _, _, _, policy = cascaded
    first, last = policy.models
    for sure in (float("nan"), None, "very"):
        models = {first: lambda p, sure=sure: ("a", sure), last: lambda p: "b"}
        assert policy.route("?", models).model == last
    assert policy.route("?", {first: lambda p: "a", last: lambda p: "b"}, confidence=lambda *_: 99.0).model == first
    judged = policy.route("?", {first: lambda p: "a", last: lambda p: "b"}, confidence=lambda *_: 1 / 0)
    assert judged.model == last


def test_at_the_threshold_a_model_is_trusted(cascaded):
    policy = dataclasses.replace(cascaded[3], confidence="confidence")  # a column as it is
    (limit,), (first, last) = policy.thresholds, policy.models
    for sure, who in ((limit, first), (np.nextafter(limit, -np.inf), last)):
        assert policy.route("?", {first: lambda p, s=sure: ("a", s), last: lambda p: "b"}).model == who


def test_json_and_back(cascaded, tmp_path):
    _, _, _, policy = cascaded
    policy.save(tmp_path / "policy.json")
    again = rf.Policy.load(tmp_path / "policy.json")
    assert (again.models, again.thresholds, again.shares) == (policy.models, policy.thresholds, policy.shares)
    assert again.certificate.config == policy.certificate.config


@pytest.mark.slow
def test_routers_and_learnt_confidences(tmp_path):
    cascade, table, certificate, policy = made(rf.Router, rf.LearntConfidence(["length", "task"]))
    policy.save(tmp_path / "p.json")
    policy = rf.Policy.load(tmp_path / "p.json")
    row = [table.config(r) for r in range(table.n_configs)].index(certificate.config)
    models, score = calls(cascade), cascade.runs.value("score")
    for i in range(200):
        about = {name: cascade.runs.examples[name].iloc[i] for name in ("length", "task")}
        answer = policy.route(i, models, about=about)
        assert score[cascade.runs.row(answer.model), i] == table.losses("score")[row, i]
        assert len(answer.called) == 1
    if len(policy.models) > 1:
        with pytest.raises(rf.InvalidInputError, match="'length' was not given"):
            policy.route(0, models)


def test_explored_settings_of_a_huge_table_are_thinned(cascaded, monkeypatch):
    certificate = cascaded[2]
    monkeypatch.setattr("riskfront._cascades.policy._MOST_EXPLORED", 5)
    monkeypatch.setattr("riskfront._cascades.policy._KEPT", 4)
    thinned = slim(certificate)
    assert thinned.explored["planned"].sum() == certificate.explored["planned"].sum()
    assert len(thinned.explored) < len(certificate.explored)
    assert rf.Certificate.from_dict(thinned.to_dict()).config == certificate.config


def test_a_call_never_enters_pandas(cascaded):
    cascade, _, _, policy = cascaded
    models = calls(cascade)
    entered = functions_entered(lambda: [policy.route(i, models) for i in range(5)])
    assert any("policy.py" in file for file in entered)
    assert not [file for file in entered if "pandas" in file or "certificate" in file]


async def later(prompt):
    return "a", 9.0


REFUSED = {
    "a model that must be awaited": (lambda made, p: p.route("?", dict.fromkeys(p.models, later)), "Use aroute"),
    "one model of two": (lambda made, p: p.route("?", {p.models[0]: print}), "is missing"),
    "models that do not say how sure they are": (
        lambda made, p: p.route("?", dict.fromkeys(p.models, str)),
        "how sure it is",
    ),
    "a certificate of another cascade": (
        lambda made, p: rf.Cascade(simulated_runs(n=2500), confidence="confidence", thresholds=5).policy(made),
        "must be one of this cascade",
    ),
    "an export to LiteLLM": (lambda made, p: refuse_exports(["litellm"]), "fire on errors.*riskfront serve"),
    "an export to Semantic Router": (
        lambda made, p: refuse_exports(["semantic-router"]),
        "one threshold for all.*serve",
    ),
    "an export to Envoy": (lambda made, p: refuse_exports(["envoy"]), "nothing shows.*riskfront serve"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(cascaded, case):
    use, words = REFUSED[case]
    with pytest.raises(rf.InvalidInputError, match=words):
        use(*cascaded[2:])


CHANGED = {
    "a threshold": (lambda d: d["thresholds"].__setitem__(0, -9.0), "must run what its certificate chose"),
    "no thresholds": (lambda d: d.update(thresholds=[]), "must run what its certificate chose"),
    "the order of models": (lambda d: d["models"].reverse(), "must run what its certificate chose"),
    "no models": (lambda d: d.pop("models"), "incomplete or malformed"),
    "the certificate": (lambda d: d["certificate"].update(guaranteed=False), "must agree with itself"),
    "an unknown kind": (lambda d: d.update(kind="casca$e"), "of a policy must be"),
    "shares above 1": (lambda d: d.update(shares=[0.5, 0.6]), "of a policy must be"),
    "a share below 0": (lambda d: d.update(shares=[2, -1]), "of a policy must be"),
    "one share of two": (lambda d: d.update(shares=[0.5]), "of a policy must be"),
    "the schema": (lambda d: d.update(schema="x"), "schema 'riskfront.policy'"),
    "the schema version": (lambda d: d.update(schema_version=7), "schema version 1; got 7"),
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_file_that_was_changed_is_refused(cascaded, tmp_path, case):
    change, words = CHANGED[case]
    data = json.loads(json.dumps(cascaded[3].to_dict()))
    change(data)
    (tmp_path / "p.json").write_text(json.dumps(data))
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.Policy.load(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text()) == data


@pytest.mark.slow
def test_nothing_certified_gives_no_policy():
    cascade = rf.Cascade(simulated_runs(n=100), confidence="confidence", thresholds=2)
    certificate = rf.calibrate(cascade.table(), rf.Problem(["score >= 0.999"], minimize="cost"))
    with pytest.raises(rf.NotCertifiedError):
        cascade.policy(certificate)
