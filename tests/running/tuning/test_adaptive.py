"""tune(adaptive=True): fewer evaluations, the same doors: stores, resume, verify, failures, drops, prices, workers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError, SpentExamplesError
from tests.support.clusters import dask_cluster

M, N = 24, 700
RISK = np.linspace(0.01, 0.4, M)
WRONG = np.random.default_rng(3).random((M, N)) < RISK[:, None]
SPACE = rf.Space(level=rf.Int(0, M - 1))
LABEL = np.arange(N) % 3
CALLS: list[tuple[int, int]] = []


def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, Any]:
    CALLS.append((config["level"], len(examples)))
    row = config["level"]
    return {"error": WRONG[row, examples], "cost": np.full(len(examples), 1 - row / M)}


losses.fingerprint = "tests of adaptive tuning"  # type: ignore[attr-defined]


def tuned(*limits: str, **options: Any) -> rf.Certificate:
    problem = rf.Problem([rf.Limit.parse(limit) for limit in limits or ("error <= 0.15",)], minimize="cost")
    options = {"search": "grid", "progress": False, "adaptive": True, "again": True, **options}
    return rf.tune(losses, np.arange(N) + 1000 * 0, SPACE, problem, **options)


def test_evaluations_are_counted_and_few() -> None:
    CALLS.clear()
    found = tuned()
    assert found
    assert RISK[found.config["level"]] <= 0.15
    assert found.evaluations["made"] == sum(n for _, n in CALLS)
    assert found.evaluations["full"] == M * N
    assert found.evaluations["made"] < 0.4 * M * N
    assert (found.tested["examples"] <= found.n_test).all()


@pytest.mark.parametrize(
    "limits",
    [
        ["error <= 0.15", "error <= 0.25 per label"],
        ["error gap between label <= 0.4"],
        ["error drop from 0 <= 0.1"],
        ["error drop from 0 <= -0.1"],
    ],
)
def test_a_store_goes_on_and_verifies(limits: list[str], tmp_path: Path) -> None:
    options = {"store": tmp_path / "run", "groups": {"label": LABEL}, "again": False}
    first = tuned(*limits, **options)
    CALLS.clear()
    again = tuned(*limits, **options)
    assert not CALLS
    assert again.data_sha256 == first.data_sha256
    assert rf.verify(first, tmp_path / "run") == []
    with pytest.raises(SpentExamplesError):
        tuned("error <= 0.3", **options)


def test_a_killed_run_pays_for_nothing_twice(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def dying(config: dict[str, int], examples: np.ndarray) -> dict[str, Any]:
        if len(CALLS) >= 40:
            raise Killed
        return losses(config, examples)

    dying.fingerprint = "dying"  # type: ignore[attr-defined]
    problem, options = rf.Problem("error <= 0.15", minimize="cost"), {"search": "grid", "progress": False}
    CALLS.clear()
    with pytest.raises(Killed):
        rf.tune(dying, np.arange(N), SPACE, problem, store=tmp_path / "run", adaptive=True, **options)
    before = list(CALLS)
    CALLS.clear()

    def living(config: dict[str, int], examples: np.ndarray) -> dict[str, Any]:
        return losses(config, examples)

    living.fingerprint = "dying"  # type: ignore[attr-defined]
    found = rf.tune(living, np.arange(N), SPACE, problem, store=tmp_path / "run", adaptive=True, **options)
    assert found.evaluations["made"] == sum(n for _, n in [*before, *CALLS])


def test_several_workers_and_prices() -> None:
    found = tuned(n_jobs=2, price=lambda config, examples: 1.0 + config["level"])
    assert found
    assert 0 < found.evaluations["spent"] < 0.5 * found.evaluations["full table"]
    by_cost = tuned(price="cost")  # at most 1 an evaluation
    assert 0 < by_cost.evaluations["spent"] < by_cost.evaluations["made"]


def test_guided_search_races_too() -> None:
    space = rf.Space(level=rf.Int(0, M - 1), twin=rf.Int(0, 299))
    problem = rf.Problem("error <= 0.15", minimize="cost")
    CALLS.clear()
    found = rf.tune(losses, np.arange(N), space, problem, search="random", budget=12, progress=False, adaptive=True)
    assert found.evaluations["made"] == sum(n for _, n in CALLS) < 12 * N / 2


def test_a_search_that_learns_runs_a_last_race() -> None:
    """Its proposals run on a quarter of the planning examples; the best of all run on."""
    n, asked = 2400, []

    class Counting:
        def ask(self, count: int) -> list[dict[str, int]]:
            return [{"level": len(asked) % M, "twin": len(asked)}]

        def tell(self, config: dict[str, int], values: dict[str, float]) -> None:
            asked.append(config)

    drawn = np.random.default_rng(4).random((M, n)) < RISK[:, None]
    seen: dict[int, set[int]] = {}

    def of_many(config: dict[str, int], examples: np.ndarray) -> dict[str, Any]:
        row = config["level"]
        seen.setdefault(config["twin"], set()).update(examples.tolist())
        return {"error": drawn[row, examples], "cost": np.full(len(examples), 1 - row / M)}

    space = rf.Space(level=rf.Int(0, M - 1), twin=rf.Int(0, 299))
    problem = rf.Problem("error <= 0.15", minimize="cost")
    found = rf.tune(
        of_many, np.arange(n), space, problem, search=Counting(), budget=2 * M, progress=False, adaptive=True
    )
    assert found
    assert len(asked) == 2 * M
    explored = found.explored["examples"]
    assert (explored == found.n_opt).sum() <= 9
    assert (explored > found.n_opt // 4).sum() <= 18
    searched = set.union(*(seen[twin] for twin in set(seen) - set(found.tested["twin"])))
    assert len(searched) <= found.n_opt  # what was not tested never met a testing example


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("search", ["grid", "guided"])
def test_worst_cases(search: str, adaptive: bool, tmp_path: Path) -> None:
    """The threshold is chosen on planning examples, and no search needs it."""
    seconds = np.clip(np.random.default_rng(6).exponential(60, (M, N)) * (0.3 + RISK[:, None]), 0, 1000)

    def slow(config: dict[str, int], examples: np.ndarray) -> dict[str, Any]:
        return {"seconds": seconds[config["level"], examples], "cost": np.full(len(examples), 1 - config["level"] / M)}

    space = SPACE if search == "grid" else rf.Space(level=rf.Int(0, M - 1), twin=rf.Int(0, 299))
    problem = rf.Problem("worst 20 % of seconds <= 120", minimize="cost")
    options: dict[str, Any] = {"bounds": {"seconds": (0, 1000)}, "budget": 12, "progress": False, "adaptive": adaptive}
    found = rf.tune(slow, np.arange(N), space, problem, search=search, store=tmp_path / "run", **options)
    assert found
    assert list(found.thresholds) != []
    assert rf.verify(found, tmp_path / "run") == []
    with pytest.raises(InvalidInputError, match="strictly between its bounds"):
        rf.tune(slow, np.arange(N), space, rf.Problem("worst 20 % of seconds <= 2000", minimize="cost"), **options)


def test_failures_are_the_worst() -> None:
    def failing(config: dict[str, int], examples: np.ndarray) -> dict[str, Any]:
        if (examples % 4 == 0).any():
            raise ValueError("no answer")
        return losses(config, examples)

    problem = rf.Problem("error <= 0.15", minimize="cost")
    with pytest.warns(UserWarning, match="failed"):
        found = rf.tune(
            failing,
            np.arange(N),
            SPACE,
            problem,
            search="grid",
            budget=3,
            progress=False,
            adaptive=True,
            on_error="skip",
        )
    assert not found


def test_bounds_of_a_loss_without_a_limit_verify_too(tmp_path: Path) -> None:
    def timed(config: dict[str, int], examples: np.ndarray) -> dict[str, Any]:
        return {**losses(config, examples), "seconds": np.full(len(examples), 7.5)}

    problem = rf.Problem("error <= 0.15", minimize="cost")
    options: dict[str, Any] = {"search": "grid", "progress": False, "adaptive": True, "bounds": {"seconds": (0, 60)}}
    found = rf.tune(timed, np.arange(N), SPACE, problem, store=tmp_path / "run", **options)
    assert found
    assert rf.verify(found, tmp_path / "run") == []


def test_on_a_dask_cluster(tmp_path: Path) -> None:
    import joblib

    wrong = WRONG

    def on_workers(config: dict[str, int], examples: np.ndarray) -> dict[str, Any]:
        return {"error": wrong[config["level"], examples], "cost": np.full(len(examples), 1 - config["level"] / 24)}

    on_workers.fingerprint = "on workers"  # type: ignore[attr-defined]
    problem, options = rf.Problem("error <= 0.15", minimize="cost"), {"search": "grid", "progress": False}
    with dask_cluster(), joblib.parallel_config(backend="dask"):
        found = rf.tune(
            on_workers, np.arange(N), SPACE, problem, adaptive=True, again=True, store=tmp_path / "run", **options
        )
    assert found
    assert RISK[found.config["level"]] <= 0.15
    assert found.evaluations["made"] < 0.5 * found.evaluations["full"]
    assert rf.verify(found, tmp_path / "run") == []  # without the cluster


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"price": "cost", "adaptive": False}, "adaptive"),
        ({"price": 5}, "price"),
        ({"price": lambda config, examples: "much"}, "price"),
        ({"price": lambda *_: np.nan}, "price"),
        ({"price": lambda *_: -1.0}, "price"),
        ({"price": lambda *_: [1, 2, 3]}, "price"),
    ],
    ids=["without adaptive", "no function", "a text", "nan", "below 0", "one for each example"],
)
def test_refused_prices(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        tuned(**options)
