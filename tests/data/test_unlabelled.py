"""Batches of unlabelled examples: each belongs to one labelled example, whatever the order of rows, groups and conditions."""

import numpy as np
import pytest

import riskfront as rf
from riskfront._data.unlabelled_batches import ProxyMeans, with_batch_means

CONFIGS = [{"k": k} for k in range(3)]


def table(values: np.ndarray, groups: dict[str, np.ndarray] | None = None, **more: np.ndarray) -> rf.LossTable:
    return rf.LossTable(CONFIGS, {"judge": values, **more}, groups)


@pytest.mark.slow
def test_each_unlabelled_example_speaks_for_one_labelled_example() -> None:
    rng = np.random.default_rng(0)
    here, there = rng.random((3, 20)), rng.random((3, 85))
    joined, used = with_batch_means(table(here), table(there), [ProxyMeans("b", "judge")], seed=1)
    assert used == 80
    means = joined.losses("b").astype(float)
    assert means.shape == (3, 20)
    # the same batches at every setting: means of an example are means of four columns, and no column is used twice
    found = [_columns(there, means[:, i]) for i in range(20)]
    assert all(len(columns) == 4 for columns in found)
    assert len({column for columns in found for column in columns}) == 80
    assert joined.losses("judge") is not None
    assert joined.same_settings(joined.subset(np.arange(5)))


def _columns(there: np.ndarray, mean: np.ndarray) -> list[int]:
    """The four columns whose mean this is."""
    left, right = there[:, :, None] + there[:, None, :], {}
    pairs = [(i, j) for i in range(there.shape[1]) for j in range(i + 1, there.shape[1])]
    for i, j in pairs:
        right.setdefault(round(float(left[0, i, j]), 5), []).append((i, j))
    for i, j in pairs:
        wanted = 4 * mean[0] - left[0, i, j]
        for near in (round(wanted, 5), round(wanted + 1e-5, 5), round(wanted - 1e-5, 5)):
            for p, q in right.get(near, []):
                if len({i, j, p, q}) == 4 and np.allclose(left[:, i, j] + left[:, p, q], 4 * mean, atol=3e-6):
                    return [i, j, p, q]
    return []


def test_settings_are_found_by_their_values() -> None:
    rng = np.random.default_rng(0)
    here, there = rng.random((3, 4)), rng.random((3, 4))
    turned = rf.LossTable(CONFIGS[::-1], {"judge": there[::-1]})
    one, _ = with_batch_means(table(here), table(there), [ProxyMeans("b", "judge")], 0)
    other, _ = with_batch_means(table(here), turned, [ProxyMeans("b", "judge")], 0)
    means = np.sort(one.losses("b"), axis=1), np.sort(other.losses("b"), axis=1)
    assert np.allclose(*means)
    with pytest.raises(rf.InvalidInputError, match=r"every setting of the labelled ones; \{'k': 2\} is missing"):
        with_batch_means(table(here), rf.LossTable(CONFIGS[:2], {"judge": there[:2]}), [ProxyMeans("b", "judge")], 0)
    with pytest.raises(rf.InvalidInputError, match="the column 'k' is missing"):
        with_batch_means(
            table(here), rf.LossTable([{"j": k} for k in range(3)], {"judge": there}), [ProxyMeans("b", "judge")], 0
        )


def test_batches_are_of_the_group_of_their_example() -> None:
    rng = np.random.default_rng(0)
    here, there = np.arange(10) % 2, np.arange(60) % 3  # group 2 has no labelled example
    labelled = table(rng.random((3, 10)), {"g": here})
    others = table(np.repeat(there[None, :] / 2, 3, axis=0), {"g": there})
    joined, used = with_batch_means(labelled, others, [ProxyMeans("b", "judge", per="g")], 0)
    assert used == 40
    assert (joined.losses("b") == here / 2).all()


def test_an_example_without_others_of_its_group_stands_for_itself() -> None:
    rng = np.random.default_rng(0)
    labelled = table(rng.random((3, 10)), {"g": np.arange(10) % 2})
    others = table(np.zeros((3, 20)), {"g": np.zeros(20, dtype=int)})
    joined, _ = with_batch_means(labelled, others, [ProxyMeans("b", "judge", per="g")], 0)
    alone = np.arange(10) % 2 == 1
    assert (joined.losses("b")[:, ~alone] == 0).all()
    assert np.allclose(joined.losses("b")[:, alone], labelled.losses("judge")[:, alone])


@pytest.mark.parametrize("varies", [False, True])
def test_conditions_hold_in_batches_too(varies: bool) -> None:
    """Proxies are 1 where the condition holds and 0 elsewhere: every mean under it is 1."""
    rng = np.random.default_rng(0)
    if varies:
        ours, theirs = rng.random((3, 20)) < 0.7, rng.random((3, 100)) < 0.7
        labelled, others = table(rng.random((3, 20)), answered=ours), table(theirs.astype(float), answered=theirs)
    else:
        here, there = rng.random(20) < 0.7, rng.random(100) < 0.7
        labelled = table(rng.random((3, 20)), {"answered": here})
        others = table(np.repeat(there[None, :].astype(float), 3, axis=0), {"answered": there})
    joined, _ = with_batch_means(labelled, others, [ProxyMeans("b", "judge", given="answered")], 0)
    shown = joined.losses("b") if varies else joined.losses("b")[:, here]
    assert (shown == 1).all()


def test_a_part_of_a_table_can_have_batches() -> None:
    rng = np.random.default_rng(0)
    whole = table(rng.random((3, 30)))
    joined, _ = with_batch_means(whole.subset(np.arange(10)), table(rng.random((3, 50))), [ProxyMeans("b", "judge")], 0)
    assert joined.n_examples == 10
    assert (joined.losses("judge") == whole.losses("judge")[:, :10]).all()


def test_proxies_of_yes_and_no_agree_by_chance() -> None:
    """With few settings most contents come many times in both tables; that proves nothing."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        with_batch_means(
            table(rng.random((3, 50)) < 0.1), table(rng.random((3, 500)) < 0.1), [ProxyMeans("b", "judge")], 0
        )


def test_refusals() -> None:
    rng, wanted = np.random.default_rng(0), [ProxyMeans("b", "judge")]
    whole = table(rng.random((3, 100)))
    few = table(whole.losses("judge")[:, :30])
    mixed = table(np.concatenate([rng.random((3, 200)), whole.losses("judge")[:, :30]], axis=1))
    for here, there, words in (
        (whole.subset(np.arange(30)), whole, "must be others than the labelled ones"),  # by position
        (few, mixed, "must be others than the labelled ones"),  # by content
        (
            table(rng.random((3, 20))),
            table(rng.random((3, 19))),
            "at least as many unlabelled examples as labelled ones",
        ),
    ):
        with pytest.raises(rf.InvalidInputError, match=words):
            with_batch_means(here, there, wanted, 0)
    with_batch_means(few, table(rng.random((3, 200))), wanted, 0)
