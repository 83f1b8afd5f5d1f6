"""The examples run, and what they show is true."""

import importlib.util
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "gallery.md"
installed = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not part of an installed package")


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@installed
def test_a_local_cascade_serves_what_was_certified(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load("local_cascade").main(requests=1000)
    assert found["requests"] == 1000
    share, predicted = found["its share of the requests"], found["predicted share of the small model"]
    assert 0.2 < predicted < 1
    # both are shares of independent questions: 1,000 requests against 5,400 examples
    error = np.sqrt(predicted * (1 - predicted) * (1 / 1000 + 1 / 5400))
    assert abs(share - predicted) < 4 * error
    assert abs(found["cost of a request"] - found["predicted cost"]) < 10 * 4 * error
    assert found["accuracy of the larger model alone"] - found["accuracy of the policy"] < 0.02 + 3 * np.sqrt(
        0.05 / 1000
    )
    assert found["cost of a request"] < 8
    assert (
        "With 90 % confidence, score drop from large (gains offset losses) stays at or below 2 %."
        in capsys.readouterr().out
    )


WORDS = re.compile(r"[A-Za-z]{3,}")

#: what must be true of each example, whatever the last digits are
TRUE = {
    "precision_and_recall": lambda found: (
        found["precision on new images"] > 0.8 and found["recall on new images"] > 0.85
    ),
    "selective_classification": lambda found: (
        found["wrong among answered"] < 0.02 < found["wrong without abstaining"] and found["answered"] > 0.7
    ),
    "cascade_of_models": lambda found: found["cost"] < 10,
    "fair_thresholds": lambda found: (
        found["turned down in B, certified"] < 0.25 < found["turned down in B, one for all"]
    ),
    "early_exit": lambda found: found["trees"] < 100,
    "llm_router": lambda found: found["cost of the router"] < 0.8 * found["cost of the reference"],
    "monitoring": lambda found: found["first alarm"] >= found["ageing from week"],
}


@installed
@pytest.mark.parametrize("name", TRUE)
def test_the_gallery_shows_what_the_example_prints(name, tmp_path):
    pytest.importorskip("matplotlib")
    gallery = load("gallery")
    printed, found = gallery.run(gallery.load(name), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000
    assert (PAGE.parent / "assets" / "gallery" / f"{name}.png").is_file()
    assert TRUE[name](found), found
    # what is said must be on the page; the last digits of a model, and with them a split, differ between processors
    shown = WORDS.findall(PAGE.read_text(encoding="utf-8"))
    assert set(WORDS.findall(printed)) <= set(shown), f"run python examples/gallery.py; printed:\n{printed}"


def test_every_example_is_in_the_gallery():
    assert set(load("gallery").EXAMPLES) == set(TRUE)


@installed
def test_the_router_on_tables_of_ones_own(tmp_path):
    router = load("llm_router")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = router.main(tmp_path / "picture.png", router.generated(tmp_path, n=1500), "large")
    assert found["certified"]
