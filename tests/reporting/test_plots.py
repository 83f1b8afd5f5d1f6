"""The pictures: their plain values are checked; that they are drawn is checked without looking at pixels."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront import plots
from riskfront._reporting import certificate_charts
from tests.support import certificates
from tests.support.certificates import certificate

METHODS = ("pareto-testing", "bonferroni", "alpha-constrained")


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    import matplotlib

    matplotlib.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@cache
def results() -> pd.DataFrame:
    return rf.experiment.run(
        certificates.table(), certificates.problem("one"), methods=METHODS, alphas=[0.02, 0.05, 0.08], trials=12
    )


def made_up() -> pd.DataFrame:
    rows = {
        "method": ["b"] * 4 + ["a"] * 4,
        "p_value": "as given",
        "alpha": None,
        "trial": [0, 1, 2, 3] * 2,
        "violated": [True, False, False, False] + [False] * 4,
        "error": [0.1, 0.2, 0.3, np.nan, 0.0, 0.0, 1.0, 1.0],
    }
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- certificates


@pytest.mark.parametrize("name", certificates.NAMES)
def test_tradeoff_has_every_setting_once(name: str) -> None:
    of = certificate(name)
    data = plots.tradeoff_data(of)
    assert data.n_settings == len(data.status) == 60
    assert not data.thinned
    assert len({tuple(setting.items()) for setting in data.settings}) == 60
    assert data.counts[certificate_charts.CHOSEN] == (of.path["chosen"] > 0).sum()
    assert (
        data.counts[certificate_charts.CHOSEN] + data.counts[certificate_charts.CERTIFIED] == of.path["certified"].sum()
    )
    assert sum(data.counts[certificate_charts.TESTED :]) == len(of.path)
    names = [measure.name for measure in data.measures]
    assert np.array_equal(data.values[: len(of.path)], of.path[names].to_numpy(dtype=float))


def test_front_is_not_dominated_on_opt_data() -> None:
    data = plots.tradeoff_data(certificate("one"))
    everything = certificate("one").explored
    assert everything is not None
    for cost, error in data.values[data.status == certificate_charts.FRONT]:
        better = (everything["cost"] <= cost) & (everything["error"] <= error)
        assert (better & ((everything["cost"] < cost) | (everything["error"] < error))).sum() == 0


def test_measures_know_their_limits() -> None:
    found = {measure.name: measure for measure in certificate_charts.measures(certificate("quantile"))}
    assert list(found) == ["cost", "error", "share of latency above 300"]
    assert found["share of latency above 300"].limit == 0.05
    assert found["share of latency above 300"].label == "share of examples with latency above 300"
    assert not found["cost"].minimize


def test_thinning_keeps_what_matters() -> None:
    data = plots.tradeoff_data(certificate("holm"), most=20)
    full = plots.tradeoff_data(certificate("holm"))
    assert len(data.status) == 20
    assert data.counts == full.counts
    assert (data.status == certificate_charts.CHOSEN).sum() == full.counts[certificate_charts.CHOSEN]
    path = plots.path_data(certificate("holm"), most=20)
    assert len(path.step) <= 20
    assert path.step[0] == 1
    assert path.step[-1] == path.n_steps == 60
    assert path.chosen.sum() == 1


def test_path_stops_at_the_first_failure() -> None:
    for name in ("one", "per", "three"):
        data = plots.path_data(certificate(name))
        assert data.stopped == (None if data.passed.all() else int(np.argmin(data.passed)) + 1)
        assert data.p_value == pytest.approx(data.by_limit.max(axis=1))
    assert plots.path_data(certificate("nothing")).stopped == 1
    assert plots.path_data(certificate("holm")).stopped is None
    assert plots.path_data(certificate("holm")).shares_delta
    assert plots.path_data(certificate("unguaranteed")).by_mean
    assert not plots.path_data(certificate("uncorrected")).by_mean


@pytest.mark.parametrize("name", certificates.NAMES)
def test_certificates_are_drawn(name: str) -> None:
    data = plots.tradeoff_data(certificate(name))
    axes = plots.plot_tradeoff(certificate(name))
    drawn = sum(len(collection.get_offsets()) for collection in axes.collections)
    assert drawn == len(data.status)
    assert axes.get_xlabel() == data.measures[0].label
    plots.plot_path(certificate(name)).figure.canvas.draw()


def test_axes_are_taken_and_measures_named() -> None:
    import matplotlib.pyplot as plt

    ours = plt.subplots()[1]
    assert plots.plot_tradeoff(certificate("three"), x="latency", y="price", ax=ours) is ours
    assert (ours.get_xlabel(), ours.get_ylabel()) == ("latency", "price")
    with pytest.raises(rf.InvalidInputError, match=r"there is no objective or limit 'speed'"):
        plots.plot_tradeoff(certificate("three"), x="speed")


# ---------------------------------------------------------------- trials


def test_a_long_verdict_is_a_title_of_several_lines() -> None:
    losses = {"error": [[0] * 300, [1] * 300], "cost": [[2] * 300, [1] * 300]}
    table = rf.LossTable([{"threshold": 0.2}, {"threshold": 0.8}], losses)
    for alpha in (0.1, 0.2):
        certificate = rf.calibrate(table, rf.Problem(f"error <= {alpha}", minimize="cost"))
    title = plots.plot_threshold(certificate).get_title()
    assert "counting both uses" in title.replace("\n", " ")
    assert max(map(len, title.split("\n"))) <= 64


def test_histogram_counts_trials() -> None:
    data = plots.risk_histogram_data(made_up(), "error", bins=10, limit=0.5)
    assert data.methods == ("b", "a")
    assert data.counts.sum(axis=1).tolist() == [3, 4]
    assert data.counts[1].tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 0, 2]
    assert data.edges == pytest.approx(np.linspace(0, 1, 11))


def test_violins_leave_out_trials_without_a_certificate() -> None:
    data = plots.violins_data(made_up(), "error")
    assert data.values[0].tolist() == [0.1, 0.2, 0.3]
    assert data.certified.tolist() == [0.75, 1.0]


def test_violation_bars() -> None:
    data = plots.violation_bars_data(made_up(), delta=0.1)
    assert data.rate.tolist() == [0.25, 0.0]
    assert data.low == pytest.approx([0.0456, 0.0], abs=1e-4)
    assert data.high == pytest.approx([0.6994, 0.4899], abs=1e-4)


def test_bars_of_held_out_trials_say_so_and_show_no_delta() -> None:
    held_out = made_up().rename(columns={"violated": "held_out_above"})
    data = plots.violation_bars_data(held_out, delta=0.1)
    assert data.rate.tolist() == [0.25, 0.0]
    assert data.delta is None
    assert "held-out examples (their noise included)" in data.says
    assert plots.violation_bars_data(made_up(), delta=0.1).says == "share of trials whose setting breaks a limit"


def test_cost_curves() -> None:
    frame = pd.concat([made_up().assign(alpha=0.2), made_up().assign(alpha=0.1, error=np.nan)])
    data = plots.cost_curves_data(frame, "error")
    assert data.alphas == (0.1, 0.2)
    assert data.mean[:, 1] == pytest.approx([0.2, 0.5])
    assert np.isnan(data.mean[:, 0]).all()
    assert data.certified.tolist() == [[0.0, 0.75], [0.0, 1.0]]
    assert data.error[0, 1] == pytest.approx(1.959964 * 0.1 / np.sqrt(3))


def test_trials_agree_with_their_summary() -> None:
    summary = rf.experiment.summarize(results()).set_index(["method", "alpha"])
    curves = plots.cost_curves_data(results(), "cost")
    bars = plots.violation_bars_data(results(), alpha=0.05)
    for row, method in enumerate(METHODS):
        assert bars.rate[row] == pytest.approx(summary.loc[(method, 0.05), "violated"])
        for column, alpha in enumerate(curves.alphas):
            assert curves.mean[row, column] == pytest.approx(summary.loc[(method, alpha), "cost"], nan_ok=True)


def test_trials_are_drawn() -> None:
    drawn = [
        plots.plot_risk_histogram(results(), "error", alpha=0.05, limit=0.05),
        plots.plot_violins(results(), "error", alpha=0.02, limit=0.02),
        plots.plot_violations(results(), alpha=0.05, delta=0.1),
        plots.plot_cost_curves(results(), "cost"),
        plots.plot_violins(made_up(), "error"),
        plots.plot_violations(made_up()),
    ]
    for axes in drawn:
        axes.figure.canvas.draw()
    assert [text.get_text() for text in drawn[0].get_legend().get_texts()] == [*METHODS, "limit 0.05"]
    assert [text.get_text() for text in drawn[4].get_xticklabels()] == ["b\n(75 % gave a setting)", "a"]


def test_several_p_values_and_alphas_of_several_limits() -> None:
    frame = pd.concat([made_up().assign(p_value=name) for name in ("binomial", "betting")])
    assert plots.violation_bars_data(frame).methods == (
        "b (binomial)",
        "a (binomial)",
        "b (betting)",
        "a (betting)",
    )
    pairs: list[Any] = [(0.1, 0.2)] * 8 + [(0.2, 0.3)] * 8
    frame = pd.concat([made_up(), made_up()]).assign(alpha=pd.Series(pairs, index=[*range(8), *range(8)]).to_numpy())
    assert plots.violins_data(frame, "error", alpha=(0.2, 0.3)).methods == ("b", "a")
    assert plots.cost_curves_data(frame, "error").alphas == ((0.1, 0.2), (0.2, 0.3))
    labels = plots.plot_cost_curves(frame, "error").get_xticklabels()
    assert [text.get_text() for text in labels] == ["(0.1, 0.2)", "(0.2, 0.3)"]


REFUSED = {
    "no level": (lambda: plots.violation_bars_data(results()), r"alpha must name one of \[0.02, 0.05, 0.08\]"),
    "another level": (lambda: plots.violation_bars_data(results(), alpha=0.5), "alpha must be one of .*; got 0.5"),
    "an unknown column": (lambda: plots.violins_data(made_up(), "eror"), "no column 'eror'; .*Did you mean 'error'"),
    "no trials": (lambda: plots.violins_data(made_up().head(0), "error"), "at least one trial"),
    "a table": (lambda: plots.plot_tradeoff(certificates.table()), "draws a certificate"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    draw, message = REFUSED[case]
    with pytest.raises(rf.InvalidInputError, match=message):
        draw()


def test_missing_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(rf.MissingExtraError, match=r"riskfront\[plots\]"):
        plots.plot_path(certificate("one"))
