"""The detectors that benchmarks/monitoring.py compares, on a few streams."""

import numpy as np
import pytest

from benchmarks import monitoring


def test_a_late_change_is_found_sooner_than_by_the_others():
    pytest.importorskip("mapie")
    delays = {
        name: np.median([delay(monitoring.stream(seed, 2000, 0.2, 6000), 2000) for seed in range(5)])
        for name, delay in {
            "ours": monitoring.ours,
            "by time": monitoring.by_time_alone,
            "from the start": monitoring.from_the_start,
            "mapie": monitoring.mapie,
        }.items()
    }
    assert 0 < delays["ours"] < delays["by time"] < delays["from the start"]
    assert delays["ours"] < delays["mapie"] / 3
