"""Fine-tuning that was stopped goes on inside the step, and ends with the same weights as without a stop."""

import os
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from riskfront.transformers import FineTuning, Training
from riskfront.transformers._learning import fine_tuning, steps
from riskfront.transformers._learning.fine_tuning import fine_tune
from riskfront.transformers._learning.training import train
from tests.support import tiny_transformers as tiny
from tests.support.processes import started
from tests.transformers.test_resume import HOW, parts

EARLY = FineTuning(epochs=2, learning_rate=1e-3, early_layers=1.0, batch_size=16)


@pytest.fixture(autouse=True)
def after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "SECONDS", 0.0)
    monkeypatch.setattr(steps.Checkpoint, "is_due", lambda self: self.path is not None)


class StopAfter:
    """Lets some steps pass and then stops, like Ctrl-C; counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: int | None) -> None:
        self.steps, self.taken, loss = steps, 0, fine_tuning._loss

        def counted(*given: Any) -> Any:
            if self.taken == self.steps:
                raise KeyboardInterrupt
            self.taken += 1
            return loss(*given)

        monkeypatch.setattr(fine_tuning, "_loss", counted)


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("stops", [[1], [7], [8], [3, 4, 2]])
def test_the_same_weights_wherever_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: list[int]
) -> None:
    """16 steps in two epochs of 8: dropout, the order of examples, the learning rate and Adam all go on where they were."""
    data = tiny.tokens_and_labels(tiny.make_frame(128, 1))
    whole = tiny.new_model()
    fine_tune(whole, *data, EARLY, seed=3, progress=False)
    file = tmp_path / "fine-tuning.checkpoint"
    for count in stops:
        with monkeypatch.context() as patch:
            StopAfter(patch, count)
            with pytest.raises(KeyboardInterrupt):
                fine_tune(tiny.new_model(), *data, EARLY, seed=3, progress=False, checkpoint=file)
    stopped = tiny.new_model()
    with monkeypatch.context() as patch:
        counter = StopAfter(patch, None)
        fine_tune(stopped, *data, EARLY, seed=3, progress=False, checkpoint=file)
    assert counter.taken == 16 - sum(stops)
    for name, value in weights(whole).items():
        assert torch.equal(value, stopped.state_dict()[name]), name


def test_training_goes_on_from_the_checkpoint_and_leaves_none(
    encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        StopAfter(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            train(encoder_folder, parts(), tmp_path, HOW, progress=False)
    (left,) = tmp_path.iterdir()
    assert left.name.endswith(".checkpoint"), "and no half-made folder"
    with monkeypatch.context() as patch:
        other = StopAfter(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            train(encoder_folder, parts(seed=5), tmp_path, HOW, progress=False)
    assert other.taken == 1, "other texts begin at the beginning"
    counter = StopAfter(monkeypatch, None)
    found = train(encoder_folder, parts(), tmp_path, HOW, progress=False)
    assert counter.taken == 1, "of two steps"
    assert not list(tmp_path.glob(".*")), "neither checkpoints nor folders"
    whole = train(encoder_folder, parts(), tmp_path / "whole", HOW, progress=False)
    assert found.network.fingerprint == whole.network.fingerprint


def test_a_damaged_checkpoint_begins_at_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny.tokens_and_labels(tiny.make_frame(32, 1))
    (tmp_path / "c").write_bytes(b"half of a file")
    counter = StopAfter(monkeypatch, None)
    fine_tune(tiny.new_model(), *data, EARLY, progress=False, checkpoint=tmp_path / "c")
    assert counter.taken == 4


def test_written_now_and_then_and_not_all_the_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    module = torch.nn.ModuleDict({"model": torch.nn.Linear(2, 2)})
    kept = steps.Checkpoint(tmp_path / "c", module, torch.optim.AdamW(module.parameters()))
    due = []
    for second in range(200):
        now[0] = float(second)
        due.append(kept.is_due())
        if due[-1]:
            kept.save({"steps": second})
    assert [second for second, is_due in enumerate(due) if is_due] == [60, 120, 180]
    kept._pause = 100.0  # it took five seconds
    now[0] = 270.0
    assert not kept.is_due()
    assert not steps.Checkpoint(None, module, kept.optimizer).is_due()


def test_everything_that_is_written_has_the_permissions_of_any_new_file(encoder_folder: Path, tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        train(encoder_folder, parts(), tmp_path, HOW, progress=False)
    finally:
        os.umask(mask)
    for path in tmp_path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


SLOW = """
import sys, time, torch
torch.set_num_threads(1)  # the number of threads is not measured: every loss is that of a step
from riskfront.transformers._learning import fine_tuning, steps
steps.SECONDS = 0.0
loss, taken = fine_tuning._loss, []

def slow(*given):
    taken.append(1)
    if len(taken) == 4:
        print("here", file=sys.stderr, flush=True)
        time.sleep(60)
    return loss(*given)

fine_tuning._loss = slow
from riskfront._cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_command_that_is_ended_leaves_nothing_astray_and_says_how_to_go_on(
    encoder_folder: Path, tmp_path: Path, sent: signal.Signals, status: int
) -> None:
    tiny.make_frame(400, 1).to_csv(tmp_path / "data.csv", index=False)
    command = [
        "transformers",
        "train",
        "--model",
        encoder_folder,
        "--data",
        tmp_path / "data.csv",
        "--out",
        tmp_path / "out",
    ]
    restored = ["-c", "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + SLOW]
    arguments = [sys.executable, *restored, *map(str, command)]
    with started(arguments) as run:
        run.line(lambda line: line == "here\n" or None, err=True)
        run.send(sent)
        assert run.wait() == status, run.err
        said = run.err.partition("here\n")[2]
    left = [path.name for path in (tmp_path / "out" / "training").iterdir()]
    if sent != signal.SIGKILL:
        assert len(left) == 1, "the checkpoint"
        assert (
            said
            == f"riskfront: stopped. What is done is in '{tmp_path / 'out'}': the same command goes on from there.\n"
        )
    train(encoder_folder, parts(), tmp_path / "out" / "training", Training(max_length=24), progress=False)
    left = [path.name for path in (tmp_path / "out" / "training").iterdir()]
    assert not [name for name in left if name.startswith(".")], "what was killed is cleared away by the next run"
