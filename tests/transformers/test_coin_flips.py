"""Labels that are coin flips: nothing can be learnt, so no error limit below one half may ever be certified.

Every case goes through the commands as a user would run them: train on a file, then certify on the same file after it was
changed in some way. A model that is calibrated on texts it learnt by heart looks far better than chance.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support import tiny_transformers as tiny
from tests.support.command_line import riskfront

N = 240
LIMIT = ["--limit", "error <= 0.4", "--minimize", "flops"]
FEW = ["--head-thresholds", 1, "--token-thresholds", 1, "--exit-thresholds", 2]
HOW = ["--epochs", 12, "--learning-rate", "3e-3", "--validation-rows", 10, "--max-length", 12]


def coin_flips(seed: int) -> pd.DataFrame:
    """Each text has words of its own, so that it is easily learnt by heart, and a label that it says nothing about."""
    rng = np.random.default_rng(seed)
    texts = [
        f"own{i} {' '.join(tiny.NOISE[j] for j in rng.integers(len(tiny.NOISE), size=4))} own{i}" for i in range(N)
    ]
    return pd.DataFrame({"text": texts, "label": rng.permutation(np.arange(N) % 2)})


def resorted(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values("text", ignore_index=True)


def row_dropped(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.iloc[1:]


def rows_added(frame: pd.DataFrame) -> pd.DataFrame:
    new = pd.DataFrame({"text": ["brand new", "quite new"], "label": [0, 1]})
    return pd.concat([new, frame], ignore_index=True)


def split_column(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(split=np.where(np.arange(len(frame)) % 3 == 0, "train", "test"))


def spaced(frame: pd.DataFrame) -> pd.DataFrame:
    marked = split_column(frame)
    return marked.assign(text="  " + marked["text"].str.replace(" ", "  "))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Path]:
    """A folder whose model knows its training rows by heart."""
    folder = tmp_path_factory.mktemp("coins")
    frame = coin_flips(0)
    frame.to_csv(folder / "data.csv", index=False)
    words = tuple(f"own{i}" for i in range(N))
    tiny.save_encoder(folder / "encoder", words)
    done = riskfront(
        "transformers",
        "train",
        "--model",
        folder / "encoder",
        "--data",
        folder / "data.csv",
        *HOW,
        "--out",
        folder / "out",
    )
    assert done.returncode == 0, done.stderr
    return frame, folder


def certify(folder: Path, frame: pd.DataFrame, tmp_path: Path, *more: Any) -> Any:
    frame.to_csv(tmp_path / "changed.csv", index=False)
    return riskfront("transformers", "certify", folder / "out", "--data", tmp_path / "changed.csv", *LIMIT, *FEW, *more)


@pytest.mark.parametrize("changed", [resorted, row_dropped, rows_added, split_column, spaced])
def test_coin_flips_are_never_certified(trained: tuple[pd.DataFrame, Path], tmp_path: Path, changed: Any) -> None:
    frame, folder = trained
    done = certify(folder, changed(frame), tmp_path)
    assert done.returncode in (1, 2), f"certified that coin flips can be predicted: {done.stdout}"


def test_the_model_did_learn_its_rows_by_heart(trained: tuple[pd.DataFrame, Path]) -> None:
    """Without this the tests above could not fail."""
    from riskfront.transformers import AdaptiveClassifier

    frame, folder = trained
    full = AdaptiveClassifier.from_pretrained(folder / "out").with_setting({})
    wrong = (full.predict(frame["text"].tolist()) != frame["label"]).mean()
    assert wrong < 0.33, wrong


@pytest.mark.parametrize("changed", [split_column, spaced])
def test_rows_that_were_seen_can_be_left_out(trained: tuple[pd.DataFrame, Path], tmp_path: Path, changed: Any) -> None:
    """What is left shows the truth: nothing can be certified."""
    frame, folder = trained
    assert certify(folder, changed(frame), tmp_path).returncode == 2
    assert certify(folder, changed(frame), tmp_path, "--leave-out-repeats").returncode == 1
