"""cascade on the command line: from runs to a policy in a folder."""

import json

import numpy as np
import pytest

import riskfront as rf
from tests.cli.test_cli import riskfront
from tests.support.runs import simulated_runs

LIMIT = ["--limit", "score drop <= 0.08", "--reference", "m2", "--minimize", "cost"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    simulated_runs(n=2500).save(path / "runs.parquet")
    runs = simulated_runs(n=2500)
    del runs.values["confidence"]
    runs.save(path / "bare.parquet")
    return path


def test_a_policy_is_written(folder, tmp_path):
    done = riskfront("cascade", folder / "runs.parquet", *LIMIT, "--out", tmp_path / "policy", "--export", "litellm")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "score drop from m2 (signed) stays at or below 8 %" in text
    assert "confidence: confidence; 250 more examples set aside" in text
    assert "Answered by: " in text
    policy = rf.Policy.load(tmp_path / "policy" / "policy.json")
    assert policy.models[-1] == "m2"
    assert rf.Certificate.load(tmp_path / "policy" / "certificate.json").config == policy.certificate.config
    assert (tmp_path / "policy" / "report.html").stat().st_size > 10_000
    assert (
        json.loads((tmp_path / "policy" / "litellm.json").read_text())["model_list"][0]["model_name"]
        == policy.models[0]
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "confidence: learnt from task, length, cost; 500 more examples"),
        (["--router"], "routers of up to 2 of 3 models x 2,000 examples; confidence: learnt from task, length"),
        (["--router", "--confidence", "length", "--thresholds", "20,50,80"], "confidence: length; 0 more examples"),
        (
            ["--stages", "3", "--thresholds", "4", "--models", "m1,m2", "--confidence", "length"],
            "10 cascades of up to 2 of 2",
        ),
        (["--where", "task == hard", "--aside", "0.3"], "confidence: learnt from length, cost"),
    ],
)
def test_what_is_offered_is_said(folder, options, words):
    done = riskfront("cascade", folder / "bare.parquet", *LIMIT, *options)
    assert done.returncode in (0, 1), done.stderr
    assert words in " ".join(done.stdout.split())


def test_nothing_certified_writes_no_policy(folder, tmp_path):
    done = riskfront(
        "cascade", folder / "runs.parquet", "--limit", "score >= 0.99", "--minimize", "cost", "--out", tmp_path / "p"
    )
    assert done.returncode == 1
    assert not (tmp_path / "p" / "policy.json").exists()
    assert (tmp_path / "p" / "certificate.json").exists()


def test_numbers_for_machines(folder):
    found = json.loads(riskfront("cascade", folder / "runs.parquet", *LIMIT, "--binary", "score", "--json").stdout)
    assert found["settings"] == 3 + 6 * 20
    assert sum(found["shares"]) == pytest.approx(1)
    assert len(found["thresholds"]) == len(found["models"]) - 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([*LIMIT[:3], "m9", *LIMIT[4:]], "exactly one setting; 'm9' stands for none"),
        ([*LIMIT, "--confidence", "sureness"], "no 'sureness'"),
        ([*LIMIT, "--thresholds", "many"], "--thresholds must hold numbers"),
        ([*LIMIT, "--export", "envoy"], "no format 'envoy'"),
        ([*LIMIT, "--binary", "cost"], "only 0 and 1"),
        ([*LIMIT, "--where", "score == 1"], "'score' is an outcome"),
    ],
)
def test_what_is_wrong_is_one_line(folder, options, words):
    done = riskfront("cascade", folder / "runs.parquet", *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_repeated_answers_are_a_confidence(tmp_path):
    agreement = np.random.default_rng(0).integers(1, 6, (3, 800)) / 5
    runs = simulated_runs(n=800, agreement=agreement, samples=np.full((3, 800), 5.0))
    del runs.values["confidence"]
    runs.save(tmp_path / "runs.parquet")
    done = riskfront("cascade", tmp_path / "runs.parquet", *LIMIT)
    assert "confidence: agreement" in " ".join(done.stdout.split())
