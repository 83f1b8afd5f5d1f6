"""The doors through which runs of language models go: cascades, with what they learn and with judged answers, and check on the
log of a policy at work."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import riskfront as rf
from riskfront._data.logs.runs import Runs
from tests.support.command_line import riskfront
from tests.support.simulation import Suite, one_by_one

RIGHT = {"small": 0.5, "large": 0.7}
LIMIT, N, FEATURES, FRESH = 0.05, 800, 120, 5000
PROMPTS, LONG = 500, 60
HAIR, LABELLED, REQUESTS, COPIED = 1e-6, 300, 400, 150
TIMES, NOISE, JUDGED = 8, 3.0, 10


def learnt_from_noise(trial: int) -> bool:
    """Features say nothing of the answers, so each answer of the small model costs .2; the examples that a confidence was
    learnt from say otherwise, because it knows them by heart."""
    rng = np.random.default_rng([61, trial])
    names = [f"f{k}" for k in range(FEATURES)]
    known = rng.standard_normal((N, FEATURES))
    examples = pd.DataFrame(known, columns=names).assign(example=np.arange(N))
    score = np.stack([rng.random(N) < right for right in RIGHT.values()]).astype(float)
    cost = np.tile(np.array([[1.0], [10.0]]), (1, N))
    runs = Runs(pd.DataFrame({"model": list(RIGHT)}), examples[["example", *names]], {"score": score, "cost": cost})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cascade = rf.Cascade(runs, confidence=rf.LearntConfidence(names), thresholds=10, seed=trial)
        problem = rf.Problem([f"score drop <= {LIMIT}"], minimize="cost", reference="large")
        certificate = rf.calibrate(cascade.table(), problem, seed=trial)
    fresh = dict(zip(names, rng.standard_normal((FEATURES, FRESH)), strict=True))
    return any(_true_drop(cascade, config, fresh) > LIMIT for config in certificate.certified.to_dict("records"))


def _true_drop(cascade: rf.Cascade, config: dict, fresh: dict) -> float:  # type: ignore[type-arg]
    first, *rest = str(config["models"]).split(" > ")
    assert isinstance(cascade.confidence, rf.LearntConfidence)
    trusted = float((cascade.confidence.of(first, fresh) >= config["threshold 1"]).mean()) if rest else 1.0
    right = trusted * RIGHT[first] + (1 - trusted) * RIGHT[rest[0] if rest else first]
    return RIGHT["large"] - right


def gain_of_noise(kind: type[rf.Cascade], seed: int) -> Callable[[int], bool]:
    """Nothing that is known of a prompt or an answer says which model is right, but the logs hold the outcome
    twice, under other names. A setting that cannot be run on new prompts, which have no outcome, is a miss too."""

    def miss(trial: int) -> bool:
        rng = np.random.default_rng([seed, trial])
        score = np.stack([rng.random(PROMPTS) < right for right in RIGHT.values()]).astype(float)
        examples = pd.DataFrame({"example": np.arange(PROMPTS), "vector": list(rng.standard_normal((PROMPTS, LONG)))})
        examples["target"] = score[1] - score[0]
        said = {"cost": np.array([[1.0], [10.0]]) * (1 + rng.random((2, PROMPTS))), "logprob": rng.random((2, PROMPTS))}
        runs = Runs(pd.DataFrame({"model": list(RIGHT)}), examples, {"score": score, **said, "exact_match": score})
        made = kind(runs, thresholds=6, seed=trial)
        problem = rf.Problem([f"score drop <= {LIMIT}"], minimize="cost", reference="large")
        certificate = rf.calibrate(made.table(), problem, method=made.method_for(problem), seed=trial)
        fresh = {"vector": list(rng.standard_normal((FRESH, LONG)))}
        new = {"logprob": rng.random(FRESH)}
        try:
            return any(
                _drop_by_gain(made, config, fresh, new) > LIMIT for config in certificate.certified.to_dict("records")
            )
        except (KeyError, rf.InvalidInputError):
            return True

    return miss


def _drop_by_gain(made: rf.Cascade, config: dict, fresh: dict, said: dict) -> float:  # type: ignore[type-arg]
    """The true drop: .2 for each prompt that the small model answers."""
    gain, level = made.confidence, config["least gain a dollar"]
    assert isinstance(gain, rf.LearntGain)
    if level == "none":
        return RIGHT["large"] - RIGHT[str(config["models"])]
    scores, prices = gain.before(fresh)
    start = str(config["models"]).split(" > ")[0] if made.kind == "cascade" else None
    if start is not None:
        scores = gain.after(start, scores, said)
        prices[gain.models.index(start)] = 0.0
    small = (scores - float(level) * prices).argmax(axis=0) == gain.models.index("small")
    return float(small.mean()) * (RIGHT["large"] - RIGHT["small"])


def judged(trial: int) -> bool:
    """Few labels and many judged answers. The small model answers half of the prompts, and breaks the limit by a hair; the
    judge sees most of its errors."""
    rng = np.random.default_rng([64, trial])
    here, there = _judged_runs(rng, "labelled", LABELLED), _judged_runs(rng, "judged", 4 * LABELLED)
    del there.values["score"]  # type: ignore[attr-defined]
    made = rf.Cascade(here, confidence="confidence", thresholds=[0.5])
    problem = rf.Problem([f"score drop <= {LIMIT} proxy judge"], minimize="cost", reference="large")
    others = made.unlabelled(there, ["judge"])
    certificate = rf.calibrate(made.table(also=["judge"]), problem, seed=trial, unlabelled=others)
    return bool(certificate.certified["models"].isin(["small", "small > large"]).any())


def _judged_runs(rng: np.random.Generator, name: str, n: int) -> Runs:
    score = np.stack([rng.random(n) < RIGHT["large"] - 2 * (LIMIT + HAIR), rng.random(n) < RIGHT["large"]])
    values = {
        "score": score.astype(float),
        "judge": np.where(rng.random((2, n)) < 0.95, score, ~score).astype(float),
        "cost": np.tile(np.array([[1.0], [10.0]]), (1, n)),
        "confidence": np.stack([rng.random(n), np.ones(n)]),
    }
    return Runs(
        pd.DataFrame({"model": list(RIGHT)}), pd.DataFrame({"example": [f"{name} {k}" for k in range(n)]}), values
    )


def at_work(trial: int) -> bool:
    """The log of a policy at work: one answer a request, nobody answers one in five, and the reference is asked on every
    second request, by a coin. By turns the limit is broken by a hair, and "holds" is wrong, or kept by a hair, and "broken" is.
    """
    rng, broken = np.random.default_rng([65, trial]), trial % 2 == 0
    nobody, right = rng.random(REQUESTS) < 0.2, 0.9 - (0.3 + (HAIR if broken else -HAIR))
    score = np.where(nobody, 0.0, (rng.random(REQUESTS) < right / 0.8).astype(float))
    log = pd.DataFrame({"id": [f"{trial}-{k}" for k in range(REQUESTS)], "score": np.where(nobody, np.nan, score)})
    log["model"] = np.where(nobody, None, np.where(rng.random(REQUESTS) < 0.5, "small", "large"))
    log["score of large"] = np.where(rng.random(REQUESTS) < 0.5, rng.random(REQUESTS) < 0.9, np.nan)
    with tempfile.TemporaryDirectory() as folder:
        log.to_json(f"{folder}/requests.jsonl", orient="records", lines=True)
        _policy().save(f"{folder}/policy.json")
        done = riskfront("check", f"{folder}/policy.json", f"{folder}/requests.jsonl", "--json")
    return str(json.loads(done.stdout)["says"]) == ("holds" if broken else "broken")


@lru_cache
def _policy() -> rf.Policy:
    """A policy whose certificate allows a drop of .3."""
    settings = [{"models": "small > large", "threshold 1": 0.5}, {"models": "large", "threshold 1": "none"}]
    table = rf.LossTable(settings, {"score": np.ones((2, 300)), "cost": [[1] * 300, [10] * 300]})
    problem = rf.Problem(["score drop <= 0.3"], minimize="cost", reference="large")
    return rf.Policy("cascade", ("small", "large"), (0.5,), "confidence", (0.5, 0.5), rf.calibrate(table, problem))


def copied_under_other_names(trial: int) -> bool:
    """Every prompt comes eight times, under other names, with the same answers. The small model breaks the limit by a hair."""
    rng = np.random.default_rng([66, trial])
    score = np.stack([rng.random(COPIED) < RIGHT["large"] - LIMIT - HAIR, rng.random(COPIED) < RIGHT["large"]])
    score = np.tile(score.astype(float), 8)
    names = [f"{which} {k}" for which in range(8) for k in range(COPIED)]
    examples = pd.DataFrame({"example": names, "prompt": [f"Is {trial} more than {k}?" for k in range(COPIED)] * 8})
    examples["length"] = examples["prompt"].str.len()
    cost = np.tile(np.array([[1.0], [10.0]]), (1, 8 * COPIED))
    runs = Runs(pd.DataFrame({"model": list(RIGHT)}), examples, {"score": score, "cost": cost})
    problem = rf.Problem([f"score drop <= {LIMIT}"], minimize="cost", reference="large")
    try:
        made = rf.Router(runs, confidence=rf.LearntConfidence(["length"]), thresholds=[2.0])
        certificate = rf.calibrate(made.table(), problem, seed=trial)
    except rf.InvalidInputError:
        return False
    return bool(certificate.certified["models"].eq("small").any())


def imported_twice(trial: int) -> bool:
    """The same in a file that import wrote, which is calibrated as a table."""
    rng = np.random.default_rng([72, trial])
    score = np.stack([rng.random(COPIED) < RIGHT["large"] - LIMIT - HAIR, rng.random(COPIED) < RIGHT["large"]])
    score = np.tile(score.astype(float), 30)
    examples = pd.DataFrame({"example": [f"{which} {k}" for which in range(30) for k in range(COPIED)]})
    examples["prompt"] = [f"Is {trial} more than {k}?" for k in range(COPIED)] * 30
    values = {"score": score, "cost": np.array([[1.0], [10.0]]) * np.ones(score.shape)}
    problem = rf.Problem([f"score drop <= {LIMIT}"], minimize="cost", reference="large")
    with tempfile.TemporaryDirectory() as folder:
        Runs(pd.DataFrame({"model": list(RIGHT)}), examples, values).save(f"{folder}/runs.parquet")
        try:
            certificate = rf.calibrate(f"{folder}/runs.parquet", problem, seed=trial)
        except rf.InvalidInputError:
            return False
    return bool(certificate.certified["model"].eq("small").any())


def answers_with_names_of_their_own(trial: int) -> bool:
    """Every prompt is asked twelve times, under other names: answers differ, and hard prompts stay hard. The small model breaks
    the limit by a hair."""
    rng, prompts, times = np.random.default_rng([68, trial]), 60, 12
    hard = np.tile(rng.random(prompts) < (1 - RIGHT["large"] + LIMIT + HAIR) / 0.95, times)
    right = np.stack([np.where(hard, 0.05, 1.0), np.full(prompts * times, RIGHT["large"])])
    score = (rng.random(right.shape) < right).astype(float)
    names = [f"{which} {k}" for which in range(times) for k in range(prompts)]
    examples = pd.DataFrame(
        {"example": names, "prompt": [f"Is {trial} more than {k}?" for k in range(prompts)] * times}
    )
    examples["length"] = examples["prompt"].str.len()
    cost = np.tile(np.array([[1.0], [10.0]]), (1, prompts * times))
    runs = Runs(pd.DataFrame({"model": list(RIGHT)}), examples, {"score": score, "cost": cost})
    problem = rf.Problem([f"score >= {RIGHT['large'] - LIMIT}"], minimize="cost")
    try:
        made = rf.Router(runs, confidence=rf.LearntConfidence(["length"]), thresholds=[2.0])
        certificate = rf.calibrate(made.table(), problem, seed=trial)
    except rf.InvalidInputError:
        return False
    return bool(certificate.certified["models"].eq("small").any())


def other_questions(trial: int) -> bool:
    """The ids of one log name other questions than those of the other. On easy prompts, of which the small model is sure, the
    large one is far better, which answers to other questions do not show."""
    rng, easy = np.random.default_rng([67, trial]), np.arange(2 * COPIED) % 2 == 0
    right = {"small": np.where(easy, 0.7, 0.2), "large": np.where(easy, 0.95, 0.25)}
    with tempfile.TemporaryDirectory() as folder:
        for model, chance in right.items():
            asked = rng.permutation(len(easy)) if model == "large" else np.arange(len(easy))
            samples = [
                {
                    "id": f"q{k}",
                    "epoch": 1,
                    "input": f"Question {question}?",
                    "target": "",
                    "scores": {"match": {"value": "C" if rng.random() < chance[question] else "I"}},
                    "output": {
                        "choices": [{"logprobs": {"content": [{"logprob": -0.1 - 1.0 * (not easy[question])}]}}]
                    },
                    "model_usage": {model: {"total_cost": 1.0 if model == "small" else 10.0}},
                }
                for k, question in enumerate(asked)
            ]
            log = {"version": 2, "status": "success", "eval": {"task": "quiz", "model": model}, "samples": samples}
            Path(folder, f"{model}.json").write_text(json.dumps(log))
        try:
            runs = rf.read_runs(folder, "inspect")
        except rf.InvalidInputError:
            return False
    made = rf.Cascade(runs, confidence="logprob", thresholds=[-0.5])
    problem = rf.Problem([f"score drop <= {LIMIT}"], minimize="cost", reference="large")
    certificate = rf.calibrate(made.table(), problem, seed=trial)
    return bool(certificate.certified["models"].isin(["small", "small > large"]).any())


def means_of_several_answers(trial: int) -> bool:
    """Every model answered eight times, and log-probabilities are noisy. A policy that asks once does not decide by their mean:
    it trusts the small model on too many hard prompts."""
    rng, hard = np.random.default_rng([69, trial]), np.arange(2 * COPIED) % 2 == 0
    right = np.stack([np.where(hard, 0.2, 0.95), np.where(hard, 0.9, 0.95)])
    values = {
        "score": rng.binomial(TIMES, right) / TIMES,
        "cost": np.array([[0.1], [10.0]]) * np.ones(right.shape),
        "samples": np.full(right.shape, float(TIMES)),
        "logprob": -5.0 - 2.0 * hard + NOISE / np.sqrt(TIMES) * rng.standard_normal(right.shape),
    }
    runs = Runs(pd.DataFrame({"model": list(RIGHT)}), pd.DataFrame({"example": np.arange(len(hard))}), values)
    made = rf.Cascade(runs, confidence="logprob", thresholds=[-6.0])
    certificate = rf.calibrate(
        made.table(), rf.Problem(["score drop <= 0.12"], minimize="cost", reference="large"), seed=trial
    )
    if not certificate or certificate.config["models"] != "small > large":
        return False
    deviation = NOISE / np.sqrt(made.policy(certificate).needs.samples)
    return bool(0.5 * (0.9 - 0.2) * stats.norm.cdf(-1.0 / deviation) > 0.12)


def judged_copies(trial: int) -> bool:
    """Few judged answers come many times, under other names: the mean of the judge is that of few."""
    rng = np.random.default_rng([70, trial])
    here, few = _judged_runs(rng, "labelled", LABELLED), _judged_runs(rng, "judged", JUDGED)
    examples = pd.concat([few.examples.assign(prompt=few.examples["example"])] * (4 * LABELLED // JUDGED))
    examples["example"] = [f"again {k}" for k in range(len(examples))]
    values = {n: np.tile(v, (1, len(examples) // JUDGED)) for n, v in few.values.items() if n != "score"}
    made = rf.Cascade(here, confidence="confidence", thresholds=[0.5])
    problem = rf.Problem([f"score drop <= {LIMIT} proxy judge"], minimize="cost", reference="large")
    try:
        others = made.unlabelled(Runs(few.settings, examples.reset_index(drop=True), values), ["judge"])
        certificate = rf.calibrate(made.table(also=["judge"]), problem, seed=trial, unlabelled=others)
    except rf.InvalidInputError:
        return False
    return bool(certificate.certified["models"].isin(["small", "small > large"]).any())


def other_questions_in_a_table(trial: int) -> bool:
    """As in logs, in a table that says what was asked."""
    rng, easy = np.random.default_rng([71, trial]), np.arange(2 * COPIED) % 2 == 0
    right = {"small": np.where(easy, 0.7, 0.2), "large": np.where(easy, 0.95, 0.25)}
    parts = []
    for model, chance in right.items():
        asked = rng.permutation(len(easy)) if model == "large" else np.arange(len(easy))
        columns = {
            "model": model,
            "example": np.arange(len(easy)),
            "question": [f"How much is {k} and {k}?" for k in asked],
            "score": (rng.random(len(easy)) < chance[asked]).astype(float),
            "cost": 1.0 if model == "small" else 10.0,
            "logprob": -0.1 - 1.0 * ~easy[asked],
        }
        parts.append(pd.DataFrame(columns))
    with tempfile.TemporaryDirectory() as folder:
        pd.concat(parts).to_csv(f"{folder}/runs.csv", index=False)
        try:
            runs = rf.read_runs(f"{folder}/runs.csv")
        except rf.InvalidInputError:
            return False
    made = rf.Cascade(runs, confidence="logprob", thresholds=[-0.5])
    problem = rf.Problem([f"score drop <= {LIMIT}"], minimize="cost", reference="large")
    certificate = rf.calibrate(made.table(), problem, seed=trial)
    return bool(certificate.certified["models"].isin(["small", "small > large"]).any())


SUITES = [
    Suite("calibrate: an imported log that was copied", one_by_one(imported_twice), 100),
    Suite("cascade: means over several answers", one_by_one(means_of_several_answers), 40),
    Suite("cascade: judged answers that were copied", one_by_one(judged_copies), 400),
    Suite("cascade: other questions in a table", one_by_one(other_questions_in_a_table), 20),
    Suite("router: a log copied under other names", one_by_one(copied_under_other_names), 100),
    Suite("router: several answers to one prompt", one_by_one(answers_with_names_of_their_own), 200),
    Suite("cascade: other questions under one id", one_by_one(other_questions), 20),
    Suite("cascade: few labels and a judge", one_by_one(judged), 160),
    Suite("check: a policy at work", one_by_one(at_work), 120),
    Suite("cascade: a confidence learnt from noise", one_by_one(learnt_from_noise), 200, needs="sklearn"),
    Suite("router: a gain learnt from noise", one_by_one(gain_of_noise(rf.Router, 62)), 100),
    Suite("cascade: a gain learnt from noise", one_by_one(gain_of_noise(rf.Cascade, 63)), 100),
]
