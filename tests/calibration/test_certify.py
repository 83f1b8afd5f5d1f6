"""certify: whatever order the rows are in, and never on examples that planned, however they got there."""

import numpy as np
import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError

PROBLEM = rf.Problem(["score_loss <= 0.15"], minimize=["cost"])


def draw(seed: int, n: int, m: int = 4) -> dict[str, np.ndarray]:
    """Beta losses whose mean depends on the label; at every setting the mean over labels is 0.155, above the limit."""
    rng = np.random.default_rng([seed, 99])
    label = rng.random(n) < 0.5
    losses = np.where(label, rng.beta(1.1, 8.9, (m, n)), rng.beta(2, 8, (m, n)))
    return {"label": label, "score_loss": losses, "cost": np.repeat(np.linspace(1, 0, m)[:, None], n, axis=1)}


def table(data: dict[str, np.ndarray], order: np.ndarray | None = None) -> rf.LossTable:
    at = np.arange(len(data["label"])) if order is None else order
    configs = [{"t": i} for i in range(len(data["cost"]))]
    losses = {name: data[name][:, at] for name in ("score_loss", "cost")}
    return rf.LossTable(configs, losses, groups={"label": data["label"][at]})


@pytest.mark.slow
def test_sorted_rows_give_no_false_certificates() -> None:
    """Bets in the order of a file that is sorted by label won 200 times of 200 on a limit that is broken."""
    false = 0
    for seed in range(60):
        data = draw(seed, 1500)
        plan = rf.ParetoTesting().plan(table(draw(seed + 1000, 300)), PROBLEM)
        false += bool(rf.certify(plan, table(data, np.argsort(~data["label"], kind="stable")), PROBLEM))
    assert false <= 6  # at a true mean above the limit, fewer than delta


@pytest.mark.parametrize("order", ["label", "losses", "reversed"])
def test_the_certificate_does_not_depend_on_the_order_of_rows(order: str) -> None:
    easy = rf.Problem(["score_loss <= 0.18"], minimize=["cost"])
    data, plan = draw(1, 800), rf.ParetoTesting().plan(table(draw(2, 300)), easy)
    orders = {"label": data["label"], "losses": data["score_loss"][0], "reversed": -np.arange(800)}
    again = rf.certify(plan, table(data, np.argsort(orders[order], kind="stable")), easy)
    found = rf.certify(plan, table(data), easy)
    assert found
    assert again.to_dict() == found.to_dict()


@pytest.mark.slow
def test_calibrate_on_sorted_rows_bets_in_random_order() -> None:
    false = 0
    for seed in range(40):
        data = draw(seed, 1800)
        false += bool(rf.calibrate(table(data, np.argsort(~data["label"], kind="stable")), PROBLEM))
    assert false <= 5


def binary(seed: int, n: int, m: int) -> np.ndarray:
    return np.random.default_rng([seed, 7]).random((m, n)) < 0.1


def of(losses: np.ndarray) -> rf.LossTable:
    return rf.LossTable([{"t": i} for i in range(len(losses))], {"error": losses, "cost": losses * 0.5})


SHUFFLED = np.random.default_rng(5).permutation(600)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(binary(1, 600, 1), binary(1, 600, 1), id="one setting, 0/1, same order"),
        pytest.param(binary(1, 600, 20), binary(1, 600, 20)[:, SHUFFLED], id="shuffled"),
        pytest.param(binary(1, 600, 40), binary(1, 600, 40)[:, SHUFFLED[:200]], id="a part of it, shuffled"),
        pytest.param(binary(1, 600, 20), binary(1, 600, 20).astype(float), id="in another type"),
        pytest.param(
            np.random.default_rng(1).random((3, 600)),
            np.concatenate(
                [np.random.default_rng(1).random((3, 600))[:, :40], np.random.default_rng(2).random((3, 500))], 1
            ),
            id="forty of many",
        ),
    ],
)
def test_shared_examples_are_found_by_content(one: np.ndarray, other: np.ndarray) -> None:
    assert of(one).shares_examples(of(other))


@pytest.mark.slow
def test_independent_samples_are_not_taken_for_shared() -> None:
    """Equal contents are common where losses are 0/1, and in draws with replacement from few examples."""
    rng = np.random.default_rng(0)
    few = binary(9, 300, 15)
    for seed in range(100):
        assert not of(binary(seed, 400, 1)).shares_examples(of(binary(seed + 500, 400, 1)))
        assert not of(binary(seed, 400, 8)).shares_examples(of(binary(seed + 500, 100, 8)))
        draws = [few[:, rng.integers(0, 300, size)] for size in (400, 250)]
        assert not of(draws[0]).shares_examples(of(draws[1]))


def test_a_tenth_of_the_planning_examples_among_the_testing_ones_is_found() -> None:
    """20 of 220: by their continuous costs, although 20 pairs alone might be chance."""
    rng = np.random.default_rng(11)
    configs, problem = [{"k": k} for k in range(4)], rf.Problem("error <= 0.2", minimize="cost")

    def part(n: int) -> dict[str, np.ndarray]:
        return {"error": rng.random((4, n)) < 0.05, "cost": rng.random((4, n))}

    old, new = part(200), part(200)
    plan = rf.ParetoTesting().plan(rf.LossTable(configs, old), problem)
    mixed = {name: np.concatenate([new[name], old[name][:, 30:50]], axis=1) for name in new}
    with pytest.raises(InvalidInputError, match="planning examples too"):
        rf.certify(plan, rf.LossTable(configs, mixed), problem)
    assert rf.certify(plan, rf.LossTable(configs, new), problem)


@pytest.mark.slow
def test_costs_of_few_inputs_are_not_taken_for_shared() -> None:
    """Costs computed from 3,000 lengths are continuous numbers, and independent draws meet in some of them."""
    lengths = np.random.default_rng(3).random(3000)
    found = 0
    for seed in range(100):
        rng = np.random.default_rng([21, seed])
        tables = [
            rf.LossTable([{"k": 1}], {"error": np.zeros((1, n)), "cost": lengths[None, rng.integers(0, 3000, n)]})
            for n in (200, 220)
        ]
        found += tables[0].shares_examples(tables[1])
    assert found <= 2


def test_tables_without_a_common_setting_or_loss_share_nothing_that_can_be_seen() -> None:
    one = rf.LossTable([{"t": 1}], {"error": binary(1, 50, 1)})
    assert not one.shares_examples(rf.LossTable([{"t": 2}], {"error": binary(1, 50, 1)}))
    assert not one.shares_examples(rf.LossTable([{"t": 1}], {"other": binary(1, 50, 1)}))


def _written(seed: int = 0, n: int = 200) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"error": rng.random((40, n)) < 0.2, "cost": rng.random((40, n)), "label": rng.integers(0, 3, n)}


def _table_as(data: dict[str, np.ndarray], how: str) -> rf.LossTable:
    """The same file, as it comes back from other tools."""
    settings, losses = [{"a": k} for k in range(40)], {"error": data["error"], "cost": data["cost"]}
    groups = {"label": data["label"]}
    order = np.random.default_rng(5).permutation(data["error"].shape[1])
    if how == "single precision":
        losses["cost"] = losses["cost"].astype(np.float32)
    elif how == "settings as decimals":
        settings = [{"a": float(k)} for k in range(40)]
    elif how == "groups as texts":
        groups = {"label": data["label"].astype(str)}
    elif how == "costs rounded":
        losses["cost"] = losses["cost"].round(3)
    elif how == "reordered":
        losses, groups = {name: array[:, order] for name, array in losses.items()}, {"label": data["label"][order]}
    elif how == "half of it":
        losses, groups = (
            {name: array[:, order[:100]] for name, array in losses.items()},
            {"label": data["label"][order[:100]]},
        )
    elif how == "more columns":
        losses["more"], groups["site"] = losses["cost"] ** 2, order % 4
    return rf.LossTable(settings, losses, groups)


@pytest.mark.parametrize(
    "how",
    [
        "the same",
        "single precision",
        "settings as decimals",
        "groups as texts",
        "costs rounded",
        "reordered",
        "half of it",
        "more columns",
    ],
)
def test_one_file_is_known_again_however_it_was_stored(how: str) -> None:
    problem = rf.Problem("error <= 0.1", minimize="cost")
    plan = rf.ParetoTesting(opt_fraction=0.5).plan(_table_as(_written(), "the same"), problem)
    with pytest.raises(rf.InvalidInputError, match="had no part in the plan"):
        rf.certify(plan, _table_as(_written(), how), problem)
    rf.certify(plan, _table_as(_written(1), how), problem)  # other examples, stored in the same way


def test_copies_of_examples_are_refused() -> None:
    """Each example is evidence once: four copies of 90 examples gave certificates to settings at the limit in all draws."""
    problem, data = rf.Problem("error <= 0.1", minimize="cost"), _written(n=100)
    table = rf.LossTable([{"a": k} for k in range(40)], {"error": data["error"], "cost": data["cost"]})
    four = rf.LossTable(table.configs, {name: np.tile(table.losses(name), 4) for name in table.loss_names})
    drawn = table.subset(np.random.default_rng(0).integers(0, 100, 400))
    for copies, words in ((four, "300 have the same losses as others"), (drawn, "are repetitions of others")):
        for door in (rf.calibrate, lambda t, p: rf.frontier(t, p, [0.1, 0.2])):
            with pytest.raises(rf.InvalidInputError, match=words):
                door(copies, problem)
        plan = rf.ParetoTesting(opt_fraction=0.5).plan(_table_as(_written(3), "the same"), problem)
        with pytest.raises(rf.InvalidInputError, match=words):
            rf.certify(plan, copies, problem)
    rows = rf.LossTable(
        four.configs, {name: four.losses(name) for name in four.loss_names}, {"prompt": np.tile(np.arange(100), 4)}
    )
    assert rf.calibrate(rows, problem, clusters="prompt").clusters == "prompt"
    few = rf.LossTable([{"a": 0}], {"error": np.tile([[0, 0, 0, 1]], 100), "cost": np.ones((1, 400))})
    rf.calibrate(few, problem)  # examples that lose the same are no copies


def test_what_else_was_asked_of_the_same_examples_is_listed() -> None:
    """By certify and by frontier too, which answer questions as calibrate does."""
    data = _written(17)
    table = rf.LossTable([{"a": k} for k in range(40)], {"error": data["error"], "cost": data["cost"]})
    problem = rf.Problem("error <= 0.3", minimize="cost")
    method = rf.ParetoTesting(opt_fraction=0.5)
    opt, test = table.split(0.5)
    plan = method.plan(opt, problem)
    first = rf.certify(plan, test, problem)
    tighter = rf.Problem("error <= 0.25", minimize="cost")
    second = rf.certify(method.plan(opt, tighter), test, tighter)
    assert first.earlier_looks == ()
    assert ["error <= 0.3" in look.asked for look in second.earlier_looks] == [True]
    assert rf.certify(plan, test, problem).earlier_looks == ()
    rf.frontier(table, problem, [0.2, 0.22, 0.3], method=method)
    asked = rf.calibrate(table, tighter, method=method).earlier_looks
    assert [look.asked.split(" together")[0] for look in asked] == ["error <= 0.2", "error <= 0.22", "error <= 0.3"]
    assert "one of 3 limits of a frontier" in asked[0].asked


@pytest.mark.parametrize("cost", ["the same", "another", "one for all"])
@pytest.mark.parametrize("split", ["of the table", "of the rows"])
def test_copies_on_both_sides_of_a_split_are_refused(cost: str, split: str) -> None:
    """Of five copies some plan and some test, and neither part shows how often each comes (.7 false certificates)."""
    rng, problem = np.random.default_rng(0), rf.Problem("error <= 0.1", minimize="cost")
    costs = {
        "the same": np.tile(rng.random((20, 100)), 5),
        "another": rng.random((20, 500)),
        "one for all": np.repeat(np.linspace(1, 2, 20)[:, None], 500, axis=1),
    }
    losses = {"error": np.tile(rng.random((20, 100)) < 0.05, 5), "cost": costs[cost]}
    whole = rf.LossTable([{"s": s} for s in range(20)], losses)
    opt, test = whole.split(0.3)
    if split == "of the rows":
        plans = rng.random(500) < 0.3
        opt, test = (rf.LossTable(whole.configs, {k: v[:, of] for k, v in losses.items()}) for of in (plans, ~plans))
    with pytest.raises(rf.InvalidInputError, match=r"needs every example once|had no part in the plan"):
        rf.certify(rf.ParetoTesting().plan(opt, problem), test, problem)


def test_a_mean_in_every_row_is_no_outcome() -> None:
    """A column that holds the mean error of the setting in all rows was certified in .77 of runs at the limit."""
    rng, problem = np.random.default_rng(0), rf.Problem("error <= 0.1", minimize="cost")
    wrong, cost = rng.random((5, 400)) < 0.05, rng.random((5, 400))
    means = np.repeat(wrong.mean(axis=1)[:, None], 400, axis=1)
    configs = [{"s": s} for s in range(5)]
    table = rf.LossTable(configs, {"error": means, "cost": cost})
    for door in (rf.calibrate, lambda t, p: rf.frontier(t, p, {"error": [0.1, 0.2]}, simultaneous=True)):
        with pytest.raises(
            rf.InvalidInputError, match="an outcome of each example; 'error' is one number in each setting"
        ):
            door(table, problem)
    opt, test = table.split(0.3)
    with pytest.raises(rf.InvalidInputError, match="must be on an outcome of each example"):
        rf.certify(rf.ParetoTesting().plan(opt, problem), test, problem)
    assert rf.calibrate(rf.LossTable(configs, {"error": np.zeros((5, 400)), "cost": cost}), problem)  # nobody errs


def test_a_price_of_the_setting_may_be_limited() -> None:
    rng = np.random.default_rng(0)
    wrong, cost = rng.random((5, 400)) < 0.05, rng.random((5, 400))
    configs = [{"s": s} for s in range(5)]
    for each in (
        [0.05, 0.1, 0.2, 0.4, 0.8],
        [1 / 12, 0.25, 0.5, 11 / 12, 1.0],
        np.linspace(0.1, 0.9, 5) ** 2,
        [0.004217] * 5,
    ):
        price = np.repeat(np.asarray(each)[:, None], 400, axis=1)
        table = rf.LossTable(configs, {"error": wrong, "cost": cost, "price": price})
        certificate = rf.calibrate(table, rf.Problem(["error <= 0.1", "price <= 0.3"], minimize="cost"))
        assert certificate
        assert certificate.certified["price"].max() <= 0.3


def test_a_quantile_of_a_price_may_be_limited() -> None:
    rng = np.random.default_rng(0)
    wrong, cost = rng.random((5, 400)) < 0.05, rng.random((5, 400))
    configs = [{"s": s} for s in range(5)]
    quantile = rf.Problem(["error <= 0.1", "q0.5(price) <= 3.5"], minimize="cost")
    prices = np.repeat(np.linspace(1.5, 2.5, 5)[:, None], 400, axis=1)
    assert rf.calibrate(rf.LossTable(configs, {"error": wrong, "cost": cost, "price": prices}), quantile)
