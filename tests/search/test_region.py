import numpy as np
import pytest
from scipy.stats import binom

from riskfront._problems.spaces.space import Float, Space
from riskfront.errors import InvalidInputError
from riskfront.search import LimitTarget, make_search


@pytest.mark.parametrize(
    ("alpha", "n_opt", "n_test", "delta"),
    [(0.05, 2000, 2000, 0.1), (0.1, 100, 50, 0.1), (0.05, 500, 1000, 0.05), (0.3, 10, 10, 0.1), (0.9, 30, 7, 0.1)],
)
def test_region_equals_its_definition_spelled_out(alpha, n_opt, n_test, delta):
    counts = np.arange(n_test + 1)
    r_max = counts[binom.cdf(counts, n_test, alpha) <= delta].max() / n_test
    counts = np.arange(n_opt + 1)
    low = counts[binom.cdf(counts, n_opt, r_max) >= 0.01].min() / n_opt
    high = counts[binom.sf(counts - 1, n_opt, r_max) >= 0.01].max() / n_opt
    region = LimitTarget("error", alpha, n_opt, n_test).region(delta)
    assert (region.r_max, region.low, region.high) == (r_max, low, high)


def test_where_no_setting_could_pass_the_region_is_that_of_no_loss():
    region = LimitTarget("error", 0.01, 1000, 200).region(0.1)  # 0.99**200 > 0.1
    assert (region.r_max, region.low, region.high) == (0, 0, 0)


def test_when_only_no_loss_at_all_passes_the_region_is_a_point():
    region = LimitTarget("error", 0.05, 100, 50).region(0.1)
    assert (region.r_max, region.low, region.high) == (0, 0, 0)


def test_guided_search_asks_inside_the_region():
    search = make_search(
        "guided",
        Space(x=Float(0, 1)),
        ["error", "cost"],
        targets=[LimitTarget("error", 0.3, 1000, 1000)],
        delta=0.1,
        n_startup=5,
    )
    region = search.regions["error"]
    risks = []
    for _ in range(10):
        (config,) = search.ask()
        risks.append(0.5 * config["x"] ** 2)
        search.tell(config, {"error": risks[-1], "cost": 1 - config["x"]})
    guided = risks[5:]
    assert sum(region.low <= risk <= region.high for risk in guided) >= 4


def test_guided_searches_may_share_a_storage(tmp_path):
    options = {
        "targets": [LimitTarget("error", 0.3, 1000, 1000)],
        "delta": 0.1,
        "n_startup": 3,
        "storage": f"sqlite:///{tmp_path}/run.db",
        "study_name": "shared",
    }
    here, there = (make_search("guided", Space(x=Float(0, 1)), ["error", "cost"], **options) for _ in range(2))
    asked = []
    for search in (here, there, here, there, here):
        (config,) = search.ask()
        asked.append(config["x"])
        search.tell(config, {"error": 0.5 * config["x"] ** 2, "cost": 1 - config["x"]})
    assert len(set(asked)) == 5


def target(*given):
    return lambda: LimitTarget("error", *given)


def region(*levels):
    return lambda: LimitTarget("error", 0.1, 100, 100).region(*levels)


def guided(*targets):
    return lambda: make_search("guided", Space(x=Float(0, 1)), ["error", "cost"], targets=targets, delta=0.1)


REFUSED = {
    "a limit of 0": (target(0, 10, 10), "must"),
    "a limit of 1": (target(1, 10, 10), "must"),
    "a limit of nan": (target(float("nan"), 10, 10), "must"),
    "no planning examples": (target(0.1, 0, 10), "must"),
    "no testing examples": (target(0.1, 10, 0), "must"),
    "a delta of 0": (region(0, 0.01), "delta"),
    "a delta of 1": (region(1, 0.01), "delta"),
    "an own delta of 0": (region(0.1, 0), "delta"),
    "an own delta above 1": (region(0.1, 1.5), "delta"),
    "no target": (guided(), "targets"),
    "a target that is no objective": (guided(LimitTarget("recall", 0.1, 100, 100)), "targets"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    make, words = REFUSED[case]
    with pytest.raises(InvalidInputError, match=words):
        make()
