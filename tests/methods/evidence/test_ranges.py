"""Groups that no test could certify anything in."""

import numpy as np
import pytest
from scipy.stats import binom

import riskfront as rf
from riskfront.methods._evidence.ranges import too_small_groups


def test_a_group_that_is_too_small_is_named() -> None:
    sizes = {"a": 21, "b": 22, "c": 5}
    label = np.repeat(list(sizes), list(sizes.values()))
    table = rf.LossTable([{"k": 0}], {"error": [[0] * len(label)], "cost": [[1] * len(label)]}, {"label": label})
    problem = rf.Problem(["error <= 0.1 per label", "error <= 0.2"], minimize="cost")
    (said,) = too_small_groups(problem, table.bounds, table.group)
    assert "2 of 3 groups of 'label' have fewer than the 22 examples" in said
    assert "a (21), c (5)" in said
    assert binom.cdf(0, 22, 0.1) <= 0.1 < binom.cdf(0, 21, 0.1)  # what the exact test says
    assert too_small_groups(rf.Problem("error <= 0.5 per label", minimize="cost"), table.bounds, table.group) == []


def test_every_door_says_so_before_anything_is_tested() -> None:
    label = np.repeat(["a", "b"], [400, 5])
    problem = rf.Problem("error <= 0.1 per label", minimize="cost")
    rng = np.random.default_rng(0)
    losses = {"error": rng.random((3, 405)) < 0.01, "cost": rng.random((3, 405))}
    table = rf.LossTable([{"k": k} for k in range(3)], losses, {"label": label})
    said = "1 of 2 groups of 'label' have fewer than the 22 examples"
    with pytest.warns(rf.NotCertifiedWarning, match=said):
        assert not rf.calibrate(table, problem)
    opt, test = table.split(0.3)
    with pytest.warns(rf.NotCertifiedWarning, match="groups of 'label'"):
        assert not rf.certify(rf.ParetoTesting().plan(opt, problem), test, problem)

    def stop(config: dict[str, float], examples: object) -> dict[str, object]:
        raise KeyboardInterrupt  # the first evaluation

    space = rf.Space(k=rf.Choice([0, 1]))
    with pytest.warns(rf.NotCertifiedWarning, match=said), pytest.raises(KeyboardInterrupt):
        rf.tune(stop, np.arange(405), space, problem, groups={"label": label}, search="grid")
