"""tune: Algorithm 1 with a search. Search sees planning examples only; testing ones the plan, up to the first failure."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.groups import Groups
from riskfront._data.splits import split_examples
from riskfront._data.stores.loss_store import LossStore
from riskfront._problems.spaces.space import Choice, Config, Float, Int, Space
from riskfront._running.evaluation.evaluate import evaluate
from riskfront._running.tuning import tune as tuning
from riskfront._running.tuning.opt_and_test_rows import shuffles
from riskfront._running.tuning.tune import tune
from riskfront.errors import EvaluationError, InvalidInputError, StoreError
from riskfront.search import OptunaSearch

pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")

N = 1500
SPACE = Space(t=Float(0, 1), model=Choice(["small", "large"]))
PROBLEM = rf.Problem([rf.Limit("error", at_most=0.15), rf.Limit("error", at_most=0.25, per="label")], minimize="cost")
DATA = np.random.default_rng(5).random((N, 3))
DATA[:, 2] = np.arange(N)  # every example knows its number
LABELS = np.array(["cat", "dog", "owl"])[(3 * DATA[:, 1]).astype(int)]


def positions_of(examples: Any, groups: Any, opt_fraction: float, seed: int) -> Any:
    """The positions of planning and of testing examples in a run where examples say enough."""
    return split_examples(len(examples), opt_fraction, seed, shuffles(examples, groups, seed)[1])


def parts_of(seed: int = 0, **more: Any) -> Any:
    """The positions of planning and testing examples in a run on DATA."""
    return positions_of(DATA, {"label": LABELS, **more}, rf.ParetoTesting().opt_fraction, seed)


N_OPT = len(parts_of()[0])


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


def run(losses: Any, **options: Any) -> rf.Certificate:
    given = {"search": "random", "budget": 40, "groups": {"label": LABELS}, "bounds": {"cost": (0, 2)}, **options}
    examples = given.pop("examples", DATA)
    return tune(losses, examples, SPACE, given.pop("problem", PROBLEM), **given)


def test_it_certifies_what_evaluate_and_calibrate_would_on_the_same_settings() -> None:
    losses = Losses()
    certificate = run(losses, seed=2)
    assert certificate
    explored = certificate.explored[["t", "model"]]
    table = evaluate(Losses(), DATA, explored, groups={"label": LABELS}, bounds={"cost": (0, 2)})
    opt, test = (table.subset(part) for part in parts_of(seed=2))
    direct = rf.certify(rf.ParetoTesting().plan(opt, PROBLEM), test, PROBLEM)
    pd.testing.assert_frame_equal(certificate.path, direct.path)
    pd.testing.assert_frame_equal(certificate.measured, direct.measured)
    assert certificate.config == direct.config
    assert (certificate.n_opt, certificate.n_test) == (direct.n_opt, direct.n_test)


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_part_sees_only_what_it_may(jobs: int) -> None:
    import joblib

    losses = Losses()
    with joblib.parallel_config(backend="threading"):
        certificate = run(losses, n_jobs=jobs, seed=1)
    opt, test = (frozenset(part.tolist()) for part in parts_of(seed=1))
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
    opt, _ = parts_of()
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


def _shared(study: str, folder: Path) -> OptunaSearch:
    names = ["error", "error per label", "cost"]
    return OptunaSearch(
        SPACE, names, sampler="tpe", budget=12, storage=f"sqlite:///{folder}/{study}.db", study_name=study
    )


@pytest.mark.parametrize("after", [5, 11, 12, 13])
def test_a_run_with_a_study_of_its_own_goes_on_and_then_changes_nothing(after: int, tmp_path: Path) -> None:
    class Dies(Losses):
        def __call__(self, config: Config, examples: Any) -> Mapping[str, Any]:
            if len(self.calls) == after:
                raise KeyboardInterrupt
            return super().__call__(config, examples)

    store = tmp_path / "run.zarr"
    with pytest.raises(KeyboardInterrupt):
        run(Dies(), search=_shared("a", tmp_path), store=store, budget=12)
    first = run(Losses(), search=_shared("a", tmp_path), store=store, budget=12)
    assert len(first.explored) == 12
    again = Losses()
    assert run(again, search=_shared("a", tmp_path), store=store, budget=12).to_dict() == first.to_dict()
    assert again.calls == []
    trials = [t for t in _shared("a", tmp_path)._study.trials if t.state.name == "COMPLETE"]
    assert len(trials) == len({(t.params["t"], t.params["model"]) for t in trials}) == 12


def test_a_study_told_of_settings_in_a_store_changes_nothing_when_it_is_repeated(tmp_path: Path) -> None:
    store = tmp_path / "run.zarr"
    run(Losses(), store=store, budget=6)
    first = run(Losses(), search=_shared("a", tmp_path), store=store, budget=10, again=True)
    assert len(first.explored) == 10
    again = Losses()
    repeated = run(again, search=_shared("a", tmp_path), store=store, budget=10)
    assert repeated.to_dict() == first.to_dict()
    assert again.calls == []


def test_a_store_that_holds_the_budget_already_is_enough(tmp_path: Path) -> None:
    run(Losses(), store=tmp_path / "run.zarr", budget=20)
    losses = Losses()
    certificate = run(losses, search="grid", store=tmp_path / "run.zarr", budget=20)
    opt = frozenset(parts_of()[0].tolist())
    assert len(certificate.explored) == 20
    assert opt not in [part for _, part in losses.calls]


def test_settings_of_another_search_are_told_and_count(tmp_path: Path) -> None:
    run(Losses(), store=tmp_path / "run.zarr", budget=20)
    losses = Losses()
    certificate = run(losses, search="grid", store=tmp_path / "run.zarr", budget=30, again=True)
    opt = frozenset(parts_of()[0].tolist())
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
    with pytest.raises(StoreError, match=r"is the store of a tune run: .* in the parts '.*opt' and '.*test'"):
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

    monkeypatch.setattr("riskfront._running.tuning.search_loop.make_search", fake)
    run(Losses(), search="guided")
    overall, worst = seen["targets"]
    assert (overall.name, overall.alpha, overall.n_opt, overall.n_test) == ("error", 0.15, N_OPT, N - N_OPT)
    assert worst.name == "error per label"
    opt = [int(np.sum(LABELS[parts_of()[0]] == name)) for name in ("cat", "dog", "owl")]
    assert (worst.n_opt, worst.n_test) == (min(opt), round(min(opt) / N_OPT * (N - N_OPT)))
    assert seen["delta"] == PROBLEM.delta
    sure = np.arange(N) % 10 == 0
    limits = [rf.Limit("error", at_most=0.15, given="sure"), rf.Limit("error", at_most=0.25, per="label", given="sure")]
    run(Losses(), search="guided", problem=rf.Problem(limits, "cost"), groups={"label": LABELS, "sure": sure})
    selected, crossed = seen["targets"]
    opt = parts_of(sure=sure)[0]
    n_sure = int(sure[opt].sum())
    assert (selected.n_opt, selected.n_test) == (n_sure, round(n_sure / N_OPT * (N - N_OPT)))
    assert crossed.n_opt == min(np.unique(LABELS[opt[sure[opt]]], return_counts=True)[1])


def test_a_guided_search_sees_nothing_of_test_examples_not_even_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def fake(search: str, space: Space, names: list[str], **options: Any) -> Recorder:
        seen.append(options["targets"])
        return Recorder([{"t": 0.9, "model": "large"}])

    monkeypatch.setattr("riskfront._running.tuning.search_loop.make_search", fake)
    run(Losses(), search="guided")
    whole = tuning.split

    def with_other_test_groups(*given: Any, **options: Any) -> Any:
        parts = whole(*given, **options)
        groups = {"label": Groups(parts.test.groups["label"].levels, np.zeros_like(parts.test.groups["label"].codes))}
        return replace(parts, test=replace(parts.test, groups=groups))

    monkeypatch.setattr(tuning, "split", with_other_test_groups)
    run(Losses(), search="guided")
    assert seen[0] == seen[1]


def test_a_guided_search_goes_on_where_too_few_test_examples_are_expected() -> None:
    """Fewer of a rare group are planning examples than its share: fewer are expected among the testing ones than there are."""
    n = 600
    rare = np.arange(n) >= n - 26
    fraction = rf.ParetoTesting().opt_fraction
    seed = next(s for s in range(500) if rare[positions_of(list(range(n)), {"rare": rare}, fraction, s)[1]].sum() >= 24)
    problem = rf.Problem([rf.Limit("error", at_most=0.15, per="rare")], minimize="cost")

    def losses(config: Config, examples: Any) -> dict[str, Any]:
        return {"error": np.zeros(len(examples), dtype=bool), "cost": np.full(len(examples), config["t"])}

    given = {"budget": 3, "groups": {"rare": rare}, "seed": seed}
    assert tune(losses, list(range(n)), SPACE, problem, search="guided", **given)


@pytest.mark.parametrize("search", ["random", "guided"])
def test_where_nothing_can_be_certified_every_search_ends_in_a_diagnosis(search: str) -> None:
    certificate = run(Losses(), search=search, budget=6, problem=rf.Problem(["error <= 0.001"], minimize="cost"))
    assert not certificate
    assert "message" in certificate.diagnosis


@pytest.mark.parametrize("search", ["random", "guided"])
def test_limits_outside_the_bounds_are_refused_before_any_evaluation(search: str) -> None:
    losses = Losses()
    for limit, bounds, sentence in (
        ("cost <= 200", {}, r"a limit on 'cost' needs bounds: 200 .*bounds=\{'cost': \(low, high\)\}"),
        ("cost <= 200", {"cost": (0, 2)}, r"must lie strictly between its bounds \(0, 2\); got 200"),
        ("cost <= 1.5", {"cost": (2, 0)}, "must be finite with low < high"),
        ("cost <= 1.5", {"cost": 2}, "must be a pair"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            run(losses, search=search, problem=rf.Problem([limit], minimize="cost"), bounds=bounds)
    assert losses.calls == []
    assert run(Losses(), search="random", problem=rf.Problem(["q0.9(cost) <= 1.5"], minimize="cost"), bounds=None)


def test_test_losses_must_be_what_opt_losses_were() -> None:
    class Turncoat(Losses):
        def __call__(self, config: Config, examples: Any) -> Mapping[str, Any]:
            found = dict(super().__call__(config, examples))
            if len(examples) > N / 2:
                found["error"] = found["error"] * 0.5
            return found

    with pytest.raises(InvalidInputError, match="was 0/1 on the planning examples"):
        run(Turncoat())

    def growing(config: Config, examples: Any) -> dict[str, Any]:
        return {"cost": np.full(len(examples), len(examples) / 1000), "error": np.zeros(len(examples), dtype=bool)}

    problem = rf.Problem([rf.Limit("cost", at_most=0.6)], minimize="error")
    with pytest.raises(InvalidInputError, match=r"must lie in its bounds \(0, 1\); on the testing examples"):
        tune(growing, DATA, SPACE, problem, search="random", budget=2)


def test_bad_input(tmp_path: Path) -> None:
    for options, sentence in (
        ({"budget": 0}, "budget must be a whole number of at least 1; got 0"),
        ({"budget": True}, "budget must be a whole number of at least 1; got True"),
        ({"budget": 5.0}, r"budget must be a whole number of at least 1; got 5\.0"),
        (
            {"search": Recorder([{"t": 3.0, "model": "small"}])},
            r"propose settings of the space.* t must be a number in",
        ),
        ({"search": Recorder([{"t": 0.5}])}, "propose settings of the space.* exactly the keys"),
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


class Repeating:
    """A search that draws from a few settings without looking, as one may write in a minute."""

    def __init__(self, n: int) -> None:
        self.rng, self.n, self.told = np.random.default_rng(0), n, 0

    def ask(self, n: int = 1) -> list[Config]:
        return [{"t": np.float64(self.rng.integers(self.n) / self.n), "model": "large"} for _ in range(n)]

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        self.told += 1


def test_a_search_that_repeats_itself_is_ended() -> None:
    losses, search = Losses(), Repeating(3)
    certificate = run(losses, search=search, budget=10)
    assert sorted(certificate.explored["t"]) == [0, 1 / 3, 2 / 3]
    assert search.told < 200
    opt = frozenset(parts_of()[0].tolist())
    assert [part for _, part in losses.calls].count(opt) == 3


def test_a_batch_may_hold_a_setting_twice() -> None:
    import joblib

    losses = Losses()
    with joblib.parallel_config(backend="threading"):
        run(losses, search=Repeating(2), budget=2, n_jobs=2)
    opt = frozenset(parts_of()[0].tolist())
    assert [part for _, part in losses.calls].count(opt) == 2


def test_numpy_whole_numbers_are_budgets() -> None:
    assert len(run(Losses(), budget=np.int64(7)).explored) == 7


def test_whole_numbers_stay_whole() -> None:
    kinds = set()

    def losses(config: Config, examples: Any) -> dict[str, Any]:
        kinds.add(type(config["depth"]))
        return {"error": np.zeros(len(examples), dtype=bool), "cost": np.full(len(examples), config["depth"])}

    problem = rf.Problem([rf.Limit("error", at_most=0.1)], minimize="cost")
    certificate = tune(losses, DATA, Space(depth=Int(1, 5)), problem, search="grid", budget=5)
    assert certificate.config == {"depth": 1}
    assert kinds == {int}


# -------------------------------------------------------------------- what fails, and what is shared


class Fails:
    """Losses that fail at some settings, on examples of some number only if one is given."""

    fingerprint = "losses that fail"

    def __init__(self, at: Callable[[Config], bool], n_examples: int | None = None) -> None:
        self.at, self.n_examples = at, n_examples
        self.inner = Losses()

    def __call__(self, config: Config, examples: Any) -> dict[str, Any]:
        if self.at(config) and self.n_examples in (None, len(examples)):
            raise RuntimeError("out of memory")
        return self.inner(config, examples)


@pytest.mark.parametrize("search", ["random", "optuna", "guided"])
def test_settings_that_fail_stay_in_the_search_and_are_never_certified(search: str, tmp_path: Path) -> None:
    losses = Fails(lambda config: config["model"] == "large")
    with pytest.raises(rf.EvaluationError, match="on_error='skip'"):
        run(losses, search=search)
    options = {"search": search, "on_error": "skip", "budget": 20, "store": tmp_path / "run.zarr"}
    with pytest.warns(UserWarning, match=r"failed at \d+ of 20 settings"):
        certificate = run(losses, **options)
    assert len(certificate.explored) == 20
    assert certificate
    assert set(certificate.certified["model"]) == {"small"}
    assert rf.verify(certificate, tmp_path / "run.zarr") == []
    assert run(losses, **options).to_dict() == certificate.to_dict()  # the same call is the same question
    with pytest.raises(rf.EvaluationError, match="All 5 settings failed on every example"):
        run(Fails(lambda config: True), search=search, on_error="skip", budget=5)


@pytest.mark.parametrize("search", ["optuna", "guided"])
@pytest.mark.parametrize("after", [1, 3, 9])
def test_a_run_whose_first_settings_fail_everywhere_goes_on_the_same_way(
    search: str, after: int, tmp_path: Path
) -> None:
    first: list[Config] = []

    class FirstFail(Losses):
        def __init__(self, most: int = 10**9) -> None:
            super().__init__()
            self.most = most

        def __call__(self, config: Config, examples: Any) -> Mapping[str, Any]:
            if len(examples) == N_OPT and len(self.calls) >= self.most:
                raise KeyboardInterrupt
            if config not in first and len(first) < 4:
                first.append(config)
            if config in first:
                raise RuntimeError("no")
            return super().__call__(config, examples)

    options: dict[str, Any] = {"search": search, "on_error": "skip", "budget": 14}
    with pytest.warns(UserWarning, match="failed at 4 of 14"):
        whole = run(FirstFail(), **options)
    with pytest.raises(KeyboardInterrupt):
        run(FirstFail(after), **options, store=tmp_path / "run.zarr")
    again = run(FirstFail(), **options, store=tmp_path / "run.zarr")
    assert again.path.equals(whole.path)
    assert again.explored.equals(whole.explored)


def test_a_failure_on_testing_examples_stops_or_counts_as_the_worst(tmp_path: Path) -> None:
    """To leave the setting out would make the plan depend on testing examples; to count the worst does not."""
    whole = run(Losses())
    assert len(whole.certified) > 1
    second = whole.path.iloc[1]
    losses = Fails(lambda config: abs(config["t"] - second["t"]) < 1e-9, n_examples=whole.n_test)
    with pytest.raises(
        rf.EvaluationError, match=r"return the worst losses .* The 40 settings searched are in 'eval"
    ) as caught:
        run(losses)
    assert caught.value.evaluated.n_configs == 40
    with pytest.raises(rf.EvaluationError, match=r"on_error='skip'. All that was evaluated is in the store"):
        run(losses, store=tmp_path / "run.zarr")
    assert len(LossStore(tmp_path / "run.zarr" / "test")) == 1
    with pytest.warns(UserWarning, match="failed at 1 of 40 settings"):
        skipped = run(losses, on_error="skip", store=tmp_path / "run.zarr")
    assert len(skipped.certified) == 1, "the plan is the same, and its second setting has failed"
    assert skipped.path["t"].iloc[:2].tolist() == whole.path["t"].iloc[:2].tolist()
    assert rf.verify(skipped, tmp_path / "run.zarr") == []
    losses.n_examples = -1  # corrected
    assert run(losses, store=tmp_path / "other.zarr").path.equals(whole.path)


@pytest.mark.parametrize("returned", ["raise", "nan"])
def test_examples_that_fail_at_every_setting_are_wrong_at_every_setting(returned: str, tmp_path: Path) -> None:
    bad = np.random.default_rng(3).random(N) < 0.04

    class Broken(Losses):
        fingerprint = f"broken {returned}"

        def __call__(self, config: Config, examples: Any) -> Mapping[str, Any]:
            broken = bad[np.asarray(examples)[:, 2].astype(int)]
            if returned == "raise" and broken.any():
                raise RuntimeError("no")
            found = super().__call__(config, examples)
            return {**found, "error": np.where(broken, np.nan, found["error"])} if returned == "nan" else found

    class Wrong(Losses):
        def __call__(self, config: Config, examples: Any) -> Mapping[str, Any]:
            broken = bad[np.asarray(examples)[:, 2].astype(int)]
            found = super().__call__(config, examples)
            error = found["error"] | broken
            return {**found, "error": error.astype(float) if returned == "nan" else error}

    with pytest.warns(UserWarning, match="failed at"):
        certificate = run(Broken(), on_error="skip", store=tmp_path / "run.zarr")
    expected = run(Wrong())
    assert certificate
    assert certificate.config == expected.config
    assert certificate.path["p_value"].to_numpy() == pytest.approx(expected.path["p_value"].to_numpy())
    assert rf.verify(certificate, tmp_path / "run.zarr") == []


def test_nan_makes_no_float_of_a_0_1_loss_on_testing_examples() -> None:
    class Gap(Losses):
        def __call__(self, config: Config, examples: Any) -> Mapping[str, Any]:
            found = super().__call__(config, examples)
            bad = np.asarray(examples)[:, 2] == parts_of()[1][0]
            return {**found, "error": np.where(bad, np.nan, found["error"])} if bad.any() else found

    with pytest.warns(UserWarning, match="failed at"):
        certificate = run(Gap(), on_error="skip")
    assert certificate
    assert set(certificate.path["t"]) >= set(certificate.certified["t"])


@pytest.mark.parametrize("part", ["opt", "test"])
def test_the_parts_of_a_run_are_not_calibrated_on(part: str, tmp_path: Path) -> None:
    """Their settings were chosen by these very losses: certificates from them would be false far more often than delta."""
    run(Losses(), store=tmp_path / "run.zarr")
    for data in (tmp_path / "run.zarr" / part, LossStore(tmp_path / "run.zarr" / part)):
        with pytest.raises(rf.InvalidInputError, match=f"the {part} part of a tune run must not be calibrated on"):
            rf.calibrate(data, PROBLEM)
        with pytest.raises(rf.InvalidInputError, match=f"the {part} part of a tune run must not be calibrated on"):
            rf.experiment.run(data, PROBLEM, trials=1)
    with pytest.raises(StoreError, match="is the store of a tune run: run tune again to go on, or verify"):
        rf.calibrate(tmp_path / "run.zarr", PROBLEM)


def test_bounds_can_be_declared_when_a_store_was_made_without_them(tmp_path: Path) -> None:
    def losses(config: Config, examples: Any) -> dict[str, Any]:
        return {"wait": np.full(len(examples), 5 * config["t"]), "cost": np.full(len(examples), 1 - config["t"])}

    problem = rf.Problem([rf.Limit("wait", at_most=0.9)], minimize="cost")
    options: dict[str, Any] = {"search": "random", "budget": 15, "store": tmp_path / "run.zarr"}
    with pytest.raises(rf.InvalidInputError, match="needs bounds"):
        tune(losses, list(range(400)), SPACE, problem, **options)
    for bounds in ({"wait": (0, 5)}, {"wait": (0, 50)}):
        certificate = tune(losses, list(range(400)), SPACE, problem, bounds=bounds, again=True, **options)
        assert certificate.loss_bounds == {"wait": bounds["wait"]}
        assert rf.verify(certificate, tmp_path / "run.zarr") == []


def test_evaluate_keeps_out_of_the_store_of_tune(tmp_path: Path) -> None:
    run(Losses(), search="random", budget=5, store=tmp_path / "run.zarr")
    with pytest.raises(StoreError, match=r"belongs to another task: its .*command.* differ"):
        evaluate(Losses(), DATA, [{"t": 0.5, "model": "small"}], store=tmp_path / "run.zarr")
    assert run(Losses(), search="random", budget=5, store=tmp_path / "run.zarr")


def test_options_of_a_search() -> None:
    assert run(Losses(), search="optuna", budget=10, search_options={"sampler": "tpe", "n_startup": 4})
    with pytest.raises(rf.InvalidInputError, match=r"The options of random are \[\]; got \['sampler'\]"):
        run(Losses(), search="random", search_options={"sampler": "tpe"})
    with pytest.raises(rf.InvalidInputError, match="options must be given to the search object itself"):
        run(Losses(), search=Recorder([]), search_options={"sampler": "tpe"})


@pytest.mark.parametrize("search", ["optuna", "guided"])
def test_a_study_of_another_split_is_refused(search: str, tmp_path: Path) -> None:
    """What it was told of is planning examples there, and may be testing examples here."""
    shared = {"storage": f"sqlite:///{tmp_path}/study.db", "study_name": "run"}
    assert run(Losses(), search=search, budget=8, search_options=shared)
    for options, what in (
        ({"seed": 1}, "split"),
        ({"method": rf.ParetoTesting(opt_fraction=0.5)}, "split"),
        ({"examples": -DATA}, "examples"),
        (
            {"problem": rf.Problem([rf.Limit("cost", at_most=0.9), rf.Limit("error", at_most=0.5)], "error")},
            "objectives",
        ),
    ):
        with pytest.raises(rf.InvalidInputError, match=f"must be of this very task; got other {what}"):
            run(Losses(), search=search, budget=8, search_options=shared, **options)
    assert run(Losses(), search=search, budget=8, search_options=shared)
    names = ["error", "error per label", "cost"]
    nobody = OptunaSearch(SPACE, names, storage=shared["storage"], study_name="nobody's")
    nobody.tell({"t": 0.5, "model": "small"}, dict.fromkeys(names, 0.1))
    with pytest.raises(rf.InvalidInputError, match="it has trials and does not say of which task"):
        run(Losses(), search=search, budget=8, search_options={**shared, "study_name": "nobody's"})


def test_of_two_splits_that_join_an_empty_study_at_one_moment_none_goes_on(tmp_path: Path) -> None:
    first, second = (
        OptunaSearch(SPACE, ["error"], storage=f"sqlite:///{tmp_path}/study.db", study_name="run") for _ in range(2)
    )

    def slow() -> dict[str, str]:
        return {"split": "0"}

    owners = first._owners

    def before() -> list[dict[str, str]]:
        """The second joins after the first has looked and before it has written."""
        first._owners = owners  # type: ignore[method-assign]
        found = owners()
        second.belong_to(lambda: {"split": "1"})
        return found

    first._owners = before  # type: ignore[method-assign]
    with pytest.raises(rf.InvalidInputError, match="got other split"):
        first.belong_to(slow)
    with pytest.raises(rf.InvalidInputError, match="got other split"):
        second.belong_to(lambda: {"split": "1"})


@pytest.mark.parametrize("limit", ["error gap between label <= 0.3", "error <= 0.25 proxy judge"])
def test_limits_that_need_every_outcome(limit: str) -> None:
    """They are certified where no outcome is missing; one that is missing on testing examples is an error when it is read."""
    tested = set(parts_of()[1].tolist())

    class WithProxy(Losses):
        missing = False

        def __call__(self, config: Config, examples: Any) -> Mapping[str, Any]:
            found = dict(super().__call__(config, examples))
            found["judge"] = found["error"]
            found["judge (unlabelled)"] = np.full(len(found["error"]), found["error"].mean())
            here = np.isin(np.asarray(examples)[:, 2], list(tested)[:1])
            return found if not self.missing else {**found, "error": np.where(here, np.nan, found["error"])}

    problem = rf.Problem(limit, minimize="cost")
    assert run(WithProxy(), problem=problem)
    broken = WithProxy()
    broken.missing = True
    with pytest.raises(
        InvalidInputError, match="needs every outcome of every setting on every example; some of 'error'"
    ):
        run(broken, problem=problem, on_error="skip")
