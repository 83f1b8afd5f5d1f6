"""Which part of a measure a picture shows."""

from __future__ import annotations

import numpy as np
import pytest

from riskfront._reporting import chart_views
from riskfront._reporting.certificate_charts import CERTIFIED, CHOSEN, EXPLORED, Measure, TradeOff


def cloud(values: list[float], status: list[int], limit: float | None = None) -> TradeOff:
    column = np.array(values)[:, None]
    measure = Measure("cost", "cost", limit, minimize=True)
    return TradeOff((), (measure,), column, np.array(status), np.zeros(len(values), dtype=np.int64), (), ())


def test_an_outlier_does_not_squeeze_what_matters() -> None:
    """Certified settings between 3 and 5, one setting at 80: the first look goes from about 2 to 6."""
    values = [*np.linspace(3, 5, 20), 2.5, 5.5, 80.0]
    status = [CERTIFIED] * 19 + [CHOSEN, EXPLORED, EXPLORED, EXPLORED]
    (view,) = chart_views.of_tradeoff(cloud(values, status))
    assert view.all[0] < 2.5
    assert view.all[1] > 80
    assert view.near[0] < 2.5
    assert 5.5 < view.near[1] < 7


def test_the_limit_and_the_chosen_setting_are_always_seen() -> None:
    values = [*np.linspace(0.01, 0.02, 30), 0.05, 0.9]
    (view,) = chart_views.of_tradeoff(cloud(values, [CERTIFIED] * 30 + [CHOSEN, EXPLORED], limit=0.08))
    assert view.near[0] < 0.01
    assert 0.08 < view.near[1] < 0.9


def test_without_a_squeeze_everything_is_seen() -> None:
    (view,) = chart_views.of_tradeoff(cloud([*np.linspace(0, 1, 30)], [EXPLORED] * 15 + [CERTIFIED] * 15, limit=0.4))
    assert view.near == view.all


def test_nothing_certified_shows_the_bulk() -> None:
    (view,) = chart_views.of_tradeoff(cloud([*np.linspace(1, 2, 99), 500.0], [EXPLORED] * 100))
    assert view.near[1] < 3
    assert view.all[1] > 500


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.156], [4.8982, 5.4138]),
        ([-2.0, -2.0], [-2.1, -1.9]),
        ([0.0], [-0.5, 0.5]),
        ([0.0, 1.0, np.nan], [-0.04, 1.04]),
        ([np.nan], [0.0, 1.0]),
    ],
)
def test_a_range_has_room_around_its_values(values: list[float], expected: list[float]) -> None:
    assert chart_views.around(np.array(values)) == pytest.approx(expected)
