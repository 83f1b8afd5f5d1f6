"""Limits, objectives, problems: what they accept, refuse, parse and write down."""

import numpy as np
import pandas as pd
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


BAD_LIMITS = {
    "neither side": ({}, "either at_most or at_least"),
    "both sides": ({"at_most": 0.1, "at_least": 0.2}, "either at_most or at_least"),
    "not a number": ({"at_most": "0.1"}, "finite number; got '0.1'"),
    "a boolean": ({"at_most": True}, "finite number; got True"),
    "nan": ({"at_most": float("nan")}, "finite number; got nan"),
    "unknown p-value": ({"at_most": 0.1, "p_value": "binomal"}, "no p-value 'binomal'.*Did you mean 'binomial'"),
    "padding without a condition": ({"at_most": 0.1, "padded": True}, "padded=True needs a conditional limit"),
    "a quantile of 1": ({"at_most": 0.1, "quantile": 1.0}, r"quantile must lie in \(0, 1\); got 1\.0"),
    "a lower quantile": ({"at_least": 0.1, "quantile": 0.5}, "must use at_most"),
    "a quantile by betting": ({"at_most": 0.1, "quantile": 0.5, "p_value": "betting"}, "tested by counting"),
}


@pytest.mark.parametrize("case", BAD_LIMITS)
def test_bad_limits(case: str) -> None:
    options, message = BAD_LIMITS[case]
    with pytest.raises(InvalidInputError, match=message):
        rf.Limit("error", **options)


def test_limits_need_a_loss() -> None:
    with pytest.raises(InvalidInputError, match=r"must name a loss; got ''"):
        rf.Limit("", at_most=0.1)


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


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.2, float("nan"), "0.1", True, None])
def test_delta_must_be_a_probability(delta: object) -> None:
    with pytest.raises(InvalidInputError, match=r"delta must lie in \(0, 1\); got"):
        rf.Problem([rf.Limit("error", at_most=0.1)], ["cost"], delta=delta)


def test_bad_problems() -> None:
    limit = rf.Limit("error", at_most=0.1)
    with pytest.raises(InvalidInputError, match=r"at least one Limit"):
        rf.Problem([], ["cost"])
    with pytest.raises(InvalidInputError, match=r"at least one Limit"):
        rf.Problem([0.1], ["cost"])
    assert rf.Problem(["error <= 0.1", limit.parse("cost <= 5 %")], ["cost"]).limits[0] == limit
    with pytest.raises(InvalidInputError, match=r"at least one free objective"):
        rf.Problem([limit])
    with pytest.raises(InvalidInputError, match=r"limits must speak of different things"):
        rf.Problem([limit, rf.Limit("error", at_most=0.2)], ["cost"])
    with pytest.raises(InvalidInputError, match=r"objectives must differ"):
        rf.Problem([limit], minimize=["cost"], maximize=["cost"])
    with pytest.raises(InvalidInputError, match=r"at most one alpha for each of 1 limits"):
        rf.Problem([limit], ["cost"]).at([0.1, 0.2])


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (rf.Limit("eror", at_most=0.1), "no loss 'eror'.*Did you mean 'error'"),
        (rf.Limit("error", at_most=0.1, per="lable"), "no group 'lable'.*Did you mean 'label'"),
        (rf.Limit("error", at_most=0.1, given="answer"), "no condition 'answer'.*Did you mean 'answered'"),
        (rf.Limit("error", at_most=1.2), r"strictly between its bounds \(0, 1\); got 1\.2"),
        (rf.Limit("error", at_most=0.0), "strictly between its bounds"),
        (rf.Limit("error", at_least=1.0), "strictly between its bounds"),
        (rf.Limit("drop", at_most=-1.0), r"strictly between its bounds \(-1, 1\)"),
        (rf.Limit("latency", at_most=0.5), "needs bounds"),
        (rf.Limit("cost", at_most=0.5, p_value="binomial"), "binomial test needs a 0/1 loss"),
        (rf.Limit("error", at_most=0.1, given="answered", padded=True, p_value="binomial"), "not padded"),
    ],
)
def test_problems_that_do_not_fit_the_table(limit: rf.Limit, message: str) -> None:
    for method in ("pareto-testing", "bonferroni"):
        with pytest.raises(InvalidInputError, match=message):
            rf.calibrate(random_table(), rf.Problem([limit], ["cost"]), method=method)


def test_unknown_objective() -> None:
    with pytest.raises(InvalidInputError, match=r"no loss 'price'"):
        rf.calibrate(random_table(), rf.Problem([rf.Limit("error", at_most=0.1)], ["price"]))


def test_binary_values_in_a_float_column_get_a_hint() -> None:
    table = rf.LossTable([{"t": 0}], {"e": np.array([[0.0, 1.0, 0.0]]), "cost": np.ones((1, 3))})
    with pytest.raises(InvalidInputError, match=r"It holds only 0 and 1: store it as booleans or integers"):
        rf.calibrate(table, rf.Problem([rf.Limit("e", at_most=0.1, p_value="binomial")], ["cost"]), method="holm")


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
    # "and" inside a name is no join
    assert rf.Problem("bread and butter <= 0.1", minimize="cost").limits[0].loss == "bread and butter"
    with pytest.raises(InvalidInputError, match="Give them as a list"):
        rf.Limit.parse("error <= 0.1 and recall >= 0.9")


def test_equalities_and_alternatives_are_explained() -> None:
    with pytest.raises(InvalidInputError, match=r"Write 'accuracy <= 90 %' or 'accuracy >= 90 %'"):
        rf.Problem("accuracy = 90 %", minimize="cost")
    with pytest.raises(InvalidInputError, match=r"a bound from one side; got 'error == 0\.05'"):
        rf.Limit.parse("error == 0.05")
    with pytest.raises(InvalidInputError, match=r"must hold all together.*delta / 2 each"):
        rf.Problem("error <= 0.05 or recall >= 0.9", minimize="cost")
    # "or" inside a name joins nothing
    assert rf.Problem("right or wrong <= 0.1", minimize="cost").limits[0].loss == "right or wrong"


def test_what_cannot_be_meant_is_said() -> None:
    with pytest.raises(InvalidInputError, match="contradict"):
        rf.Problem(["error <= 0.1", "error >= 0.2"], minimize="cost")
    with pytest.warns(UserWarning, match=r"give delta=0\.1"):
        rf.Problem("error <= 0.1", minimize="cost", delta=0.9)
    table = rf.LossTable([{"k": 0}], {"error": [[0, 1]], "cost": [[1, 2]]})
    with pytest.raises(InvalidInputError, match=r"Did you mean 5 %, which is 0\.05"):
        rf.calibrate(table, rf.Problem("error <= 5", minimize="cost"))
    with pytest.raises(InvalidInputError, match="problem must be a Problem"):
        rf.calibrate(table, "error <= 0.1")
    with pytest.raises(InvalidInputError, match="losses must be a dictionary"):
        rf.LossTable([{"k": 0}], pd.DataFrame({"error": [0, 1]}))
    with pytest.raises(InvalidInputError, match="draws a certificate"):
        rf.plots.plot_tradeoff(table)


def test_words_that_were_typed_come_back() -> None:
    said = rf.Limit("true_positive", given="positive", at_least=0.9, said="recall")
    assert (str(said), said.name) == ("recall >= 0.9", "recall")
    problem = rf.Problem([said], maximize=[rf.Objective("true_positive", given="predicted_positive", said="precision")])
    again = rf.Problem.from_dict(problem.to_dict())
    assert again == problem
    assert again.objectives[0].name == "precision"


def test_a_limit_in_groups_without_groups_says_where_to_give_them() -> None:
    problem = rf.Problem("error <= 0.1 per region", minimize="error")
    with pytest.raises(
        rf.InvalidInputError, match=r"groups=\{'region': values\}, or of a file the column, --group-columns region"
    ):
        problem.check_names(["error"], [])
