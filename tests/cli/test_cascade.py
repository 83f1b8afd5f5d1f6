"""cascade on the command line: from runs to a policy in a folder."""

import json
from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from riskfront._calibration.certificates.uses_of_test_set import ASKED
from tests.data.logs.made import inspect_log, lines
from tests.support.command_line import riskfront
from tests.support.runs import simulated_runs

pytestmark = pytest.mark.slow

WRITTEN = Path(__file__).parents[1] / "data" / "logs" / "written_by_tools"
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
    done = riskfront("cascade", folder / "runs.parquet", *LIMIT, "--out", tmp_path / "policy")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "score drop from m2 (gains offset losses) stays at or below 8 %" in text
    assert "learnt from task, length and confidence on 500 examples that are set aside" in text
    assert "Answered by " in text
    policy = rf.Policy.load(tmp_path / "policy" / "policy.json")
    assert policy.models[-1] == "m2"
    assert rf.Certificate.load(tmp_path / "policy" / "certificate.json").config == policy.certificate.config
    page = (tmp_path / "policy" / "report.html").read_text()
    for word in (
        "What the rule was learnt from",
        '<th scope="row">P(right)</th>',
        ">always<",
        ">random<",
        "Left out: ",
    ):
        assert word in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "What each model would score and cost is learnt from task and length on 500 examples"),
        (["--rank-by", "right"], "an answer is right, learnt from task and length on 500 examples"),
        (["--router"], "routers of up to 2 of 3 models x 2,000 examples. What each model would score and cost"),
        (["--router", "--confidence", "length", "--thresholds", "20,50,80"], "Confidence: 'length' as it was logged."),
        (
            ["--stages", "3", "--thresholds", "4", "--models", "m1,m2", "--confidence", "length"],
            "10 cascades of up to 2 of 2",
        ),
        (["--where", "task == hard", "--aside", "0.3"], "is learnt from length on"),
    ],
)
def test_what_is_offered_is_said(folder, options, words):
    done = riskfront("cascade", folder / "bare.parquet", *LIMIT, *options)
    assert done.returncode in (0, 1), done.stderr
    assert words in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "options", [[], ["--router", "--thresholds", "5"], ["--confidence", "task,length", "--aside", "0.3"]]
)
def test_a_certificate_is_recomputed_from_the_runs(folder, tmp_path, options):
    riskfront("cascade", folder / "runs.parquet", *LIMIT, *options, "--seed", "3", "--out", tmp_path / "p")
    done = riskfront("verify", tmp_path / "p" / "certificate.json", folder / "runs.parquet")
    assert done.returncode == 0, done.stdout + done.stderr
    simulated_runs(seed=8, n=2500).save(tmp_path / "other.parquet")
    assert riskfront("verify", tmp_path / "p" / "certificate.json", tmp_path / "other.parquet").returncode == 1


def test_a_certificate_is_recomputed_from_a_folder_of_logs(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "logs").mkdir()
    for model, right in (("small", 0.8), ("large", 0.82)):
        log = inspect_log(model, (rng.random(400) < right).astype(float).tolist())
        for sample in log["samples"]:
            sample |= {"input": f"Is it {sample['id']}?"}
        (tmp_path / "logs" / f"{model}.json").write_text(json.dumps(log))
    options = ["--router", "--prices", "small=1, large=10", "--reference", "large", "--limit", "score drop <= 0.2"]
    done = riskfront("cascade", tmp_path / "logs", *options, "--minimize", "cost", "--out", tmp_path / "p")
    assert done.returncode == 0, done.stderr
    done = riskfront("verify", tmp_path / "p" / "certificate.json", tmp_path / "logs")
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_certified_writes_no_policy(folder, tmp_path):
    done = riskfront(
        "cascade", folder / "runs.parquet", "--limit", "score >= 0.99", "--minimize", "cost", "--out", tmp_path / "p"
    )
    assert done.returncode == 1
    assert not (tmp_path / "p" / "policy.json").exists()
    assert (tmp_path / "p" / "certificate.json").exists()


def test_no_policy_of_an_earlier_choice_stays_where_nothing_is_certified(folder, tmp_path):
    runs, out = folder / "runs.parquet", tmp_path / "o"
    given = ["--reference", "m2", "--minimize", "cost", "--confidence", "confidence", "--thresholds", "0.2,0.6"]
    riskfront("cascade", runs, "--limit", "score drop <= -0.5..0.1/2", *given, "--out", out)
    assert riskfront("choose", out, "--runs", runs, "--limit", "score drop <= 0.1").returncode == 0
    assert (out / "policy.json").exists()
    with pytest.warns(UserWarning, match=r"policy.json' was removed"):
        assert riskfront("choose", out, "--runs", runs, "--limit", "score drop <= -0.5").returncode == 1
    assert not (out / "policy.json").exists()


def test_another_question_to_the_same_logs_is_counted(folder, tmp_path, monkeypatch):
    """Whoever asks until something passes, with the same folder for what comes out, must not read 90 % each time."""
    out = ["--out", tmp_path / "policy"]

    def asked(*options, runs="runs.parquet", limit=LIMIT):
        monkeypatch.setattr(ASKED, "_uses", [])  # as in a process of its own
        done = riskfront(
            "cascade", folder / runs, *limit, *out, "--confidence", "length", *options, "--thresholds", "8"
        )
        assert done.returncode in (0, 1), done.stderr
        return " ".join(done.stdout.split()), done.returncode

    assert asked()[0].count("With 90 % confidence") == 1
    assert "With 90 % confidence" in asked()[0]  # the same question is no new use
    assert "With 80 % confidence, counting both uses" in asked("--seed", "1")[0]
    assert "With 70 % confidence" in asked("--models", "m1,m2", runs="bare.parquet")[0]
    certificate = tmp_path / "policy" / "certificate.json"
    assert riskfront("verify", certificate, folder / "bare.parquet").returncode == 0
    assert len(rf.Policy.load(tmp_path / "policy" / "policy.json").certificate.earlier_looks) == 2
    with pytest.warns(UserWarning, match=r"policy.json' was removed"):
        said, status = asked(limit=["--limit", "score >= 0.999", "--minimize", "cost"])
    assert (status, "Nothing could be certified" in said) == (1, True)
    assert not (tmp_path / "policy" / "policy.json").exists()  # that of the certificate that was replaced
    simulated_runs(n=2500, seed=7).save(tmp_path / "new.parquet")
    assert "With 90 % confidence" in asked(runs=tmp_path / "new.parquet")[0]


def test_numbers_for_machines(folder):
    found = json.loads(
        riskfront(
            "cascade", folder / "runs.parquet", *LIMIT, "--rank-by", "right", "--binary", "score", "--json"
        ).stdout
    )
    assert found["settings"] == 3 + 6 * 20
    assert sum(found["shares"]) == pytest.approx(1)
    assert len(found["thresholds"]) == len(found["models"]) - 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([*LIMIT[:3], "m9", *LIMIT[4:]], "'m9' is not one of them. Models: m0, m1, m2"),
        ([*LIMIT, "--confidence", "sureness"], "no 'sureness'"),
        ([*LIMIT, "--thresholds", "many"], "--thresholds must hold numbers"),
        ([*LIMIT, "--export", "litellm"], "fire on errors, never on low confidence"),
        ([*LIMIT, "--confidence", "cost"], "known where the policy runs; 'cost' is not"),
        ([*LIMIT, "--binary", "cost"], "only 0 and 1"),
        ([*LIMIT, "--where", "score == 1"], "'score' is an outcome"),
        ([*LIMIT, "--limit", "cost <= 0.5"], "the mean 'cost' needs the most that it can be"),
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
    assert done.returncode == 0, done.stderr
    assert "learnt from task, length and agreement on" in " ".join(done.stdout.split())


def test_prices_and_the_bounds_that_they_imply(tmp_path):
    runs = simulated_runs(n=1500)
    del runs.values["cost"]
    runs.save(tmp_path / "runs.parquet")
    options = ["--limit", "score drop <= 0.2", "--limit", "cost <= 0.038", "--reference", "m2", "--minimize", "calls"]
    options += ["--confidence", "confidence"]
    priced = ["--prices", "m0=0.001, m1=0.01, m2=0.03"]
    done = riskfront("cascade", tmp_path / "runs.parquet", *options, *priced, "--out", tmp_path / "p", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["certificate"]
    assert found["loss_bounds"]["cost"] == [0, 0.04]  # the two dearest
    assert riskfront("verify", tmp_path / "p" / "certificate.json", tmp_path / "runs.parquet").returncode == 0
    by_tokens = tmp_path / "prices.csv"
    by_tokens.write_text("model,per_call,per_million_output\nm0,0,1\nm1,0,2\nm2,0,30\n")
    done = riskfront("cascade", tmp_path / "runs.parquet", *options, "--prices", by_tokens)
    assert done.returncode == 2
    assert "needs logged tokens" in done.stderr


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("log", "options"),
    [
        ("litellm_183", ["--tool", "litellm", "--score", "quality"]),
        ("lm_eval_044", ["--filter", "strict", "--score", "tiny_arith=lengthy, tiny_choice=acc", "--models", "dummy"]),
    ],
)
def test_logs_that_need_to_be_told_what_they_are(log, options):
    """What a message asks for, the command takes: a tool, a filter."""
    limit = ["--limit", "score >= 0.01", "--minimize", "tokens"]
    done = riskfront("cascade", WRITTEN / log, *limit, *options)
    without = riskfront("cascade", WRITTEN / log, *limit, *options[2:])
    assert without.returncode == 2
    assert "Name it: lm-eval" in without.stderr or "Name one (--filter)" in without.stderr
    assert "Name it: lm-eval" not in done.stderr
    assert "(--filter)" not in done.stderr


@pytest.mark.parametrize("tool", ["inspect", "promptfoo", "lm-eval"])
def test_a_router_learns_from_the_prompts_of_logs(tool, tmp_path):
    rng = np.random.default_rng(0)
    hard = rng.integers(1, 40, 400)
    for model, ability in (("small", 30), ("large", 38)):
        scores = (hard < ability).astype(float) * (rng.random(400) < 0.97)
        WRITERS[tool](tmp_path, model, scores, ["x" * int(length) for length in hard])
    limit = ["--limit", "score drop <= 0.2", "--reference", "large", "--minimize", "calls", "--router"]
    done = riskfront("cascade", tmp_path, *limit)
    assert done.returncode in (0, 1), done.stderr
    assert "learnt from prompt_chars on" in " ".join(done.stdout.split())
    assert "800 rows read" in " ".join(done.stdout.split())


def _inspect(folder, model, scores, prompts):
    log = inspect_log(model, [float(score) for score in scores])
    for sample, prompt in zip(log["samples"], prompts, strict=True):
        sample["input"] = prompt
    (folder / f"{model}.json").write_text(json.dumps(log))


def _promptfoo(folder, model, scores, prompts):
    rows = [
        {
            "provider": {"id": model},
            "promptId": "p",
            "vars": {"q": f"{number:4}{prompt}"},
            "score": score,
            "namedScores": {},
        }
        for number, (score, prompt) in enumerate(zip(scores, prompts, strict=True))
    ]
    (folder / f"{model}.json").write_text(json.dumps({"results": {"version": 3, "results": rows}}))


def _lm_eval(folder, model, scores, prompts):
    (folder / model).mkdir()
    rows = [
        {
            "doc_id": k,
            "doc_hash": f"h{k}",
            "metrics": ["acc"],
            "acc": score,
            "arguments": {"gen_args_0": {"arg_0": prompt}},
        }
        for k, (score, prompt) in enumerate(zip(scores, prompts, strict=True))
    ]
    lines(folder / model / "samples_quiz_2026-01-01T00-00-00.0.jsonl", rows)


WRITERS = {"inspect": _inspect, "promptfoo": _promptfoo, "lm-eval": _lm_eval}


@pytest.mark.filterwarnings("ignore::riskfront.LeftOutWarning")
def test_failures_that_help_a_limit_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    for model in ("small", "large"):
        log = inspect_log(model, [1.0 if bad else 0.0 for bad in rng.random(60) < 0.2])
        for sample in log["samples"][:20]:
            sample |= {"error": {"message": "timeout"}, "scores": {}}
        (tmp_path / f"{model}.json").write_text(json.dumps(log))
    options = ["--limit", "score <= 0.3", "--minimize", "latency", "--confidence", "tokens", "--thresholds", "0.5"]
    for worst, code in (("0", 2), ("1", 1)):
        riskfront("import", "inspect", tmp_path, "--out", tmp_path / "runs.parquet", "--worst", worst)
        done = riskfront("cascade", tmp_path / "runs.parquet", *options)
        assert done.returncode == code, done.stderr
        assert ("which is not the worst for 'score <= 0.3'" in done.stderr) is (code == 2)


def judged(n, seed, **changes):
    """Runs with a judge that mostly agrees with the score."""
    runs = simulated_runs(seed=seed, n=n)
    agrees = np.random.default_rng(seed).random((3, n)) < 0.95
    runs.values["judge"] = np.where(agrees, runs.value("score"), 1 - runs.value("score"))
    return runs


def test_few_labels_and_many_judged_answers(tmp_path):
    judged(700, 1).save(tmp_path / "runs.parquet")
    unlabelled = judged(6000, 2)
    del unlabelled.values["score"]
    unlabelled.save(tmp_path / "judged.parquet")
    options = ["--limit", "score drop <= 0.08 proxy judge", *LIMIT[2:], "--confidence", "confidence"]
    options += ["--unlabelled", tmp_path / "judged.parquet", "--out", tmp_path / "p"]
    done = riskfront("cascade", tmp_path / "runs.parquet", *options)
    assert done.returncode in (0, 1), done.stderr
    assert "5,670 unlabelled examples helped to test" in " ".join(done.stdout.split())
    again = ["verify", tmp_path / "p" / "certificate.json", tmp_path / "runs.parquet"]
    assert riskfront(*again, "--unlabelled", tmp_path / "judged.parquet").returncode == 0
    done = riskfront("cascade", tmp_path / "runs.parquet", *LIMIT, "--unlabelled", tmp_path / "judged.parquet")
    assert done.returncode == 2
    assert "limits that name a proxy; none does" in done.stderr


def test_unlabelled_examples_that_thresholds_were_set_on_are_refused():
    runs = judged(700, 1)
    cascade = rf.Cascade(runs, thresholds=5)
    aside = ~np.isin(runs.examples["example"], cascade.runs.examples["example"])
    with pytest.raises(
        rf.InvalidInputError, match=f"set aside for confidence and thresholds; {aside.sum()} are among them"
    ):
        cascade.unlabelled(runs.at(np.flatnonzero(aside)), ["judge"])


def test_a_column_that_is_equal_for_all_models_is_a_column(tmp_path):
    runs = simulated_runs(n=600)
    frame = runs.frame().assign(energy=2.5).drop(columns=["cost"])
    frame.to_parquet(tmp_path / "runs.parquet")
    options = [
        "--limit",
        "score drop <= 0.3",
        "--reference",
        "m2",
        "--minimize",
        "energy",
        "--confidence",
        "confidence",
    ]
    done = riskfront("cascade", tmp_path / "runs.parquet", *options)
    assert done.returncode == 0, done.stderr
    assert "mean energy of 2.5" in " ".join(done.stdout.split())
