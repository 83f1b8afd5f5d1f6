"""What a limit says of new examples, in words that no statistician is needed for."""

import pytest

import riskfront as rf
from riskfront._calibration.certificates.verdict import in_words


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("error <= 0.05", "error stays at or below 5 %"),
        ("relative_cost <= 0.5", "relative_cost stays at or below 50 %"),
        ("dollars <= 0.02", "dollars stays at or below 0.02"),
        ("cost_usd <= 0.001", "cost_usd stays at or below 0.001"),
        ("latency_ms <= 0.3", "latency_ms stays at or below 0.3"),
        ("totalPrice <= 0.3", "totalPrice stays at or below 0.3"),
        ("time <= 0.9", "time stays at or below 0.9"),
        ("on_time >= 0.9", "on_time stays at or above 90 %"),
        (
            "q0.95(latency) <= 300 given answered",
            "latency given answered stays at or below 300 for at least 95 % of examples",
        ),
    ],
)
def test_money_and_time_are_no_shares_and_quantiles_are_words(limit: str, words: str) -> None:
    """Bounds of (0, 1) may only mean that none were declared: two cents are not "2 %"."""
    assert in_words(rf.Limit.parse(limit), (0.0, 1.0), {}) == words
