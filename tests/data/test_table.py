"""LossTable: parts, sums, splits, identity."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.splits import permutation
from riskfront._problems.terms import Term
from riskfront.errors import InvalidInputError
from tests.support.tables import random_table


def test_what_a_table_says_of_itself() -> None:
    table = random_table()
    assert table.n_configs == 20
    assert table.n_examples == 300
    assert table.config_names == ["a", "b"]
    assert table.config(7) == {"a": 1, "b": 2}
    assert type(table.config(7)["a"]) is int
    assert table.group_names == ["label"]
    assert "20 settings (a, b) x 300 examples" in repr(table)
    assert table.is_binary("error")
    assert not table.is_binary("drop")
    assert table.bounds("drop") == (-1, 1)


def test_the_table_cannot_be_changed_through_what_it_returns() -> None:
    table = random_table()
    copy = table.configs
    copy["a"] = 9
    assert table.config(7)["a"] == 1
    with pytest.raises(ValueError, match=r"read-only"):
        table.losses("error")[0, 0] = True


def test_split_is_a_partition() -> None:
    table = random_table(n=101)
    opt, test = table.split(0.3, seed=5)
    assert (opt.n_examples, test.n_examples) == (30, 71)
    both = np.sort(np.concatenate([opt.losses("cost"), test.losses("cost")], axis=1), axis=1)
    np.testing.assert_array_equal(both, np.sort(table.losses("cost"), axis=1))
    assert opt.same_settings(test)
    again, _ = table.split(0.3, seed=5)
    np.testing.assert_array_equal(again.losses("cost"), opt.losses("cost"))
    other, _ = table.split(0.3, seed=6)
    assert (other.losses("cost") != opt.losses("cost")).any()


def test_split_never_leaves_a_part_empty() -> None:
    table = random_table(n=3)
    assert [part.n_examples for part in table.split(0.01)] == [1, 2]
    assert [part.n_examples for part in table.split(0.99)] == [2, 1]
    assert [part.n_examples for part in table.split(0.0)] == [0, 3]


PINNED = [[1, 0, 5, 7, 4, 2, 6, 3], [3, 7, 5, 1, 6, 2, 0, 4], [0, 7, 6, 2, 5, 4, 1, 3]]


def test_permutation_is_fixed_for_all_time() -> None:
    """Certificates are recomputed from the seed: these numbers must never change."""
    assert sorted(permutation(50, 3).tolist()) == list(range(50))
    assert permutation(8, 0).tolist() == PINNED[0]
    assert permutation(8, 1).tolist() == PINNED[1]
    assert permutation(8, 2**70).tolist() == PINNED[2]


@pytest.mark.parametrize("seed", range(5))
def test_split_is_independent_of_data_simulated_with_the_same_seed(seed: int) -> None:
    """default_rng(s).random and a plain PCG64(s) walk through the same numbers. A split by them put every loss of the first
    setting into opt and none into test: a setting with risk .3 was certified at .1."""
    n = 400
    losses = np.random.default_rng(seed).random((3, n)) < 0.3
    table = rf.LossTable([{"t": i} for i in range(3)], {"error": losses, "cost": np.ones((3, n))})
    opt, test = table.split(0.5, seed=seed)
    gap = opt.means("error") - test.means("error")
    assert (np.abs(gap) < 5 * np.sqrt(0.21 * 4 / n)).all()


def test_subset_by_position_and_by_mask() -> None:
    table = random_table()
    part = table.subset([5, 3, 3])
    np.testing.assert_array_equal(part.losses("cost"), table.losses("cost")[:, [5, 3, 3]])
    assert part.group("label").codes.tolist() == table.group("label").codes[[5, 3, 3]].tolist()
    np.testing.assert_array_equal(part.subset([2, 0]).losses("cost"), table.losses("cost")[:, [3, 5]])
    mask = np.arange(300) % 3 == 0
    np.testing.assert_array_equal(table.subset(mask).losses("error"), table.losses("error")[:, mask])
    np.testing.assert_array_equal(table.select(np.arange(20) > 17).losses("error"), table.losses("error")[18:])


def test_select_keeps_some_settings() -> None:
    table = random_table()
    some = table.select([4, 1])
    assert some.config(0) == table.config(4)
    np.testing.assert_array_equal(some.losses("drop"), table.losses("drop")[[4, 1]])
    assert not some.same_settings(table)
    assert some.bounds("drop") == (-1, 1)


TERMS = [
    Term("error"),
    Term("cost"),
    Term("drop", per="label"),
    Term("error", given="answered"),
    Term("error", per="label", given="answered"),
    Term("latency", above=50.0),
]


def plainly(table: rf.LossTable, term: Term) -> tuple[list[list[int]], list[list[float]]]:
    """n and total by loops."""
    losses = table.losses(term.loss).astype(float) if term.above is None else table.losses(term.loss) > term.above
    labels = [table.group(term.per).levels[code] for code in table.group(term.per).codes] if term.per else None
    n, total = [], []
    for row in range(table.n_configs):
        kept = [True] * table.n_examples if term.given is None else table.losses(term.given)[row].tolist()
        levels = table.group(term.per).levels if term.per else [None]
        masks = [[k and (labels is None or labels[i] == level) for i, k in enumerate(kept)] for level in levels]
        n.append([sum(mask) for mask in masks])
        total.append([sum(float(losses[row, i]) for i in range(table.n_examples) if mask[i]) for mask in masks])
    return n, total


@pytest.mark.parametrize("term", TERMS, ids=str)
def test_sums_as_plain_loops(term: Term) -> None:
    table = random_table(n=60)
    for part in (table, table.split(0.4)[1], table.subset([1, 1, 1, 7, 30])):
        n, total = plainly(part, term)
        found = part.totals(term)
        assert np.broadcast_to(found.n, found.total.shape).tolist() == n
        np.testing.assert_allclose(found.total, total, rtol=1e-12)
        some = np.array([3, 0])
        fresh = part.subset(np.arange(part.n_examples))
        np.testing.assert_allclose(fresh.totals(term, some).total, np.array(total)[some], rtol=1e-12)
        np.testing.assert_allclose(part.totals(term, some).total, np.array(total)[some], rtol=1e-12)


@pytest.mark.parametrize("term", TERMS, ids=str)
def test_batched_sums_are_the_sums(term: Term) -> None:
    table = random_table(n=60)
    parts = [[0, 1, 2], list(range(30, 60)), [5, 5, 5, 9]]
    for part, alone in zip(table.batch(parts), map(table.subset, parts), strict=True):
        np.testing.assert_allclose(part.means(term), alone.means(term), rtol=1e-12)


def test_counts_of_binary_losses_are_integers() -> None:
    assert random_table().totals(Term("error", per="label")).total.dtype == np.int64
    assert random_table().totals(Term("latency", above=3.0)).total.dtype == np.int64


def test_sequences_keep_the_order() -> None:
    table = random_table(n=40)
    part = table.subset([9, 4, 30])
    values, condition, groups = part.sequences(Term("regret", per="label", given="answered"), np.array([2, 7]))
    np.testing.assert_array_equal(values, table.losses("regret")[[2, 7]][:, [9, 4, 30]])
    np.testing.assert_array_equal(condition, table.losses("answered")[[2, 7]][:, [9, 4, 30]])
    assert sorted(np.concatenate(groups).tolist()) == [0, 1, 2]


def test_a_group_as_a_condition() -> None:
    flags = np.arange(10) % 2
    table = rf.LossTable([{"t": 0}], {"e": np.arange(10)[None, :] / 10}, groups={"odd": flags})
    assert table.means(Term("e", given="odd"))[0, 0] == pytest.approx(0.5)


def test_fingerprint_sees_everything() -> None:
    table = random_table(n=30)
    parts = [
        table,
        random_table(seed=1, n=30),
        table.subset(np.arange(30)[::2]),
        table.split(0.5)[0],
        table.select([0]),
    ]
    assert len({part.sha256 for part in parts}) == len(parts)
    assert random_table(n=30).sha256 == table.sha256


def test_parts_know_what_they_share() -> None:
    table = random_table(n=30)
    opt, test = table.split(0.5)
    assert not opt.shares_examples(test)
    assert opt.shares_examples(table)
    assert table.shares_examples(table)
    assert table.subset([3, 4]).shares_examples(table.subset([4]))
    assert random_table(n=30).shares_examples(table)  # made again, the same contents
    assert not random_table(seed=1, n=30).shares_examples(table)
    assert not table.subset([]).shares_examples(table)


def test_equal_losses_of_examples_that_were_compared_themselves() -> None:
    """Texts of one length cost the same to the last digit: they are copies only where nobody compared the texts themselves."""
    random = np.random.default_rng(0)
    cost = random.random(40)[random.integers(40, size=600)]
    table = rf.LossTable([{"k": 0}], {"error": np.zeros((1, 600)), "cost": [cost]})
    problem = rf.Problem("error <= 0.1", minimize="cost")
    with pytest.raises(rf.errors.InvalidInputError, match="to the last digit"):
        rf.calibrate(table, problem, method="holm")
    compared = table.with_compared_examples()
    assert rf.calibrate(compared, problem, method="holm")
    with pytest.raises(rf.errors.InvalidInputError, match="repetitions of others"):
        rf.calibrate(compared.subset([*range(600), 0]), problem, method="holm")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "cost"),
    [
        (4000, lambda random, n: 1 + 0.001 * random.random(n)),  # single precision has 8,389 numbers there
        (200_000, lambda random, n: np.where(random.random(n) < 0.2, 0.0, random.random(n))),  # answers from a cache
        (1_000_000, lambda random, n: random.random(n)),
    ],
)
def test_numbers_that_single_precision_makes_equal_are_no_copies(n: int, cost: Callable[..., np.ndarray]) -> None:
    random = np.random.default_rng(0)
    costs, error = cost(random, n), random.random((1, n)) < 0.1
    problem = rf.Problem("error <= 0.2", minimize="cost")
    assert rf.calibrate(rf.LossTable([{"k": 0}], {"error": error, "cost": [costs]}), problem, method="holm")
    if n > 4000:  # in so narrow a range that many copies cannot be told from chance
        again = random.integers(0, n, n)
        with pytest.raises(rf.errors.InvalidInputError, match="to the last digit"):
            rf.calibrate(rf.LossTable([{"k": 0}], {"error": error[:, again], "cost": [costs[again]]}), problem)


def test_labelled_data_in_another_order_are_refused() -> None:
    """A pivot sorts its settings and examples; by position, each setting would get the losses of another."""
    models, n = ["small", "large", "medium"], 40
    names = [f"q{i}" for i in range(n)]
    rows = pd.DataFrame({"model": np.repeat(models, n), "example": np.tile(names, 3), "error": np.arange(3 * n) % 2})
    error = rows.pivot(index="model", columns="example", values="error")
    configs = [{"model": model} for model in models]
    with pytest.raises(rf.InvalidInputError, match="the list of settings has 'small' where loss 'error' has 'large'"):
        rf.LossTable(configs, {"error": error})
    with pytest.raises(
        rf.InvalidInputError, match="loss 'error' has 'large' where the data frame of settings has 'small'"
    ):
        rf.LossTable(pd.DataFrame({"llm": models}, index=models), {"error": error})
    ordered = error.loc[models]
    label = pd.Series(np.arange(n) % 2, index=names)
    with pytest.raises(
        rf.InvalidInputError, match="name examples in one order; loss 'error' has 'q0' where group 'label'"
    ):
        rf.LossTable(configs, {"error": ordered}, {"label": label[::-1]})
    with pytest.raises(rf.InvalidInputError, match="name settings in one order"):
        rf.LossTable(configs, {"error": ordered, "cost": error})
    table = rf.LossTable(configs, {"error": ordered}, {"label": label.loc[ordered.columns]})
    assert np.array_equal(table.losses("error"), ordered.to_numpy())
    assert rf.LossTable(configs, {"error": ordered}, {"label": label.reset_index(drop=True)}).n_examples == n


NO_SEEDS = (-1, 1.5, "0", True)
REFUSED: dict[str, tuple[Callable[[rf.LossTable], object], str]] = {
    **{f"a part of {share}": (lambda t, s=share: t.split(s), "opt_fraction must lie in") for share in (-0.1, 1.0, 1.5)},
    **{f"the seed {s!r}": (lambda t, s=s: t.split(0.5, seed=s), "seed must be a whole number") for s in NO_SEEDS},
    "two parts of one example": (lambda t: t.subset([0]).split(0.5), "needs at least 2; got 1"),
    "a condition of decimals": (lambda t: t.totals(Term("error", given="cost")), "'cost' must hold only 0 and 1"),
    "a condition of groups": (lambda t: t.totals(Term("error", given="label")), "only 0 and 1; got the groups"),
    "an unknown condition": (lambda t: t.totals(Term("error", given="nobody")), "no condition 'nobody'"),
    "an unknown loss": (lambda t: t.losses("eror"), "no loss 'eror'"),
    "an unknown group": (lambda t: t.group("y"), "no group 'y'"),
    "bounds of a loss without": (lambda t: t.bounds("latency"), "a limit on 'latency' needs bounds"),
    "a mask of another length": (lambda t: t.subset([True, False]), r"for each of 300 examples; got shape \(2,\)"),
    "examples that are not there": (lambda t: t.subset([0, 300]), r"examples must lie in 0\.\.299; got 0\.\.300"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    use, message = REFUSED[case]
    with pytest.raises(InvalidInputError, match=message):
        use(random_table())
