"""The report of an acceleration: what each dimension brought, what else one could do, and what more texts would bring."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import riskfront as rf
from riskfront.transformers._learning import fine_tuning
from riskfront.transformers._learning.fine_tuning import FineTuning, fine_tune, measured_threads
from riskfront.transformers._learning.reports import ExitReport, LearningCurve
from riskfront.transformers._learning.training import FINE_TUNED
from riskfront.transformers._report import PAGE, Brought, sections, what_each_brought, write_page
from riskfront.transformers._speed_up import Alternative, Gain, save_alternatives
from tests.support import tiny_transformers as tiny


@pytest.fixture(scope="module")
def certificate() -> rf.Certificate:
    """Exits save half at no loss, tokens another fifth, heads nothing but accuracy; costs are known exactly."""
    configs = [
        {"tau_layer": a, "tau_token": b, "tau_head": c} for a in (0.0, 1.0) for b in (0.0, 0.1) for c in (0, 0.1)
    ]
    cost = [100 * (0.5 if s["tau_layer"] else 1) * (0.8 if s["tau_token"] else 1) for s in configs]
    drop = np.zeros((8, 600))
    drop[[bool(s["tau_head"]) for s in configs], :120] = 1
    table = rf.LossTable(
        configs,
        {"accuracy_drop": drop, "flops": np.repeat(np.array(cost)[:, None], 600, axis=1)},
        bounds={"accuracy_drop": (-1, 1)},
    )
    found = rf.calibrate(table, rf.Problem("accuracy_drop <= 0.1", minimize="flops"))
    assert found
    return found


def test_what_each_dimension_brought(certificate: rf.Certificate) -> None:
    found = what_each_brought(certificate)
    assert [(part.name, round(part.alone, 3), round(part.without, 3), round(part.together, 3)) for part in found] == [
        ("exits", 2.0, 1.25, 2.5),
        ("tokens", 1.25, 2.0, 2.5),
        ("heads", 1.0, 2.5, 2.5),
    ]
    assert [str(part) for part in found] == [
        "exits brought x2",
        "tokens brought x1.25",
        "heads brought nothing that the others do not",
    ]


def test_one_dimension_has_nothing_to_be_compared_with() -> None:
    table = rf.LossTable(
        [{"tau_layer": 0.0}, {"tau_layer": 1.0}], {"error": np.zeros((2, 300), bool), "flops": np.ones((2, 300))}
    )
    assert what_each_brought(rf.calibrate(table, rf.Problem("error <= 0.1", minimize="flops"))) == []


def test_a_small_model_is_a_dimension_too() -> None:
    """The full model is the large one alone, whatever the cheapest cascade without exits costs."""
    configs = [
        {"tau_small": s, "tau_layer": a, "tau_token": b} for s in (0.0, 1.0) for a in (0.0, 1.0) for b in (0.0, 0.1)
    ]
    cost = [
        (0.25 if c["tau_small"] else 1) * (0.5 if c["tau_layer"] else 1) * (0.8 if c["tau_token"] else 1)
        for c in configs
    ]
    losses = {"error": np.zeros((8, 300), bool), "flops": np.repeat(np.array(cost)[:, None], 300, axis=1)}
    small, exits, tokens = what_each_brought(
        rf.calibrate(rf.LossTable(configs, losses), rf.Problem("error <= 0.1", minimize="flops"))
    )
    assert [str(small), str(exits), str(tokens)] == [
        "the small model brought x4",
        "exits brought x2",
        "tokens brought x1.25",
    ]
    assert (small.alone, exits.alone) == (4.0, 2.0)


def test_settings_that_cost_nothing() -> None:
    configs = [{"tau_layer": a, "tau_token": b} for a in (0.0, 1.0) for b in (0.0, 0.1)]
    cost = np.repeat([[1.0], [0.5], [0.0], [0.0]], 300, axis=1)
    table = rf.LossTable(configs, {"error": np.zeros((4, 300), bool), "relative_cost": cost})
    exits, tokens = what_each_brought(rf.calibrate(table, rf.Problem("error <= 0.1", minimize="relative_cost")))
    assert (exits.alone, exits.without, exits.together) == (1e6, 2.0, 1e6)
    assert str(tokens) == "tokens brought nothing that the others do not"


def test_the_page_has_it_all(certificate: rf.Certificate, tmp_path: Path) -> None:
    Gain(2.5, 2.2, 0.91, 0.9, seconds_alone=1.9, drop_error=0.01).save(tmp_path)
    rows = [Alternative("certified", 0.9, 600, 7.0, 1.7, True), Alternative("TF-IDF", 0.92, 600, 0.75, 0.04)]
    save_alternatives(tmp_path, rows)
    step = tmp_path / "training" / FINE_TUNED
    step.mkdir(parents=True)
    curve(0.5).save(step)
    write_page(tmp_path, certificate)
    html = (tmp_path / PAGE).read_text()
    for words in (
        "x2.2 faster here in batches of 32, x1.9 faster one text at a time",
        "exits brought x2; tokens brought x1.25",
        "What else you could do",
        "TF-IDF: more accurate and faster than the certified setting.",
        "More texts to learn from",
        "Moving 300 of 600 calibration texts to training would take the full model from 0.090 wrong to about",
        "It would cost certainty: the drop must be measured about 0.013 below its limit now, and about 0.018",
    ):
        assert words in html
    assert [section.title for section in sections(tmp_path / "nothing", certificate)] == []


def curve(power: float, steps: int = 250, texts: int = 32) -> LearningCurve:
    """Wrong answers fall with this power of the texts learnt from, .4 after 1,000."""
    before = texts * np.arange(steps) + texts / 2
    wrong = np.minimum(0.75, 0.4 * (before / 1000) ** -power)
    right = np.random.default_rng(0).binomial(texts, 1 - wrong)
    return LearningCurve((texts,) * steps, tuple(map(int, right)))


def test_a_learning_curve_is_continued_and_a_flat_one_is_not(tmp_path: Path) -> None:
    falls, flat = curve(0.5), curve(0.0)
    assert falls.error_at(16_000) == pytest.approx(0.4 / 4, rel=0.15)
    assert flat.error_at(16_000) is None
    assert "No fall is clear" in flat.sentences(1000)[1]
    assert LearningCurve((32,) * 3, (20,) * 3).error_at(1000) is None
    factor = falls.error_at(falls.n + 4000) / falls.error_at(falls.n)  # type: ignore[operator]
    assert factor < 0.9
    assert "would bring nothing here" in falls.sentences(8000, wrong=0.0)[1]
    assert f"from 0.080 wrong to about {0.08 * factor:.3f}, " in falls.sentences(8000, wrong=0.08)[1]
    falls.save(tmp_path)
    assert LearningCurve.load(tmp_path) == falls
    assert LearningCurve.load(tmp_path / "nothing") is None


def test_fine_tuning_leaves_its_learning_curve(encoder_folder: Path) -> None:
    from riskfront.transformers._backbones.backbone import load_classifier

    tokens, labels = tiny.tokens_and_labels(tiny.make_frame(100, 1))
    model = load_classifier(str(encoder_folder), 3)
    found = fine_tune(model, tokens, labels, FineTuning(epochs=2), progress=False)
    assert found is not None
    assert (found.n, len(found.texts)) == (100, 4)
    assert all(0 <= right <= n for right, n in zip(found.right, found.texts, strict=True))


def test_threads_are_chosen_by_the_first_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    now, said = [0.0], list[str]()
    monkeypatch.setattr(fine_tuning.time, "perf_counter", lambda: now[0])
    set_threads, here = list[int](), [4]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: (set_threads.append(n), here.__setitem__(0, n)))

    def step(seconds: dict[int, float]) -> Any:
        return lambda: now.__setitem__(0, now[0] + seconds[here[0]])

    with measured_threads(step({4: 9.0, 2: 3.0, 1: 1.0}), said.append) as chosen:
        assert (chosen, here) == (1, [1])
    assert here == [4]
    (line,) = said
    assert line.startswith("training with 1 of 4 threads: the first steps take 1.00 s with 1 and 9.00 s with 4")
    with measured_threads(step({4: 1.0, 2: 0.95, 1: 2.0}), said.append) as chosen:
        assert chosen == 4, "no clear difference"
    with measured_threads(None, said.append) as chosen:
        assert chosen == 4, "a device that is no processor"
    assert len(said) == 1


def test_a_full_model_that_learnt_nothing_is_named() -> None:
    report = ExitReport(0, (0.8, 0.85), 0.27, 0.26, 260)
    assert "it has not learnt the task, and a drop of accuracy from it means little" in str(report)
    assert "not learnt" not in str(ExitReport(0, (0.8, 0.85), 0.9, 0.26, 260))


def test_words_of_what_was_brought() -> None:
    assert str(Brought("tokens", 1.5, 4.0, 6.0)) == "tokens brought x1.5"
