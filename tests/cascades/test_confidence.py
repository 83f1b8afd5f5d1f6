"""When an answer is trusted."""

import numpy as np

from riskfront._cascades.confidence import quantiles


def test_thresholds_lie_between_confidences_that_were_seen() -> None:
    rng = np.random.default_rng(0)
    seen = np.stack([rng.random(101), rng.integers(0, 5, 101) / 4, np.full(101, 0.5)])
    found = quantiles(seen, 9)
    for row, thresholds in zip(seen, found, strict=True):
        assert np.abs(row[:, None] - thresholds).min() > 1e-6
    plain = np.quantile(seen[0], np.arange(1, 10) / 10)
    kept, as_before = ((seen[0][:, None] >= thresholds).sum(axis=0) for thresholds in (found[0], plain))
    assert np.array_equal(kept, as_before)
    assert set(found[1]) <= {-0.125, 0.125, 0.375, 0.625, 0.875}
    assert found[2].tolist() == [0.0]  # trusts always
