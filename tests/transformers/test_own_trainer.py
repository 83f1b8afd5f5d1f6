"""Fine-tuning by the user's own Trainer: on the rows to learn from only, once, and again when it changes."""

import functools
from pathlib import Path
from typing import Any

import pytest
from transformers import Trainer, TrainingArguments

from riskfront.errors import InvalidInputError
from riskfront.transformers import FineTuning, HeadTraining, Rows, Training
from riskfront.transformers._backbones.backbone import load_classifier
from riskfront.transformers._data.texts import split_texts
from riskfront.transformers._learning.own_trainer import identity
from riskfront.transformers._learning.training import train
from tests.support import tiny_transformers as tiny

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*pin_memory.*"),
    pytest.mark.filterwarnings(
        "ignore:.* exits answer no better"
    ),  # what a head learns in one short epoch is not the subject
]
PARTS = split_texts(tiny.make_frame(700, 3), Rows(validation=50))
SHORT = HeadTraining(epochs=1, token_rows=32)


def arguments(folder: Path, **changes: Any) -> TrainingArguments:
    options = {
        "num_train_epochs": 1,
        "per_device_train_batch_size": 16,
        "learning_rate": 2e-3,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_strategy": "no",
        "use_cpu": True,
        "seed": 0,
        **changes,
    }
    return TrainingArguments(output_dir=str(folder), **options)


class Mine(Trainer):
    """A Trainer of the user's."""

    def compute_loss(self, *args: Any, **options: Any) -> Any:
        return super().compute_loss(*args, **options)


@pytest.mark.filterwarnings("ignore")  # of Trainer
def test_the_users_trainer_trains_on_the_rows_to_learn_from(
    encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    right = Trainer.train
    monkeypatch.setattr(Trainer, "train", lambda trainer: (given.append(trainer), right(trainer))[1])
    make = functools.partial(Mine, args=arguments(tmp_path / "trainer"))
    how = Training(heads=SHORT, trainer=make, max_length=tiny.MAX_LENGTH)
    said: list[str] = []
    found = train(encoder_folder, PARTS, tmp_path / "out", how, say=said.append, progress=False)
    assert type(given[0]) is Mine
    learnt, held = given[0].train_dataset, given[0].eval_dataset
    assert len(learnt) == len(PARTS.train)
    assert [learnt[i]["input_ids"] for i in range(5)] == [
        ids.tolist() for ids in found.tokenize(PARTS.train.examples).ids[:5]
    ]
    assert len(held) == len(PARTS.validation)
    assert [held[i]["labels"] for i in range(9)] == PARTS.validation.labels[:9].tolist()
    start = load_classifier(str(encoder_folder), 3, classes=found.classes)
    moved = (found.network.backbone.model.classifier.weight - start.classifier.weight).abs().max()
    assert moved > 0.01, "what the Trainer learnt is what goes on"
    assert found.learnt is not None
    assert found.learnt.contents >= {*PARTS.train.contents, *PARTS.validation.contents}
    again = train(encoder_folder, PARTS, tmp_path / "out", how, say=said.append, progress=False)
    assert again.network.fingerprint == found.network.fingerprint
    assert len(given) == 1, "done once"
    assert "1-fine-tuned: done before" in said


def test_a_training_is_known_by_what_it_does_not_by_where_it_writes(tmp_path: Path) -> None:
    def make(folder: str, kind: Any = Mine, **changes: Any) -> str:
        return identity(functools.partial(kind, args=arguments(tmp_path / folder, **changes)))

    assert make("a") == make("b")
    assert make("a") != make("a", learning_rate=1e-3)
    assert make("a") != make("a", kind=Trainer)


@pytest.mark.filterwarnings("ignore")
def test_other_rows_than_those_given_are_refused(encoder_folder: Path, tmp_path: Path) -> None:
    """Otherwise a Trainer could learn from the rows to calibrate on, and the guarantee would be void."""
    mine = [{"input_ids": [1, 5, 2], "attention_mask": [1, 1, 1], "labels": 0}]

    def own_rows(**given: Any) -> Any:
        return Trainer(**{**given, "train_dataset": mine}, args=arguments(tmp_path / "trainer"))

    with pytest.raises(InvalidInputError, match="must learn from the train_dataset that it is given"):
        train(encoder_folder, PARTS, tmp_path / "out", Training(heads=SHORT, trainer=own_rows), progress=False)


def test_the_built_in_training_is_another(encoder_folder: Path, tmp_path: Path) -> None:
    """Steps of one way to train are not taken for those of the other."""
    how = Training(FineTuning(), heads=SHORT, trainer=lambda **given: None)
    train(encoder_folder, PARTS, tmp_path, Training(heads=SHORT), progress=False)
    with pytest.raises(InvalidInputError, match=r"must make a Trainer of transformers.* it made NoneType"):
        train(encoder_folder, PARTS, tmp_path, how, progress=False)
