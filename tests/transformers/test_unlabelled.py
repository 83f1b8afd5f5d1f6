"""accelerate with unlabelled texts: disagreement with the full model sharpens the test, and nothing is counted twice."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.transformers import Grid, Plan, PruningTrace, Rows
from riskfront.transformers._accelerate import check_problem, read_parts
from riskfront.transformers._data.known_texts import Learnt, fresh_texts, unlabelled_contents, unlabelled_texts
from riskfront.transformers._data.texts import LabelledTexts, split_texts
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._pruning.disagreement import TraceWithUnlabelled, with_disagreement
from riskfront.transformers._pruning.network import Network
from tests.support import tiny_transformers as tiny
from tests.support.command_line import riskfront

FEW = ["--head-thresholds", 2, "--token-thresholds", 3, "--exit-thresholds", 4]
SETTING = {"tau_layer": 1.2, "tau_token": 0.5}


@pytest.fixture(scope="module")
def both(network: Network, data: tuple[Tokens, np.ndarray]) -> TraceWithUnlabelled:
    tokens, labels = data
    few = PruningTrace(network, tokens.take(np.arange(30)), labels[:30], progress=False)
    many = PruningTrace(network, tokens.take(np.arange(30, 200)), np.zeros(170, dtype=np.int64), progress=False)
    return TraceWithUnlabelled(few, many, seed=3)


def test_disagreement_is_where_the_drop_can_be(both: TraceWithUnlabelled) -> None:
    found = both.losses(SETTING, both.examples)
    drop, differs = found["accuracy_drop"], found["disagreement"]
    assert differs.any()
    assert not drop[~differs].any()


def test_each_text_has_a_batch_of_its_own(both: TraceWithUnlabelled) -> None:
    batches = both._batches
    assert batches.shape == (30, 5)
    assert len(set(batches.ravel())) == 150
    whole, part = both.losses(SETTING, both.examples), both.losses(SETTING, np.array([7, 2]))
    for name in ("disagreement (unlabelled)", "disagreement (unlabelled given answered)"):
        assert (whole[name][[7, 2]] == part[name]).all()
    elsewhere = both.elsewhere.losses(SETTING, both.elsewhere.examples)
    full = both.elsewhere.passes(0.0, 0.0).probabilities[:, -1].argmax(axis=1)
    # labels of unlabelled texts are all 0: an error is an answer other than 0
    answers_differ = elsewhere["error"] != (full != 0)
    shares = whole["disagreement (unlabelled)"]
    assert (shares >= answers_differ[batches].mean(axis=1) - 1e-6).all()
    assert both.described["examples"] == 170
    assert both.described["used"] == 150


def test_there_must_be_as_many_as_labelled_texts(both: TraceWithUnlabelled) -> None:
    with pytest.raises(rf.InvalidInputError, match="at least as many unlabelled texts"):
        TraceWithUnlabelled(both.elsewhere, both.trace, seed=0)


def test_texts_that_are_known_already_are_refused() -> None:
    frame = tiny.make_frame(120, 31)
    parts = read_parts(frame, Plan(rows=Rows(validation=10)))
    learnt = Learnt().and_from(parts.train.contents)
    new = tiny.make_frame(60, 32)[["text"]]
    assert unlabelled_texts(new.drop_duplicates(), parts, learnt, leave_out=False).notes == ()
    for known, words in ((parts.train, "were learnt from"), (parts.calibration, "are calibration texts")):
        mixed = pd.concat([new.drop_duplicates(), _frame(known)[:3]])
        with pytest.raises(rf.InvalidInputError, match=f"3 {words}"):
            unlabelled_texts(mixed, parts, learnt, leave_out=False)
        found = unlabelled_texts(mixed, parts, learnt, leave_out=True)
        assert f"3 {words}" in found.notes[0]
        assert not set(found.texts.contents) & learnt.contents
    with pytest.raises(rf.InvalidInputError, match="repeat another"):
        unlabelled_texts(pd.concat([new, new[:1]]), parts, learnt, leave_out=False)
    with pytest.raises(rf.InvalidInputError, match="single texts, or pairs"):
        unlabelled_texts(tiny.make_pairs(50, 33), parts, learnt, leave_out=False)


def test_one_copy_of_each_text_counts_with_a_label_or_without() -> None:
    """And texts that the split would not have kept for calibration do not count on the side without labels either."""
    frame = tiny.make_frame(300, 36)
    parts = read_parts(frame, Plan(rows=Rows(validation=10)))
    learnt = Learnt().and_from([*parts.train.contents, *parts.validation.contents])
    others = pd.concat([frame[["text"]], frame[["text"]], tiny.make_frame(200, 37)[["text"]]])
    fresh = fresh_texts(parts, learnt, leave_out=True, unlabelled=unlabelled_contents(others))
    elsewhere = unlabelled_texts(others, parts, learnt, leave_out=True).texts
    labelled, unlabelled = set(fresh.texts.contents), set(elsewhere.contents)
    assert not labelled & unlabelled
    assert set(parts.calibration.contents) - learnt.contents <= labelled | unlabelled
    assert 0.2 < len(labelled) / len(set(parts.calibration.contents)) < 0.5  # one copy in three has a label
    assert parts.could_calibrate(list(unlabelled)).all()
    assert parts.could_calibrate(parts.calibration.contents).all()
    assert not parts.could_calibrate(parts.train.contents).any()


@pytest.mark.parametrize("truncated", [None, 60])
@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("learning", [False, True])
def test_calibration_texts_are_those_of_some_places(truncated: int | None, marked: bool, learning: bool) -> None:
    frame = tiny.make_frame(400, 38).drop_duplicates("text")
    if marked:
        frame["split"] = np.where(np.arange(len(frame)) % 2, "train", "test")
    parts = split_texts(frame, Rows(validation=20, calibration=truncated), seed=5, learning=learning)
    assert parts.could_calibrate(parts.calibration.contents).all()
    if not marked:
        assert not parts.could_calibrate([*parts.train.contents, *parts.validation.contents]).any()


def _frame(texts: LabelledTexts) -> pd.DataFrame:
    return pd.DataFrame({"text": list(texts.first)})


def test_drops_get_the_proxy_and_others_do_not() -> None:
    problem = rf.Problem(["accuracy_drop <= 0.1", "error <= 0.3 per label", "error <= 0.2"], minimize="flops")
    found = with_disagreement(problem)
    assert [limit.proxy for limit in found.limits] == ["disagreement", None, None]
    with pytest.raises(rf.InvalidInputError, match="there is none"):
        with_disagreement(rf.Problem("error <= 0.2", minimize="flops"))
    for text in ("accuracy_drop <= 0.1 proxy judge", "accuracy_drop <= 0.1 per label proxy disagreement"):
        with pytest.raises(rf.InvalidInputError, match="the proxy of a text is 'disagreement'"):
            check_problem(rf.Problem(text, minimize="flops"), Grid(), unlabelled=True)
    with pytest.raises(rf.InvalidInputError, match="give unlabelled texts"):
        check_problem(rf.Problem("accuracy_drop <= 0.1 proxy disagreement", minimize="flops"), Grid())


@pytest.mark.filterwarnings("ignore:.* exits answer worse than")  # the model is a toy
def test_accelerate_on_the_command_line(classifier_folder: Path, tmp_path: Path) -> None:
    """Certified with unlabelled texts, said so, and recomputed from what the folder keeps."""
    frame = tiny.make_frame(800, 34)
    frame["split"] = np.where(np.arange(800) < 300, "train", "test")
    frame.to_parquet(tmp_path / "texts.parquet")
    tiny.make_frame(1200, 35)[["text"]].to_parquet(tmp_path / "more.parquet")
    out = tmp_path / "out"
    command = ["accelerate", "--model", classifier_folder, "--data", tmp_path / "texts.parquet", "--out", out, *FEW]
    more = ["--limit", "accuracy_drop <= 0.1", "--unlabelled", tmp_path / "more.parquet", "--leave-out-repeats"]
    done = riskfront(*command, *more)
    assert done.returncode == 0, done.stderr  # on a slow machine it says there how far it is
    text = " ".join(done.stdout.split())
    assert "unlabelled examples helped to test" in text, text
    certificate = rf.Certificate.load(out / "certificate.json")
    assert certificate.unlabelled is not None
    assert certificate.unlabelled["limits"][0]["proxy"] == "disagreement"
    assert certificate.problem.limits[0].proxy == "disagreement"
    checked = riskfront("verify", out / "certificate.json", out)
    assert checked.returncode == 0, checked.stdout
    both = riskfront(*command, *more, "--small", classifier_folder)
    assert both.returncode == 2
    assert "a cascade" in both.stderr
