"""Whatever moment a run is stopped at, the next one goes on from there and finds the same."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riskfront.errors import StoreError
from riskfront.transformers import AdaptiveClassifier, FineTuning, HeadTraining, PruningTrace, Training
from riskfront.transformers._data.texts import TextParts, labelled_texts
from riskfront.transformers._learning import training
from riskfront.transformers._learning.training import train
from riskfront.transformers._pruning import pruning_trace as trace_module
from riskfront.transformers._pruning.network import Network
from tests.support import tiny_transformers as tiny
from tests.support.processes import started

STUCK = """
import sys, time
import torch
from riskfront.transformers import AdaptiveClassifier, PruningTrace
from riskfront.transformers._pruning import pruning_trace as trace
from tests.support import tiny_transformers as tiny

torch.set_num_threads(1)
trace.BLOCK = 20
network = AdaptiveClassifier.from_pretrained(sys.argv[1]).network
found = PruningTrace(network, *tiny.tokens_and_labels(tiny.make_frame(200, 4)), folder=sys.argv[2], batch_size=5)
one_batch = found._batch

def in_the_middle_of_the_fourth_block(*given):
    if found.examples_run == 70:
        print("here", flush=True)
        time.sleep(600)
    return one_batch(*given)

found._batch = in_the_middle_of_the_fourth_block
found.losses({"tau_token": 0.05}, found.examples)
"""


def test_a_killed_trace_loses_at_most_one_block(
    network: Network, data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    AdaptiveClassifier(network, tiny.make_tokenizer(), tiny.SIGNALS, 40).save_pretrained(tmp_path / "model")
    command = [sys.executable, "-c", STUCK, str(tmp_path / "model"), str(tmp_path / "traces")]
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    with started(command, env={"PYTHONPATH": paths}) as run:
        run.line(lambda line: line == "here\n" or None)
        run.kill()
    monkeypatch.setattr(trace_module, "BLOCK", 20)
    setting = {"tau_token": 0.05, "tau_layer": 0.1}
    second = PruningTrace(network, *data, folder=tmp_path / "traces", batch_size=5)
    found = second.losses(setting, second.examples)
    assert second.examples_run == 400 - 60, "three whole blocks were there; ten examples of the fourth are run again"
    whole = PruningTrace(network, *data, batch_size=5)
    for name, values in whole.losses(setting, whole.examples).items():
        assert (found[name] == values).all(), name
    third = PruningTrace(network, *data, folder=tmp_path / "traces")
    again = third.losses(setting, third.examples)
    assert third.examples_run == 0
    assert all((again[name] == values).all() for name, values in found.items())


def test_passes_of_other_examples_or_weights_are_not_used(network: Network, data: Any, tmp_path: Path) -> None:
    tokens, labels = data
    few, others = ((tokens.take(part), labels[part]) for part in (np.arange(20), np.arange(20, 40)))
    PruningTrace(network, *few, folder=tmp_path).passes(0.0, 0.0)
    other = PruningTrace(network, *others, folder=tmp_path)
    other.passes(0.0, 0.0)
    assert other.examples_run == 20
    same = PruningTrace(network, *few, folder=tmp_path)
    same.passes(0.0, 0.0)
    assert same.examples_run == 0


def test_a_damaged_trace_is_an_error_and_not_a_result(network: Network, data: Any, tmp_path: Path) -> None:
    tokens, labels = data[0].take(np.arange(10)), data[1][:10]
    PruningTrace(network, tokens, labels, folder=tmp_path).passes(0.0, 0.0)
    (file,) = tmp_path.rglob("*.safetensors")
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:4], b""):
        file.write_bytes(damaged)
        with pytest.raises(StoreError, match="must be a trace as it was written"):
            PruningTrace(network, tokens, labels, folder=tmp_path)


def test_a_folder_that_cannot_be_is_said(network: Network, data: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        PruningTrace(network, *data, folder=tmp_path / "file")


pytestmark = pytest.mark.filterwarnings("ignore:.*exits answer no better")  # nothing is learnt in a few steps
STEPS = ["1-fine-tuned", "2-head-scores", "3-token-predictors", "4-exit-heads", "5-pruning-report"]
HOW = Training(FineTuning(learning_rate=1e-3), heads=HeadTraining(epochs=1, token_rows=30), max_length=24)


def parts(seed: int = 0, validation: int = 20, label: str = "") -> TextParts:
    found = []
    for n, own in ((60, seed), (30, validation), (20, 30)):
        frame = tiny.make_frame(n, own)
        found.append(labelled_texts(frame.assign(label=label + frame["label"])))
    return TextParts(*found)


class Counter:
    """Runs training and says which steps were made and not found."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.model, self.folder = model, folder

    def __call__(self, how: Training, texts: TextParts) -> list[str]:
        lines: list[str] = []
        self.trained = train(self.model, texts, self.folder, how, say=lines.append, progress=False)
        assert [line.split()[0].rstrip(":") for line in lines[:-2]] == STEPS
        assert lines[-2].startswith("exits are right")
        assert lines[-1].startswith("the full model is right with ")
        return [line.removesuffix(" ...") for line in lines if line.endswith(" ...")]


def test_stopped_training_goes_on_at_the_step_it_was_in(
    encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Counter(encoder_folder, tmp_path / "stopped")
    with monkeypatch.context() as patch:
        patch.setattr(training, "fit_exit_heads", lambda *given, **more: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            run(HOW, parts())
    assert sorted(path.name for path in run.folder.iterdir()) == STEPS[:3], "nothing half-made is left"
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    assert run(HOW, parts()) == STEPS[3:]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    whole = Counter(encoder_folder, tmp_path / "whole")
    assert whole(HOW, parts()) == STEPS
    assert whole.trained.network.fingerprint == run.trained.network.fingerprint
    assert run(HOW, parts()) == []


@pytest.mark.parametrize(
    ("changed", "redone"),
    [
        (lambda how: replace(how, seed=1), STEPS),
        (lambda how: replace(how, fine_tuning=FineTuning(learning_rate=2e-3)), STEPS),
        (lambda how: replace(how, max_length=12), STEPS),
        (lambda how: replace(how, max_length=30), []),  # no text is as long
        (lambda how: replace(how, heads=replace(how.heads, epochs=2)), STEPS[3:4]),
        (lambda how: replace(how, heads=replace(how.heads, rows=50)), STEPS[3:4]),
        (lambda how: replace(how, heads=replace(how.heads, pruned=False)), STEPS[3:4]),
        (lambda how: replace(how, exits="cls"), STEPS),
        (lambda how: replace(how, heads=replace(how.heads, token_rows=20)), STEPS[2:]),
        (lambda how: replace(how, heads=replace(how.heads, token_epochs=2)), STEPS[2:]),
        (lambda how: replace(how, heads=replace(how.heads, learning_rate=2e-3)), STEPS[2:]),
        (lambda how: replace(how, heads=replace(how.heads, batch_size=16)), STEPS[2:]),
    ],
)
@pytest.mark.filterwarnings("ignore:.*texts are longer")
def test_a_changed_setting_redoes_the_steps_that_depend_on_it(
    encoder_folder: Path, tmp_path: Path, changed: Any, redone: list[str]
) -> None:
    run = Counter(encoder_folder, tmp_path)
    run(HOW, parts())
    assert run(changed(HOW), parts()) == redone
    assert run(changed(HOW), parts()) == []


def test_changed_data_redoes_the_steps_that_depend_on_it(encoder_folder: Path, tmp_path: Path) -> None:
    run = Counter(encoder_folder, tmp_path)
    run(HOW, parts())
    assert run(HOW, parts(validation=21)) == [STEPS[1], *STEPS[3:]]
    assert run(HOW, parts(seed=5, validation=21)) == STEPS
    assert run(HOW, parts(seed=5, validation=21, label="very ")) == [], "the names of the classes change no weight"
    assert run.trained.classes == ("very blue", "very green", "very red")
    assert run.trained.network.backbone.config.id2label == dict(enumerate(run.trained.classes))
    (tmp_path / STEPS[1] / "step.json").write_text("[]")
    assert run(HOW, parts(seed=5, validation=21)) == STEPS[1:2]


def test_training_never_sees_the_calibration_texts(encoder_folder: Path, tmp_path: Path) -> None:
    class Untouchable:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"training looked at calibration texts: {name}")

    texts = replace(parts(), calibration=Untouchable())  # type: ignore[arg-type]
    train(encoder_folder, texts, tmp_path, HOW, progress=False)
