"""Limits, objectives, problems: what they accept, refuse, parse and write down."""

from collections.abc import Callable

import numpy as np
import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError
from tests.support.tables import random_table


def test_limits_say_what_they_limit() -> None:
    assert str(rf.Limit("error", at_most=0.05)) == "error <= 0.05"
    assert str(rf.Limit("recall", at_least=0.9)) == "recall >= 0.9"
    assert rf.Limit("error", at_most=0.1, per="label", given="answered").name == "error per label given answered"
    assert rf.Limit("error", at_most=0.1, per="label", padded=True).name == "error per label (padded)"
    assert str(rf.Limit("latency", at_most=300, quantile=0.95)) == "0.95-quantile of latency <= 300"


def test_parse() -> None:
    assert rf.Limit.parse("error <= 0.05") == rf.Limit("error", at_most=0.05)
    assert rf.Limit.parse("error<=5%") == rf.Limit("error", at_most=0.05)
    assert rf.Limit.parse("error <= 5 percent per label") == rf.Limit("error", at_most=0.05, per="label")
    assert rf.Limit.parse("error at most 5 per cent") == rf.Limit("error", at_most=0.05)
    assert rf.Limit.parse("recall >= 0.9", p_value="betting") == rf.Limit("recall", at_least=0.9, p_value="betting")
    assert rf.Limit.parse("error ≤ 0.15 per label") == rf.Limit("error", at_most=0.15, per="label")
    assert rf.Limit.parse("error <= 0.02 given answered") == rf.Limit("error", at_most=0.02, given="answered")
    both = rf.Limit("error", at_most=0.02, per="label", given="answered")
    assert rf.Limit.parse("error <= 0.02 per label given answered") == both
    assert rf.Limit.parse("q0.95(latency) <= 300") == rf.Limit("latency", at_most=300.0, quantile=0.95)
    for text in ("error", "error <= x", "<= 0.05", "error <= 0.05 for label"):
        with pytest.raises(InvalidInputError, match=r"must read like"):
            rf.Limit.parse(text)


def test_the_same_problem_with_other_numbers() -> None:
    problem = rf.Problem(
        [rf.Limit("error", at_most=0.1), rf.Limit("recall", at_least=0.9)], ["cost"], ["gain"], delta=0.2
    )
    moved = problem.at((0.05, 0.8))
    assert [limit.value for limit in moved.limits] == [0.05, 0.8]
    assert moved.objectives == problem.objectives
    assert moved.delta == 0.2
    assert problem.at(0.3).limits[1] == problem.limits[1]
    assert {limit.p_value for limit in problem.using("betting").limits} == {"betting"}
    quantile = rf.Problem([rf.Limit("latency", at_most=3, quantile=0.9)], ["cost"])
    assert quantile.using("betting") == quantile


def test_json_round_trip() -> None:
    problem = rf.Problem(
        [rf.Limit("error", at_most=0.1, per="label"), rf.Limit("recall", at_least=0.9, p_value="betting")],
        minimize=["cost", rf.Objective("latency", given="answered")],
        maximize="gain",
        delta=0.05,
    )
    assert rf.Problem.from_dict(problem.to_dict()) == problem
    assert "together with probability at least 0.95" in str(problem)


def test_two_sides_of_one_loss_have_different_columns() -> None:
    problem = rf.Problem([rf.Limit("size", at_most=0.9), rf.Limit("size", at_least=0.1)], ["cost"])
    assert problem.limit_names == ["size (at most)", "size (at least)"]


def test_everyday_spelling() -> None:
    assert rf.Limit.parse("error < 0.05") == rf.Limit("error", at_most=0.05)
    assert rf.Limit.parse("accuracy > 95%") == rf.Limit("accuracy", at_least=0.95)
    both = rf.Problem("error <= 5 % and error <= 0.15 per label", minimize="cost")
    assert both.limits == (rf.Limit("error", at_most=0.05), rf.Limit("error", at_most=0.15, per="label"))
    # "and", "or" inside a name join nothing
    assert rf.Problem("bread and butter <= 0.1", minimize="cost").limits[0].loss == "bread and butter"
    assert rf.Problem("right or wrong <= 0.1", minimize="cost").limits[0].loss == "right or wrong"
    with pytest.raises(InvalidInputError, match="Give them as a list"):
        rf.Limit.parse("error <= 0.1 and recall >= 0.9")


def test_words_that_were_typed_come_back() -> None:
    said = rf.Limit("true_positive", given="positive", at_least=0.9, said="recall")
    assert (str(said), said.name) == ("recall >= 0.9", "recall")
    problem = rf.Problem([said], maximize=[rf.Objective("true_positive", given="predicted_positive", said="precision")])
    again = rf.Problem.from_dict(problem.to_dict())
    assert again == problem
    assert again.objectives[0].name == "precision"


ERROR = rf.Limit("error", at_most=0.1)
NO_DELTA = (0, 1, -0.1, 1.2, float("nan"), "0.1", True, None)
#: columns of certificates, frontiers and trials
COLUMNS = ("level", "p_value", "certified", "weight", "alpha", "violated", "trial")
BY_REGION = rf.Problem("error <= 0.1 per region", minimize="error")


def limit(**options: object) -> Callable[[], object]:
    return lambda: rf.Limit("error", **options)  # type: ignore[arg-type]


def problem(*limits: object, **options: object) -> Callable[[], object]:
    return lambda: rf.Problem([*limits], **{"minimize": "cost", **options})  # type: ignore[arg-type]


REFUSED = {
    "no loss": (lambda: rf.Limit("", at_most=0.1), "must name a loss; got ''"),
    "neither side": (limit(), "either at_most or at_least"),
    "both sides": (limit(at_most=0.1, at_least=0.2), "either at_most or at_least"),
    "a text as value": (limit(at_most="0.1"), "finite number; got '0.1'"),
    "a boolean as value": (limit(at_most=True), "finite number; got True"),
    "nan as value": (limit(at_most=float("nan")), "finite number; got nan"),
    "an unknown p-value": (limit(at_most=0.1, p_value="binomal"), "no p-value 'binomal'.*Did you mean 'binomial'"),
    "padding without a condition": (limit(at_most=0.1, padded=True), "padded=True needs a conditional limit"),
    "a quantile of 1": (limit(at_most=0.1, quantile=1.0), r"quantile must lie in \(0, 1\); got 1\.0"),
    "a lower quantile": (limit(at_least=0.1, quantile=0.5), "must use at_most"),
    "a quantile by betting": (limit(at_most=0.1, quantile=0.5, p_value="betting"), "tested by counting"),
    "a quantile of a drop": (limit(at_most=0.1, drop_from="full", quantile=0.9), "signed mean"),
    "the binomial test of a drop": (limit(at_most=0.1, drop_from="full", p_value="binomial"), "signed mean"),
    "a drop from a number": (limit(at_most=0.1, drop_from=3), "name a setting"),
    "a quantile of a ratio": (limit(at_most=1, over="b", quantile=0.9), "must ask for one thing"),
    "a ratio with a negative weight": (limit(at_most=1, over={"b": -1}), "factors above 0"),
    "the binomial test of a ratio": (limit(at_most=1, over="b", p_value="binomial"), "no share of yes and no"),
    "a gap from below": (limit(at_least=0.1, gap_per="g"), "must have at_most above 0 and no per"),
    "a gap per group": (limit(at_most=0.1, gap_per="g", per="h"), "must have at_most above 0 and no per"),
    "a gap by Hoeffding": (limit(at_most=0.1, gap_per="g", p_value="hoeffding"), "no share of yes and no"),
    "the worst 150 %": (limit(at_most=1, worst=1.5), "worst must be a share"),
    "a threshold without a worst share": (limit(at_most=1, threshold=0.5), "threshold to worst"),
    "weights without the largest": (limit(at_most=0.5, weights="w"), "need the largest"),
    "a largest weight without weights": (limit(at_most=0.5, largest_weight=3), "belongs to weights"),
    "the binomial test with a proxy": (limit(at_most=0.1, proxy="judge", p_value="binomial"), "tested by betting"),
    "the loss as its own proxy": (limit(at_most=0.1, proxy="error"), "another loss"),
    "a weight of no proxy": (limit(at_most=0.1, proxy_weight=0.5), "proxy_weight belongs"),
    **{
        f"a proxy and {', '.join(more)}": (limit(at_most=0.1, proxy="judge", **more), "no valid test with a proxy")
        for more in (
            {"quantile": 0.9},
            {"over": "answered"},
            {"gap_per": "g"},
            {"worst": 0.1},
            {"weights": "w", "largest_weight": 2},
            {"padded": True, "per": "g"},
        )
    },
    "an equality of a problem": (problem("accuracy = 90 %"), "Write 'accuracy <= 90 %' or 'accuracy >= 90 %'"),
    "an equality": (lambda: rf.Limit.parse("error == 0.05"), "a bound from one side"),
    "an alternative": (problem("error <= 0.05 or recall >= 0.9"), r"must hold all together.*delta / 2 each"),
    "no limit": (problem(), "at least one Limit"),
    "a number as limit": (problem(0.1), "at least one Limit"),
    "no objective": (problem(ERROR, minimize=[]), "at least one free objective"),
    "one limit twice": (problem(ERROR, "error <= 0.2"), "limits must speak of different things"),
    "limits that contradict": (problem(ERROR, "error >= 0.2"), "contradict"),
    "one objective both ways": (problem(ERROR, maximize=["cost"]), "objectives must differ"),
    "more levels than limits": (
        lambda: rf.Problem([ERROR], ["cost"]).at([0.1, 0.2]),
        "at most one alpha for each of 1",
    ),
    "groups that were not given": (lambda: BY_REGION.check_names(["error"], []), "--group-columns region"),
    **{f"a delta of {delta!r}": (problem(ERROR, delta=delta), r"delta must lie in \(0, 1\)") for delta in NO_DELTA},
    **{f"an objective named {name}": (problem(ERROR, minimize=[name]), "column of that name") for name in COLUMNS},
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(InvalidInputError, match=message):
        make()


TABLE = random_table()
FLOATS = rf.LossTable([{"t": 0}], {"e": np.array([[0.0, 1.0, 0.0]]), "cost": np.ones((1, 3))})
UNFIT = {
    "an unknown loss": ("eror <= 0.1", "no loss 'eror'.*Did you mean 'error'"),
    "an unknown group": ("error <= 0.1 per lable", "no group 'lable'.*Did you mean 'label'"),
    "an unknown condition": ("error <= 0.1 given answer", "no condition 'answer'.*Did you mean 'answered'"),
    "above the bounds": ("error <= 1.2", r"strictly between its bounds \(0, 1\); got 1\.2"),
    "per cent without the sign": ("error <= 5", r"Did you mean 5 %, which is 0\.05"),
    "at the lower bound": ("error <= 0", "strictly between its bounds"),
    "at the upper bound": ("error >= 1", "strictly between its bounds"),
    "at a bound below 0": ("drop <= -1", r"strictly between its bounds \(-1, 1\)"),
    "no bounds": ("latency <= 0.5", "needs bounds"),
    "the binomial test of a cost": (rf.Limit("cost", at_most=0.5, p_value="binomial"), "needs a 0/1 loss"),
    "the binomial test of padded losses": (
        rf.Limit("error", at_most=0.1, given="answered", padded=True, p_value="binomial"),
        "not padded",
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_problems_that_do_not_fit_the_table(case: str) -> None:
    wrong, message = UNFIT[case]
    for method in ("pareto-testing", "bonferroni"):
        with pytest.raises(InvalidInputError, match=message):
            rf.calibrate(TABLE, rf.Problem([wrong], ["cost"]), method=method)


def test_what_is_no_problem_of_the_table() -> None:
    binomial = rf.Problem([rf.Limit("e", at_most=0.1, p_value="binomial")], ["cost"])
    for table, wrong, message in (
        (TABLE, rf.Problem([ERROR], ["price"]), "no loss 'price'"),
        (TABLE, "error <= 0.1", "problem must be a Problem"),
        (FLOATS, binomial, "It holds only 0 and 1: store it as booleans or integers"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            rf.calibrate(table, wrong, method="holm")


def test_a_delta_that_looks_like_a_confidence_is_questioned() -> None:
    with pytest.warns(UserWarning, match=r"give delta=0\.1"):
        rf.Problem("error <= 0.1", minimize="cost", delta=0.9)
