"""tune: Algorithm 1 with a search. Search sees opt examples only; test examples see the plan only, up to the first failure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.errors import EvaluationError, InvalidInputError, StoreError
from riskfront.evaluation import evaluate
from riskfront.search import OptunaSearch
from riskfront.space import Choice, Config, Float, Int, Space
from riskfront.splits import split_examples
from riskfront.store import LossStore
from riskfront.tuning import tune

pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")

N = 1500
SPACE = Space(t=Float(0, 1), model=Choice(["small", "large"]))
PROBLEM = rf.Problem([rf.Limit("error", at_most=0.15), rf.Limit("error", at_most=0.25, per="label")], minimize="cost")
DATA = np.random.default_rng(5).random((N, 3))
DATA[:, 2] = np.arange(N)  # every example knows its number
LABELS = np.array(["cat", "dog", "owl"])[(3 * DATA[:, 1]).astype(int)]


class Losses:
    """A threshold: the higher, the safer and the dearer. Remembers what it was called with."""

    fingerprint = "losses"

    def __init__(self) -> None:
        self.calls: list[tuple[Config, frozenset[int]]] = []

    def __call__(self, config: Config, examples: Any) -> Mapping[str, Any]:
        x = np.asarray(examples)
        self.calls.append((config, frozenset(x[:, 2].astype(int).tolist())))
        error = x[:, 0] < 0.4 * (1 - config["t"]) ** 2 + 0.03 * (config["model"] == "small")
        return {"error": error, "cost": (config["t"] + 0.1 * x[:, 1]) * (0.6 if config["model"] == "small" else 1.0)}


def run(losses: Losses, **options: Any) -> rf.Certificate:
    given = {"search": "random", "budget": 40, "groups": {"label": LABELS}, "bounds": {"cost": (0, 2)}, **options}
    examples = given.pop("examples", DATA)
    return tune(losses, examples, SPACE, given.pop("problem", PROBLEM), **given)


def test_it_certifies_what_evaluate_and_calibrate_would_on_the_same_settings() -> None:
    losses = Losses()
    certificate = run(losses, seed=2)
    assert certificate
    explored = certificate.explored[["t", "model"]]
    table = evaluate(Losses(), DATA, explored, groups={"label": LABELS}, bounds={"cost": (0, 2)})
    direct = rf.calibrate(table, PROBLEM, seed=2)
    pd.testing.assert_frame_equal(certificate.path, direct.path)
    pd.testing.assert_frame_equal(certificate.bounds, direct.bounds)
    assert certificate.config == direct.config
    assert (certificate.n_opt, certificate.n_test) == (direct.n_opt, direct.n_test)


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_part_sees_only_what_it_may(jobs: int) -> None:
    import joblib

    losses = Losses()
    with joblib.parallel_config(backend="threading"):
        certificate = run(losses, n_jobs=jobs, seed=1)
    opt, test = (frozenset(part.tolist()) for part in split_examples(N, 0.3, 1))
    parts = [examples for _, examples in losses.calls]
    searched = parts.count(opt)
    assert parts == [opt] * searched + [test] * (len(parts) - searched), "first all searching, then all testing"
    assert searched == 40
    tested = len(certificate.path)
    assert not certificate.path["certified"].iloc[-1], "the example must reach a failure to say anything"
    assert tested <= len(parts) - searched < tested + jobs
    assert len(parts) - searched < int(certificate.explored["planned"].sum()), "behind the failure nothing is evaluated"
    order = [(config["t"], config["model"]) for config, part in losses.calls if part == test]
    path = list(zip(certificate.path["t"], certificate.path["model"], strict=True))
    # workers of one batch may finish in any order, and the last batch may reach behind the failure
    assert set(path) <= set(order) if jobs > 1 else order == path


def test_nothing_behind_the_first_failure_is_certified() -> None:
    certificate = run(Losses())
    verdicts = certificate.path["certified"].to_numpy()
    assert (verdicts[:-1]).all()


@pytest.mark.parametrize("method", ["pareto-testing", "split-fst", "constrained-path"])
def test_methods(method: str) -> None:
    assert run(Losses(), method=method)


def test_a_grid_for_the_methods_that_need_one() -> None:
    for method in ("sgt", "low-risk-path"):
        certificate = run(Losses(), method=method, search="grid", budget=32)
        assert certificate
        assert len(certificate.explored) == 32


def test_a_limit_in_every_group_speaks_of_groups_that_the_test_part_lacks() -> None:
    rare = np.array(LABELS, dtype=object)
    opt, _ = split_examples(N, 0.3, 0)
    rare[opt[:1]] = "unicorn"
    certificate = run(Losses(), groups={"label": rare})
    assert not certificate
    assert "unicorn" in certificate.diagnosis["message"]


CONTAINERS = {
    "list": lambda: list(DATA),
    "frame": lambda: pd.DataFrame(DATA, index=np.arange(N)[::-1]),
    "sequence": lambda: Rows(),
}


class Rows:
    """A sequence that takes whole numbers only."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> Any:
        if not isinstance(i, int):
            raise TypeError("one at a time")
        return DATA[i]


@pytest.mark.parametrize("kind", CONTAINERS)
def test_examples_of_every_kind(kind: str) -> None:
    assert run(Losses(), examples=CONTAINERS[kind]()).config == run(Losses()).config


# -------------------------------------------------------------------- stores


@pytest.mark.parametrize("after", [5, 25, 43])
def test_a_stopped_run_goes_on_the_same_way(after: int, tmp_path: Path) -> None:
    whole = run(Losses(), search=_tpe(), store=tmp_path / "whole.zarr")

    class Dies(Losses):
        def __call__(self, config: Config, examples: Any) -> Mapping[str, Any]:
            if len(self.calls) == after:
                raise KeyboardInterrupt
            return super().__call__(config, examples)

    with pytest.raises(KeyboardInterrupt):
        run(Dies(), search=_tpe(), store=tmp_path / "run.zarr")
    again = Losses()
    certificate = run(again, search=_tpe(), store=tmp_path / "run.zarr")
    assert certificate.to_dict() == whole.to_dict()
    everything = len(LossStore(tmp_path / "whole.zarr" / "opt")) + len(LossStore(tmp_path / "whole.zarr" / "test"))
    assert len(again.calls) == everything - after
    last = Losses()
    run(last, search=_tpe(), store=tmp_path / "run.zarr")
    assert last.calls == []


def _tpe() -> OptunaSearch:
    return OptunaSearch(SPACE, ["error", "error per label", "cost"], sampler="tpe", budget=40)


def test_settings_of_another_search_are_told_and_count(tmp_path: Path) -> None:
    run(Losses(), store=tmp_path / "run.zarr", budget=20)
    losses = Losses()
    certificate = run(losses, search="grid", store=tmp_path / "run.zarr", budget=30)
    opt = frozenset(split_examples(N, 0.3, 0)[0].tolist())
    assert len(certificate.explored) == 30
    assert [part for _, part in losses.calls].count(opt) == 10


def test_stores_of_other_runs_are_refused(tmp_path: Path) -> None:
    run(Losses(), store=tmp_path / "run.zarr")
    for options, what in (
        ({"seed": 7}, "split"),
        ({"groups": {"label": LABELS[::-1]}}, "groups"),
        ({"examples": -DATA}, "examples"),
    ):
        with pytest.raises(StoreError, match=f"another task: its {what} differ"):
            run(Losses(), store=tmp_path / "run.zarr", **options)
    with pytest.raises(StoreError, match=r"Open its part '.*opt' or '.*test'"):
        LossStore(tmp_path / "run.zarr")
    evaluate(Losses(), DATA, [{"t": 0.5, "model": "small"}], store=tmp_path / "other.zarr")
    with pytest.raises(StoreError, match="is a store of evaluate"):
        run(Losses(), store=tmp_path / "other.zarr")


# -------------------------------------------------------------------- searches and bad input


class Recorder:
    """A search that writes down what it is told."""

    def __init__(self, configs: list[Config]) -> None:
        self.left, self.told = list(configs), []

    def ask(self, n: int = 1) -> list[Config]:
        batch, self.left = self.left[:n], self.left[n:]
        return batch

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        self.told.append((config, dict(values)))


def test_a_search_is_told_badness_and_values_to_minimise() -> None:
    limits = [rf.Limit("cost", at_most=1.0), rf.Limit("right", at_least=0.8)]
    problem = rf.Problem(limits, minimize=["cost"], maximize=["right"])

    def losses(config: Config, examples: Any) -> dict[str, Any]:
        return {"cost": np.full(len(examples), 0.5), "right": np.arange(len(examples)) % 10 < 9}

    search = Recorder([{"t": 0.5, "model": "small"}])
    certificate = tune(losses, list(range(1000)), SPACE, problem, search=search, budget=9, bounds={"cost": (0, 2)})
    ((config, values),) = search.told
    assert config == {"t": 0.5, "model": "small"}
    assert values == pytest.approx({"cost": 0.25, "right": 0.1, "cost (free)": 0.5, "right (free)": -0.9}, abs=0.01)
    assert certificate.config == config


def test_the_guided_search_gets_its_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def fake(search: str, space: Space, names: list[str], **options: Any) -> Recorder:
        seen.update(options)
        return Recorder([{"t": 0.9, "model": "large"}])

    monkeypatch.setattr("riskfront.tuning.make_search", fake)
    run(Losses(), search="guided")
    overall, worst = seen["targets"]
    assert (overall.name, overall.alpha, overall.n_opt, overall.n_test) == ("error", 0.15, 450, 1050)
    assert worst.name == "error per label"
    assert worst.n_opt < 160
    assert worst.n_test == pytest.approx(worst.n_opt / 450 * 1050, abs=1)
    assert seen["delta"] == PROBLEM.delta


def test_test_losses_must_be_what_opt_losses_were() -> None:
    class Turncoat(Losses):
        def __call__(self, config: Config, examples: Any) -> Mapping[str, Any]:
            found = dict(super().__call__(config, examples))
            if len(examples) > N / 2:
                found["error"] = found["error"] * 0.5
            return found

    with pytest.raises(InvalidInputError, match="was 0/1 on the opt examples"):
        run(Turncoat())

    def growing(config: Config, examples: Any) -> dict[str, Any]:
        return {"cost": np.full(len(examples), len(examples) / 1000), "error": np.zeros(len(examples), dtype=bool)}

    problem = rf.Problem([rf.Limit("cost", at_most=0.6)], minimize="error")
    with pytest.raises(InvalidInputError, match=r"must lie in its bounds \(0, 1\); on the test examples"):
        tune(growing, DATA, SPACE, problem, search="random", budget=2)


def test_bad_input(tmp_path: Path) -> None:
    for options, sentence in (
        ({"budget": 0}, "budget must be a whole number of at least 1; got 0"),
        ({"search": "nearest"}, "search must be one of"),
        ({"method": "bonferroni"}, "bonferroni uses none"),
        ({"groups": {}}, "there is no group 'label'"),
        ({"examples": DATA[:1], "groups": {"label": LABELS[:1]}}, "needs at least 2"),
        ({"search": Recorder([])}, "proposed none"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            run(Losses(), **options)
    with pytest.raises(InvalidInputError, match="space must be a Space"):
        tune(Losses(), DATA, {"t": 1}, PROBLEM)
    with pytest.raises(InvalidInputError, match="at least one dimension"):
        Space()
    other = rf.Problem([rf.Limit("eror", at_most=0.1)], minimize="cost")
    losses = Losses()
    with pytest.raises(InvalidInputError, match="Did you mean 'error'"):
        run(losses, problem=other)
    assert len(losses.calls) == 1, "a wrong name costs one evaluation, not the budget"

    class Fails(Losses):
        def __call__(self, config: Config, examples: Any) -> Mapping[str, Any]:
            if len(self.calls) == 3:
                raise ValueError("no")
            return super().__call__(config, examples)

    with pytest.raises(EvaluationError, match=r"ValueError: no.* 3 settings evaluated before are in the store"):
        run(Fails(), store=tmp_path / "run.zarr")


def test_whole_numbers_stay_whole() -> None:
    kinds = set()

    def losses(config: Config, examples: Any) -> dict[str, Any]:
        kinds.add(type(config["depth"]))
        return {"error": np.zeros(len(examples), dtype=bool), "cost": np.full(len(examples), config["depth"])}

    problem = rf.Problem([rf.Limit("error", at_most=0.1)], minimize="cost")
    certificate = tune(losses, DATA, Space(depth=Int(1, 5)), problem, search="grid", budget=5)
    assert certificate.config == {"depth": 1}
    assert kinds == {int}
