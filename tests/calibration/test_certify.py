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


def test_calibrate_on_sorted_rows_bets_in_random_order() -> None:
    false = 0
    for seed in range(40):
        data = draw(seed, 1800)
        false += bool(rf.calibrate(table(data, np.argsort(~data["label"], kind="stable")), PROBLEM))
    assert false <= 5


def test_one_file_loaded_twice_is_refused(tmp_path: object) -> None:
    path = f"{tmp_path}/losses.parquet"
    table(draw(3, 400)).save(path)
    opt, test = rf.LossTable.load(path), rf.LossTable.load(path)
    with pytest.raises(InvalidInputError, match="planning examples too"):
        rf.certify(rf.ParetoTesting().plan(opt, PROBLEM), test, PROBLEM)


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


def test_independent_samples_are_not_taken_for_shared() -> None:
    """Equal contents are common where losses are 0/1, and in draws with replacement from few examples."""
    rng = np.random.default_rng(0)
    few = binary(9, 300, 15)
    for seed in range(100):
        assert not of(binary(seed, 400, 1)).shares_examples(of(binary(seed + 500, 400, 1)))
        assert not of(binary(seed, 400, 8)).shares_examples(of(binary(seed + 500, 100, 8)))
        draws = [few[:, rng.integers(0, 300, size)] for size in (400, 250)]
        assert not of(draws[0]).shares_examples(of(draws[1]))


def test_tables_without_a_common_setting_or_loss_share_nothing_that_can_be_seen() -> None:
    one = rf.LossTable([{"t": 1}], {"error": binary(1, 50, 1)})
    assert not one.shares_examples(rf.LossTable([{"t": 2}], {"error": binary(1, 50, 1)}))
    assert not one.shares_examples(rf.LossTable([{"t": 1}], {"other": binary(1, 50, 1)}))
