"""Routes by predicted gain a dollar: learnt from what may be known, the same alone as in a matrix, and as in the table."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import riskfront as rf
from riskfront._cascades import features, gain, words
from riskfront._cascades.confidence import same_for_all
from riskfront._cascades.replay import replay
from riskfront._data.logs.runs import Runs
from tests.support.command_line import riskfront

pytestmark = pytest.mark.slow


def tasks(seed=0, n=1000, failing=False):
    """Three models and three kinds of prompts, each of which one model is best for by its gain a dollar."""
    rng = np.random.default_rng([seed, 8])
    kind = rng.integers(0, 3, n)
    right = np.array([[0.9, 0.3, 0.2], [0.9, 0.9, 0.3], [0.9, 0.9, 0.85]])
    score = (rng.random((3, n)) < right[:, kind]).astype(float)
    words_of = np.array(["add these numbers", "translate this sentence", "prove this theorem"])
    prompt = [f"{words_of[k]} please {rng.integers(10**6)}" for k in kind]
    examples = pd.DataFrame(
        {
            "example": [f"x{i}" for i in range(n)],
            "prompt": prompt,
            "topic": [f"t{k}{rng.integers(30)}" for k in kind],
            "target": [str(rng.integers(2)) for _ in kind],
            "constant": 1.0,
            "vector": list(rng.standard_normal((n, 4)) + kind[:, None]),
        }
    )
    values = {
        "score": score,
        "cost": np.array([[1.0], [12.0], [25.0]]) * (0.8 + 0.4 * rng.random((3, n))),
        "logprob": np.where(score == 1, -0.2, -1.0) * (0.5 + rng.random((3, n))),
        "output_tokens": np.where(score == 1, 20, 40) + rng.integers(0, 30, (3, n)).astype(float),
        "exact_match": score,
        "latency": rng.random((3, n)),
    }
    if failing:
        values["failed"] = (rng.random((3, n)) < 0.1).astype(float)
        values["score"] = np.where(values["failed"] == 1, 0.0, score)
    return Runs(pd.DataFrame({"model": ["small", "middle", "large"]}), examples, values)


def by_hand(made, config, i):
    """(who answers, who was called) of one setting on one example, by predictions for this example alone."""
    gain, runs = made.confidence, made.runs
    failed = runs.values["failed"][:, i] == 1 if "failed" in runs.values else np.zeros(3, dtype=bool)
    models = str(config["models"])
    if config["least gain a dollar"] == "none":
        return models, [models]
    start = models.split(" > ")[0] if " > " in models else None
    level = float(config["least gain a dollar"])
    scores, prices = gain.before({name: column[i : i + 1] for name, column in gain.known_of(runs).items()})
    called = []
    if start is not None:
        said = {name: column[i : i + 1] for name, column in gain.said_by(runs, start).items()}
        called.append(start)
        if not failed[runs.row(start)]:
            after = gain.after(start, scores, said)
            own = after[gain.models.index(start), 0]
            others = [after[k, 0] - level * prices[k, 0] for k, name in enumerate(gain.models) if name != start]
            if own >= max(others):
                return start, called
            scores = after
    left = [name for name in gain.models if name != start]
    while True:
        worth = {name: scores[gain.models.index(name), 0] - level * prices[gain.models.index(name), 0] for name in left}
        name = max(left, key=lambda one: worth[one])
        called.append(name)
        if not failed[runs.row(name)] or name == left[-1]:
            return name, called
        left = left[left.index(name) + 1 :]


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("kind", [rf.Router, rf.Cascade])
def test_every_setting_does_what_a_plain_loop_does(kind, failing):
    made = kind(tasks(n=300, failing=failing), thresholds=4)
    table = made.table(reference="large")
    score, cost = made.runs.value("score"), made.runs.value("cost")
    for row in range(table.n_configs):
        for i in range(0, table.n_examples, 3):
            name, called = by_hand(made, table.config(row), i)
            assert table.losses("score")[row, i] == score[made.runs.row(name), i]
            rows = [made.runs.row(each) for each in called]
            assert table.losses("cost")[row, i] == pytest.approx(cost[rows, i].sum())
            assert table.losses("calls")[row, i] == len(called)


@pytest.mark.filterwarnings("ignore:.*outcomes that limits need are missing")
@pytest.mark.parametrize("learner", ["linear", "boosted"])
@pytest.mark.parametrize("kind", [rf.Router, rf.Cascade])
def test_a_saved_policy_decides_as_the_certified_table(kind, learner, tmp_path):
    runs = tasks(failing=True)
    made = kind(runs, confidence=rf.LearntGain(learner=learner), thresholds=8)
    certificate = rf.calibrate(made.table(), rf.Problem("score drop <= 0.1", minimize="cost", reference="large"))
    policy, at = made.answered(certificate)
    assert len(policy.models) == 3
    policy.save(tmp_path / "policy.json")
    loaded = rf.Policy.load(tmp_path / "policy.json")
    row = made.row_of(certificate.config)
    table, kept = made.table(), made.runs

    def model(name, i):
        def call(prompt):
            if kept.values["failed"][kept.row(name), i] == 1:
                raise TimeoutError("no reply")
            said = {key: kept.value(key)[kept.row(name), i] for key in ("cost", "logprob", "output_tokens")}
            return {"answer": name, **said}

        return call

    for i in range(0, kept.n_examples, 7):
        about = {key: kept.examples[key].iloc[i] for key in ("topic", "vector")}
        calls = {name: model(name, i) for name in kept.names}
        try:
            answer = loaded.route(kept.examples["prompt"].iloc[i], calls, about=about)
        except rf.RiskfrontError:
            assert kept.values["failed"][kept.row(policy.models[at[i]]), i] == 1
            continue
        assert answer.model == policy.models[at[i]]
        assert len(answer.called) == table.losses("calls")[row, i]
    again = replay(replace(loaded, example_fingerprints=None), kept)
    np.testing.assert_allclose(again.losses("score")[0], table.losses("score")[row])
    np.testing.assert_allclose(again.losses("cost")[0], table.losses("cost")[row])


def test_what_may_be_known_is_used_and_the_rest_is_named():
    router, cascade = rf.Router(tasks()), rf.Cascade(tasks())
    assert set(router.confidence.features) == {"prompt", "topic", "vector"}
    assert set(cascade.confidence.features) == {"prompt", "topic", "vector", "logprob", "output_tokens"}
    left = cascade.confidence.left_out
    assert "gold label" in left["target"]
    assert "outcome" in left["score"]
    assert "outcome" in left["exact_match"]
    assert left["constant"] == "the same everywhere"
    assert "how busy the evaluation was" in left["latency"]
    assert "not their price" in left["cost"]
    assert "only known with an answer" in router.confidence.left_out["logprob"]
    said = " ".join(words.what_decides(cascade))
    assert "learnt from prompt, topic, vector, logprob and output_tokens" in said
    assert "target (its name is that of a gold label" in said


def test_what_is_logged_of_one_model_alone_is_not_known_of_the_prompt():
    values = np.array([[1.0, 2.0, 3.0], [np.nan, np.nan, np.nan]])
    assert not same_for_all(values)
    values[1, :2] = values[0, :2]
    assert same_for_all(values)


def test_gain_is_compared_with_the_trivial_rules_and_beats_them():
    router = rf.Router(tasks(n=2600))
    prices = router.confidence.comparison
    assert set(prices) == {"always", "random", "P(right)", "gain a dollar, linear", "gain a dollar, boosted"}
    best = f"gain a dollar, {router.confidence.fitted['learner']}"
    mean = {rule: np.mean(list(each.values())) for rule, each in prices.items()}
    assert mean[best] < 0.9 * min(mean[rule] for rule in ("always", "random", "P(right)")), prices
    problem = rf.Problem("score drop <= 0.08", minimize="cost", reference="large")
    certificate = rf.calibrate(router.table(), problem)
    by_right = rf.Router(tasks(n=2600), confidence=rf.LearntConfidence(["topic"]))
    other = rf.calibrate(by_right.table(), problem)
    assert certificate.chosen["cost"].iloc[0] < 0.9 * other.chosen["cost"].iloc[0]


def test_trees_as_numbers_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 5))
    y = np.sin(3 * x[:, 0]) + (x[:, 1] > 0) + 0.1 * rng.standard_normal(400)
    fitted, _ = gain.fit_boosted(x, y[None])
    model = HistGradientBoostingRegressor(min_samples_leaf=20, **gain._TREES).fit(x, y)
    fresh = rng.standard_normal((300, 5))
    again = json.loads(json.dumps(fitted))
    np.testing.assert_allclose(gain.predict(again, fresh)[0], model.predict(fresh), atol=1e-12)
    np.testing.assert_array_equal(
        gain.predict(again, fresh)[0], [gain.predict(again, fresh[i : i + 1])[0, 0] for i in range(300)]
    )


def test_one_row_is_predicted_as_in_a_matrix():
    runs = tasks()
    known = features.of_examples(runs, ["prompt", "topic", "vector"])
    gain = rf.Cascade(runs).confidence
    scores, prices = gain.before(known)
    for i in range(0, runs.n_examples, 40):
        alone = gain.before({name: column[i : i + 1] for name, column in known.items()})
        np.testing.assert_array_equal(alone[0][:, 0], scores[:, i])
        np.testing.assert_array_equal(alone[1][:, 0], prices[:, i])


def test_cross_fitted_predictions_do_not_see_their_example():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((200, 300)), rng.random((1, 200))
    for fit in (gain.fit_linear, gain.fit_boosted):
        _, guesses = fit(x[:, :20] if fit is gain.fit_boosted else x, y)
        assert abs(np.corrcoef(guesses[0], y[0])[0, 1]) < 0.25


def test_the_direction_of_one_column_is_learnt():
    """Long answers are worse here: trusting the longest would trust the wrong ones."""
    runs = tasks(n=2000)
    length = 100 - 80 * runs.value("score") + 10 * np.random.default_rng(0).random((3, 2000))
    made = rf.Cascade(
        replace(runs, values={**runs.values, "length": length}), confidence="length", models=["small", "large"]
    )
    short, long = (made.confidence.of("small", {"length": value})[0] for value in (25.0, 105.0))
    assert short > 0.9
    assert long < 0.1
    certificate = rf.calibrate(made.table(), rf.Problem("score drop <= 0.05", minimize="cost", reference="large"))
    policy = made.policy(certificate)
    assert policy.models == ("small", "large")
    calls = {"small": lambda prompt: ("a", 25.0 if prompt == "easy" else 105.0), "large": lambda prompt: "b"}
    assert policy.route("easy", calls).model == "small"
    assert policy.route("hard", calls).model == "large"
    assert words.rule(policy).startswith("Ask small; if it is less than ")


def test_rules_in_words():
    made = rf.Router(tasks(n=2000))
    certificate = rf.calibrate(made.table(), rf.Problem("score drop <= 0.1", minimize="cost", reference="large"))
    said = words.rule_and_saving(made, certificate)
    assert said[0].startswith("A prompt goes to the cheapest model, unless a dearer one is predicted to add at least")
    assert any(text.startswith("Answered by ") for text in said)
    assert any("always asking large has" in text and "The saving is" in text for text in said)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: rf.Cascade(tasks(), confidence=rf.LearntGain(["score"])),
            "'score' is not: it is what the confidence must predict",
        ),
        (lambda: rf.Cascade(tasks(), confidence=rf.LearntGain(["cost"])), "'cost' is not: a response tells the tokens"),
        (lambda: rf.Router(tasks(), confidence=rf.LearntGain(["logprob"])), "only known with an answer"),
        (lambda: rf.Cascade(tasks(), confidence=rf.LearntGain(["colour"])), "there is no 'colour'"),
        (lambda: rf.Cascade(tasks(), confidence=rf.LearntGain(learner="forest")), "no learner 'forest'"),
        (lambda: rf.Cascade(tasks(), confidence=rf.LearntGain(), stages=3), "at most two models"),
        (lambda: rf.Cascade(tasks(), confidence=rf.LearntGain(), thresholds=["much"]), "must be finite numbers"),
        (lambda: rf.Cascade(tasks(), confidence=rf.LearntGain(), thresholds={"small": [1.0]}), "one list for all"),
    ],
)
def test_what_is_wrong_is_said(make, text):
    with pytest.raises(rf.InvalidInputError, match=text):
        make()


def test_equal_prices_have_no_gain_a_dollar():
    runs = tasks()
    same = replace(runs, values={**runs.values, "cost": np.ones((3, runs.n_examples))})
    with pytest.raises(rf.InvalidInputError, match="needs prices"):
        rf.Cascade(same, confidence=rf.LearntGain())
    assert isinstance(rf.Cascade(same, confidence="logprob").confidence, rf.LearntConfidence)


@pytest.mark.parametrize("name", ["choice_logprob", "answer_agreement"])
def test_what_no_response_holds_is_learnt_from_only_if_it_is_named(name):
    """By default a cascade can be served: what it decides by is computed from requests and responses."""
    runs = tasks()
    runs = replace(runs, values={**runs.values, name: runs.values["logprob"]})
    usual = rf.Cascade(runs)
    assert name not in usual.confidence.features
    assert "no response of a model holds it" in usual.confidence.left_out[name]
    assert name in rf.Cascade(runs, confidence=rf.LearntGain(["topic", name])).confidence.features


def test_a_policy_says_what_it_needs(tmp_path):
    made = rf.Router(tasks())
    certificate = rf.calibrate(made.table(), rf.Problem("score drop <= 0.1", minimize="cost", reference="large"))
    policy = made.policy(certificate)
    with pytest.raises(rf.InvalidInputError, match=r"'topic' is not known of the prompt. Give it: about="):
        policy.route("a question", dict.fromkeys(policy.models, str))
    for about, text in (
        ({"topic": "t1", "vector": [1.0, 2.0]}, "'vector' must be a vector of 4 numbers, as in the logs"),
        ({"topic": "t1", "vector": "none"}, "'vector' must be a vector of 4 numbers"),
        ({"topic": "t1", "vector": [1.0, 2.0, 3.0, "x"]}, "'vector' must be a number, as in the logs"),
    ):
        with pytest.raises(rf.InvalidInputError, match=text):
            policy.route("a question", dict.fromkeys(policy.models, str), about=about)
    data = policy.to_dict()
    data["thresholds"] = [data["thresholds"][0] * 2]
    with pytest.raises(rf.InvalidInputError, match="changed after it was made"):
        rf.Policy.from_dict(data)


@pytest.mark.parametrize(
    ("limits", "minimize", "ordered"),
    [
        (["score drop <= 0.05"], "cost", True),
        (["score drop <= 0.05", "score drop <= 0.2 per topic"], "cost", True),
        (["score >= 0.5"], "cost", False),
        (["score drop <= 0.05"], "calls", False),
        (["score drop <= 0.05", "cost <= 20"], "cost", False),
    ],
)
def test_levels_of_a_router_are_tested_in_their_order_where_the_safe_end_is_known(limits, minimize, ordered):
    runs = tasks(n=400)
    problem = rf.Problem(limits, minimize=minimize, reference="large")
    found = rf.Router(runs).method_for(problem)
    assert (found == rf.OrderedKnob(safest={"least gain a dollar": "low"})) is ordered
    assert rf.Cascade(runs).method_for(problem).name == "pareto-testing"


def test_the_order_is_another_where_the_reference_is_not_the_dearest():
    problem = rf.Problem(["score drop <= 0.05"], minimize="cost", reference="middle")
    assert rf.Router(tasks(n=400)).method_for(problem).name == "pareto-testing"


def test_a_router_tested_in_order_uses_all_examples_and_verifies(tmp_path):
    runs = tasks()
    runs.save(tmp_path / "runs.parquet")
    limit = ["--reference", "large", "--limit", "score drop <= 0.05", "--minimize", "cost"]
    done = riskfront("cascade", tmp_path / "runs.parquet", "--router", *limit, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    certificate = rf.Certificate.load(tmp_path / "out" / "certificate.json")
    assert (certificate.method, certificate.n_opt, certificate.n_test) == ("ordered-knob", 0, 800)
    assert certificate.tested["models"].iloc[0] == "large"
    checked = riskfront("verify", tmp_path / "out" / "certificate.json", tmp_path / "runs.parquet")
    assert checked.returncode == 0, checked.stderr
    assert rf.Policy.load(tmp_path / "out" / "policy.json").kind == "router"
