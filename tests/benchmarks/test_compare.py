"""The comparisons with other tools count what they say, on the same examples."""

import numpy as np
import pytest

from benchmarks import compare_tools as ask
from benchmarks.compare_tasks import THRESHOLDS, labels_task, precision_task, two_classes, two_thresholds_task


def test_the_truth_of_a_threshold() -> None:
    task, (_, _, y, score) = precision_task(), two_classes()
    said = score >= 0.6
    truth = task.judge((0.6,))
    assert truth.room == pytest.approx(y[said].mean() - 0.9)
    assert truth.objective == pytest.approx((said & (y == 1)).sum() / y.sum())
    holding = [task.judge((at,)) for at in THRESHOLDS]
    assert task.best() == max(found.objective for found in holding if found.room >= 0)


def test_draws_come_from_the_population_and_are_the_same_for_every_tool() -> None:
    task = two_thresholds_task()
    X, y = task.draw(np.random.default_rng([0, 1]))
    again, _ = task.draw(np.random.default_rng([0, 1]))
    assert X.shape == (1000, 12)
    assert set(y) == {0, 1}
    np.testing.assert_array_equal(X, again)


def test_lines_are_those_of_the_body() -> None:
    assert ask.lines_of(ask.our_labels) == 6
    assert ask.lines_of(ask.mapie_recall) == 4  # without its import


def test_ours_answers_every_task() -> None:
    for task, tool in ((precision_task(3000), ask.our_precision), (two_thresholds_task(4000), ask.our_two)):
        setting = ask.quietly(tool, task.model, *task.draw(np.random.default_rng(0)))
        assert len(setting) == len(task.settings)


def test_beside_mapie() -> None:
    pytest.importorskip("mapie", reason="riskfront[compare] is not installed")
    from benchmarks import compare_mapie

    make, tools = compare_mapie.TASKS["recall"]
    task = make()
    found = compare_mapie.compared(task, tools, trials=2)
    assert found["tool"].tolist() == list(tools)
    assert found["found"].between(0, 1).all()
    assert "| riskfront |" in compare_mapie.markdown(found, task)
    few = labels_task(60)
    X, y = few.draw(np.random.default_rng(0))
    assert few.judge(ask.mapie_labels_on_average(None, X, y)).objective > 0


def test_beside_tuned_thresholds() -> None:
    from benchmarks import compare_tuned_threshold

    found = compare_tuned_threshold.compared("precision", trials=2).set_index("tool")
    assert found.loc["TunedThresholdClassifierCV, cv='prefit'", "found"] == 1
    assert found.loc["riskfront", "threshold"] > found.loc["TunedThresholdClassifierCV, cv='prefit'", "threshold"]
