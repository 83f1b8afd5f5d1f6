"""What a policy reads when it runs: the same numbers as in the logs, from requests and responses."""

import asyncio
import json

import numpy as np
import pytest

import riskfront as rf
from riskfront._cascades.replay import replay
from riskfront._cascades.run_time import Needs
from riskfront._data.logs.responses import measured
from riskfront.serving import Service
from tests.cascades.serving.rig import PRICES, certified, record
from tests.support.command_line import riskfront
from tests.support.runs import simulated_runs


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return record(tmp_path_factory.mktemp("recorded"), n=500)


def completion(answer):
    tokens = [{"token": "x", "logprob": value} for value in answer["logprobs"]]
    message = {"role": "assistant", "content": answer["text"]}
    return {"choices": [{"message": message, "logprobs": {"content": tokens}}], "usage": answer["usage"]}


def price(name, reply):
    usage = reply["usage"]
    by_input, by_output = (PRICES[name][kind] for kind in ("per_million_input", "per_million_output"))
    return 1e-6 * (by_input * usage["prompt_tokens"] + by_output * usage["completion_tokens"])


def replayed(recorded):
    answers = {name: json.loads(path.read_text())["answers"] for name, path in recorded.answers.items()}
    return {name: lambda prompt, own=own: completion(own[prompt]) for name, own in answers.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "confidence"),
    [
        (rf.Cascade, "logprob"),
        (rf.Cascade, rf.LearntConfidence(["logprob", "tokens", "prompt_chars"])),
        (rf.Router, rf.LearntConfidence(["prompt_chars"])),
        (rf.Cascade, rf.LearntGain()),
        (rf.Router, rf.LearntGain()),
    ],
)
def test_responses_are_decided_on_as_the_logs_were(recorded, kind, confidence):
    """Nothing is given but the prompt and responses as providers write them; every decision is the certified one."""
    policy, trace = certified(recorded, kind, confidence, drop=0.15 if kind is rf.Cascade else 0.09)
    assert policy.needs.supplied == ()
    models, seen = replayed(recorded), set()
    for question, (calls, cost) in trace.items():
        found = policy.route(question, models)
        assert len(found.called) == calls
        assert sum(price(name, models[name](question)) for name in found.called) == pytest.approx(cost)
        seen.add(found.model)
    assert seen == {"small", "large"}


def test_a_response_without_the_number_is_not_trusted(recorded):
    policy, _ = certified(recorded, drop=0.15)
    bare = completion({"text": "a", "logprobs": [], "usage": None})
    del bare["choices"][0]["logprobs"]
    assert policy.route("?", {"small": lambda p: bare, "large": lambda p: "b"}).model == "large"
    with pytest.raises(rf.InvalidInputError, match="must say how sure it is"):
        policy.route("?", {"small": lambda p: "a", "large": lambda p: "b"})


@pytest.mark.parametrize("name", ["latency", "cost", "score"])
def test_what_only_an_evaluation_knows_is_refused(name):
    runs = simulated_runs(latency=np.ones((3, 400)))
    for confidence in (name, rf.LearntConfidence(["length", name])):
        with pytest.raises(rf.InvalidInputError, match=f"known where the policy runs; '{name}' is not"):
            rf.Cascade(runs, confidence=confidence)


def agreeing(n=400, samples=3):
    """Runs of repeated answers, as promptfoo logs them."""
    rng = np.random.default_rng(0)
    agreement = rng.integers(1, samples + 1, (3, n)) / samples
    return simulated_runs(n=n, agreement=agreement, samples=np.full((3, n), float(samples)))


def test_agreement_asks_a_model_as_often_as_it_was_asked_in_the_logs(tmp_path):
    cascade = rf.Cascade(agreeing(), confidence="agreement", thresholds=[0.6])
    table = cascade.table()
    certificate = rf.calibrate(table, rf.Problem("score drop <= 0.6", minimize="calls", reference="m2"))
    policy = rf.Policy("cascade", ("m0", "m2"), (0.6,), "agreement", (0.5, 0.5), certificate, None, 3)
    assert cascade._samples([0]) == 3
    assert policy.needs == Needs((), ("agreement",), (), 3)
    said = iter(["yes", "no", "yes", "a", "b", "c"])

    def model(prompt):
        return completion({"text": next(said), "logprobs": [], "usage": None})

    models = {"m0": model, "m2": lambda prompt: "the last"}
    first = policy.route("?", models)
    assert (first.model, first.confidence) == ("m0", pytest.approx(2 / 3))
    assert policy.route("?", models).model == "m2"  # a, b, c: a third agrees

    async def waits(prompt):
        return model(prompt)

    said = iter(["yes", "yes", "yes"])
    assert asyncio.run(policy.aroute("?", {**models, "m0": waits})).confidence == 1


def answered_twice(n=400, odd=0):
    """Runs of two answers each, and of ``odd`` examples on which the first model gave one."""
    samples = np.full((3, n), 2.0)
    samples[0, :odd] = 1
    return simulated_runs(n=n, samples=samples)


def test_a_mean_over_several_answers_is_asked_for_as_often():
    """One answer is not as sure as the mean of two, of which thresholds were certified."""
    cascade = rf.Cascade(answered_twice(), confidence="confidence", thresholds=[0.5])
    single = rf.Cascade(simulated_runs(n=400), confidence="confidence", thresholds=[0.5])
    row = cascade.row_of({"models": "m0 > m2", "threshold 1": 0.5})
    first = cascade.runs.value("cost")[0]
    np.testing.assert_allclose(cascade.table().losses("cost")[row] - single.table().losses("cost")[row], first)
    certificate = rf.calibrate(cascade.table(), rf.Problem("score drop <= 0.6", minimize="calls", reference="m2"))
    assert cascade._samples([0]) == 2
    policy = rf.Policy("cascade", ("m0", "m2"), (0.5,), "confidence", (0.5, 0.5), certificate, None, 2)
    for said, model in ((["a", 0.9], ["b", 0.2]), "m0"), ((["a", 0.9], ["b", 0.0]), "m2"):
        replies = iter(said)
        found = policy.route("?", {"m0": lambda p, r=replies: tuple(next(r)), "m2": lambda p: "the last"})
        assert found.model == model
    sure = iter([0.9, 0.2])
    models = {"m0": lambda p: "a", "m2": lambda p: "b"}
    found = policy.route("?", models, confidence=lambda prompt, answer, model: next(sure))
    assert (found.model, found.confidence) == ("m0", pytest.approx(0.55))
    assert policy.needs.lines()[-1] == "each model but the last is asked 2 times, as in the logs"


def test_an_example_that_was_asked_less_often_counts_as_the_worst():
    cascade = rf.Cascade(answered_twice(odd=40), confidence="confidence", thresholds=[0.5])
    _, missing = cascade._outcomes.column("score")
    row = cascade.row_of({"models": "m0 > m2", "threshold 1": 0.5})
    lacks = missing[np.array([row])][0]
    assert lacks.tolist() == [k < 40 for k in range(400)]
    last = cascade.row_of({"models": "m2 > m0", "threshold 1": 0.5})
    assert not missing[np.array([last])].any()  # nobody asks the last one how sure it is


def test_a_check_needs_logs_that_asked_as_often():
    certificate = rf.calibrate(
        rf.Cascade(answered_twice(), confidence="confidence", thresholds=[0.5]).table(),
        rf.Problem("score drop <= 0.6", minimize="calls", reference="m2"),
    )
    policy = rf.Policy("cascade", ("m0", "m2"), (0.5,), "confidence", (0.5, 0.5), certificate, None, 2)
    replay(policy, answered_twice())
    with pytest.raises(rf.InvalidInputError, match="by 2 answers of m0 to each prompt; these runs hold 1"):
        replay(policy, simulated_runs(n=400))


def test_empty_answers_agree_as_in_logs():
    empty, yes = ({"choices": [{"message": {"content": text}}]} for text in ("", "yes"))
    assert measured([yes, empty, yes])["agreement"] == pytest.approx(2 / 3)
    assert measured([empty, empty])["agreement"] == 1
    assert measured([{"choices": [{"message": {"content": None}}]}]) == {"response_chars": 0}
    assert measured([{"choices": [{"message": {"content": None, "tool_calls": [{"id": "f"}]}}]}]) == {}


def test_failed_samples_agree_with_none():
    one = completion(
        {"text": "yes", "logprobs": [-1.0], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
    )
    assert measured([one, one, None])["agreement"] == pytest.approx(2 / 3)
    assert "logprob" not in measured([one, None])  # a mean with an unknown part is unknown
    assert measured([one]) == {"logprob": -1.0, "response_chars": 3, "input_tokens": 1, "output_tokens": 2, "tokens": 3}


def test_inspect_lists_what_people_must_supply(tmp_path):
    cascade = rf.Router(simulated_runs(n=2500), confidence=rf.LearntConfidence(["length", "task"]), thresholds=6)
    problem = rf.Problem(["score drop <= 0.08"], minimize="cost", reference="m2")
    policy = cascade.policy(rf.calibrate(cascade.table(), problem))
    policy.save(tmp_path / "policy.json")
    done = riskfront("inspect", tmp_path / "policy.json")
    assert done.returncode == 0, done.stderr
    assert "length: you must supply it with every request (about=)" in " ".join(done.stdout.split())
    found = json.loads(riskfront("inspect", tmp_path / "policy.json", "--json").stdout)
    assert found["needs"]["supplied"] == ["length", "task"]


@pytest.mark.slow
def test_a_number_of_an_answer_is_not_given_with_a_request():
    """Whoever asks could choose the model by it, and one number for all models is that of none."""
    runs = simulated_runs(n=2500)
    problem = rf.Problem(["score drop <= 0.08"], minimize="cost", reference="m2")
    for confidence in (rf.LearntConfidence(["length", "confidence"]), rf.LearntGain(["length", "confidence"])):
        cascade = rf.Cascade(runs, confidence=confidence, thresholds=6)
        policy = cascade.policy(rf.calibrate(cascade.table(), problem))
        assert (policy.needs.supplied, policy.needs.answers) == (("length",), ("confidence",))
        models = {name: lambda prompt: {"answer": "yes", "confidence": 0.9} for name in policy.models}
        assert policy.route("?", models, about={"length": 10}).answer == "yes"
        with pytest.raises(rf.InvalidInputError, match="'length' must be a number, as in the logs; got 'long'"):
            policy.route("?", models, about={"length": "long"})
        with pytest.raises(rf.InvalidInputError, match="'confidence' is known with an answer"):
            policy.route("?", models, about={"length": 10, "confidence": 1.0})
        entries = {name: {"model": f"openai/{name}"} for name in policy.models}
        with pytest.raises(rf.InvalidInputError, match="decides by 'confidence' beside other numbers"):
            Service(policy, {"models": entries})


@pytest.mark.slow
def test_a_request_cannot_say_another_length_of_its_prompt_than_it_has(recorded):
    """A client could choose the model that answers by it."""
    policy, trace = certified(recorded, rf.Router, rf.LearntConfidence(["prompt_chars"]), drop=0.09)
    question, models = next(iter(trace)), replayed(recorded)
    with pytest.raises(rf.InvalidInputError, match="'prompt_chars' is computed from the request"):
        policy.route(question, models, about={"prompt_chars": 1})
    same = policy.route(question, models, about={"prompt_chars": len(question)})
    assert same.model == policy.route(question, models).model
