"""Sequential runs: any order, late, failed, twice, saved in between; certificates that verify."""

from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError

CONFIGS = [{"model": name} for name in ("large", "medium", "small")]
RISK, PRICE = np.array([0.01, 0.04, 0.4]), (9.0, 3.0, 1.0)
PROBLEM = rf.Problem("error <= 0.15", minimize="price")
WRONG = np.random.default_rng(0).random((3, 400)) < RISK[:, None]


def outcome(config: dict[str, str], example: int) -> dict[str, float]:
    row = [one["model"] for one in CONFIGS].index(config["model"])
    return {"error": float(WRONG[row, example]), "price": PRICE[row]}


def finished(run: rf.Sequential, at_a_time: int = 16, seed: int = 0) -> rf.Sequential:
    rng, waiting = np.random.default_rng(seed), []
    while True:
        waiting += run.ask(at_a_time)
        if not waiting:
            return run
        rng.shuffle(waiting)
        for trial in waiting[: at_a_time // 2]:
            run.tell(trial, outcome(*trial))
        waiting = waiting[at_a_time // 2 :]


def test_the_order_of_telling_does_not_matter() -> None:
    found = [
        finished(rf.Sequential(CONFIGS, PROBLEM, examples=400, seed=1), n, seed).certificate()
        for n, seed in ((2, 0), (16, 0), (40, 3))
    ]
    assert all(one.config == {"model": "medium"} for one in found)
    assert len({one.data_sha256 for one in found}) == 1
    assert found[0].evaluations["made"] < 0.5 * found[0].evaluations["full"]


def test_a_run_goes_on_from_its_file_and_asks_again_for_what_was_not_told(tmp_path: Path) -> None:
    run = rf.Sequential(CONFIGS, PROBLEM, examples=400, seed=1)
    for trial in run.ask(30)[:20]:
        run.tell(trial, outcome(*trial))
    run.save(tmp_path / "run.json")
    again = rf.Sequential.load(tmp_path / "run.json")
    assert again.n_told == 20
    assert len(again.ask(5)) == 5
    whole = finished(rf.Sequential(CONFIGS, PROBLEM, examples=400, seed=1)).certificate()
    assert finished(rf.Sequential.load(tmp_path / "run.json")).certificate().data_sha256 == whole.data_sha256
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace('"planning": 80', '"planning": 8'))
    with pytest.raises(InvalidInputError, match="as it was saved"):
        rf.Sequential.load(tmp_path / "run.json")


def test_outcomes_told_twice_count_once_and_changed_ones_are_refused() -> None:
    run = rf.Sequential(CONFIGS, PROBLEM, examples=400, seed=1)
    trial = run.ask()[0]
    for _ in range(3):
        run.tell(trial, outcome(*trial))
    assert run.n_told == 1
    with pytest.raises(InvalidInputError, match="told before, with other values"):
        run.tell(trial, {"error": 1 - outcome(*trial)["error"], "price": 1.0})


def test_failed_evaluations_count_as_the_worst() -> None:
    run = rf.Sequential(CONFIGS[:1], PROBLEM, examples=200, seed=1)
    while trials := run.ask(10):
        for trial in trials:
            run.tell(trial, None if trial.example % 3 == 0 else outcome(*trial))
    assert not run.certificate()
    assert run.certificate().intake.worst > 0


@pytest.mark.slow
def test_certificates_of_any_time_verify_from_the_recorded_outcomes(tmp_path: Path) -> None:
    run = rf.Sequential(CONFIGS, PROBLEM, examples=400, seed=1)
    made = [run.certificate()]
    while trials := run.ask(50):
        for trial in trials:
            run.tell(trial, outcome(*trial))
        made.append(run.certificate())
    run.save(tmp_path / "run.json")
    assert not made[0]
    assert made[-1]
    for one in made:
        one.save(tmp_path / "certificate.json")
        assert rf.verify(rf.Certificate.load(tmp_path / "certificate.json"), tmp_path / "run.json") == []
    forged = made[-1].to_dict()
    forged["path"]["data"] = forged["path"].get("data")
    other = rf.Sequential(CONFIGS, PROBLEM, examples=400, seed=2)
    assert rf.verify(made[-1], finished(other)) != []


@pytest.mark.parametrize(
    ("outcome_told", "says"),
    [
        ({"error": 0}, "must have a value"),
        ({"error": 7.0, "price": 1.0}, "bounds"),
        ({"error": 0, "price": 1, "x": 1}, None),
    ],
)
def test_outcomes_are_checked_before_they_count(outcome_told: dict[str, float], says: str | None) -> None:
    run = rf.Sequential(CONFIGS, PROBLEM, examples=400, seed=1)
    trial = run.ask()[0]
    if says is None:
        run.tell(trial, outcome_told)
        return
    with pytest.raises(InvalidInputError, match=says):
        run.tell(trial, outcome_told)
    assert run.n_told == 0


def table(rng: np.random.Generator, n: int, label: bool = True) -> rf.LossTable:
    losses = {"error": rng.random((3, n)) < RISK[:, None], "price": np.repeat(np.array(PRICE)[:, None], n, axis=1)}
    return rf.LossTable(CONFIGS, losses, groups={"label": np.arange(n) % 2} if label else None)


@pytest.mark.slow
def test_tables_that_grow_count_each_example_once(tmp_path: Path) -> None:
    problem = rf.Problem(["error <= 0.15", "error <= 0.2 per label"], minimize="price")
    rng = np.random.default_rng(1)
    whole = table(rng, 600)
    run = rf.Sequential(CONFIGS, problem, examples=600, planning=150)
    for upto in range(100, 601, 100):
        assert run.tell_table(whole.subset(range(upto)), ids=range(upto)) == 100
        run.save(tmp_path / "run.json")
        run = rf.Sequential.load(tmp_path / "run.json")
    found = run.certificate()
    assert found.config == {"model": "medium"}
    assert run.certified[-1] == {"model": "medium"}
    assert rf.verify(found, tmp_path / "run.json") == []
    with pytest.raises(InvalidInputError, match="other values"):
        run.tell_table(table(rng, 600), ids=range(600))
    with pytest.raises(InvalidInputError, match="used in one way"):
        run.ask()


def test_what_bets_cannot_test_is_refused() -> None:
    for limit in (rf.Limit("error", at_most=0.1, p_value="binomial"), rf.Limit("error", at_most=0.1, proxy="judge")):
        with pytest.raises(InvalidInputError):
            rf.Sequential(CONFIGS, rf.Problem([limit], minimize="price"), examples=100)
    with pytest.raises(InvalidInputError, match="path"):
        rf.Sequential(CONFIGS, PROBLEM, examples=100, method="holm")


def test_every_outcome_is_accounted_for() -> None:
    run = rf.Sequential(
        CONFIGS,
        rf.Problem("error drop from large <= 0.3", minimize="price"),
        examples=400,
        seed=1,
        bounds={"error": (0, 1)},
    )
    for trial in run.ask(30):
        run.tell(trial, None if trial.example % 5 == 0 else outcome(*trial))
    early = run.certificate()
    assert (early.intake.read, early.evaluations["made"]) == (30, 30)
    assert early.intake.worst == int(run._told.missing["error"].sum()) > 0
    late = finished(run).certificate()
    assert late.intake.read == late.evaluations["made"]
    days = rf.Sequential(CONFIGS, PROBLEM, examples=400, planning=80)
    days.tell_table(rf.LossTable(CONFIGS, {"error": WRONG, "price": np.repeat(np.array(PRICE)[:, None], 400, axis=1)}))
    found = days.certificate()
    assert found.intake.read == 1200
    assert sum(found.intake.left_out.values()) == 1200 - 3 * 80 - int(found.tested["examples"].sum())


def test_a_gap_cannot_do_with_failures_and_says_so_before_they_count(tmp_path: Path) -> None:
    problem = rf.Problem("error gap between label <= 0.3", minimize="price")
    label = np.arange(400) % 2
    run = rf.Sequential(CONFIGS, problem, examples=400, groups={"label": label})
    trial = run.ask()[0]
    with pytest.raises(InvalidInputError, match="difference between groups needs every outcome"):
        run.tell(trial, None)
    run.tell(trial, outcome(*trial))
    days = rf.Sequential(CONFIGS, problem, examples=400, groups={"label": [0, 1]})
    losses = {"error": WRONG.astype(float), "price": np.repeat(np.array(PRICE)[:, None], 400, axis=1)}
    losses["error"][0, 3] = np.nan
    with pytest.raises(InvalidInputError, match="difference between groups needs every outcome"):
        days.tell_table(rf.LossTable(CONFIGS, losses, groups={"label": label}))
    assert days.n_told == 0
    losses["error"][0, 3] = 1.0
    assert days.tell_table(rf.LossTable(CONFIGS, losses, groups={"label": label})) == 400


def days_of(n: int = 400) -> rf.LossTable:
    return rf.LossTable(CONFIGS, {"error": WRONG, "price": np.repeat(np.array(PRICE)[:, None], n, axis=1)})


def test_another_run_on_the_same_examples_counts_the_first(tmp_path: Path) -> None:
    def run(limit: float, **options: int) -> rf.Sequential:
        made = rf.Sequential(CONFIGS, rf.Problem(f"error <= {limit}", minimize="price"), examples=400, **options)
        made.tell_table(days_of(), ids=range(400))
        return made

    first, second, third = run(0.15), run(0.2), run(0.15)
    planning = rf.Sequential(CONFIGS, PROBLEM, examples=800, planning=401)
    planning.tell_table(days_of(), ids=range(400))
    assert not planning.certified  # it has looked at nothing yet
    assert first.certificate().delta_of_all_looks == pytest.approx(0.1)
    made = second.certificate()
    assert made.delta_of_all_looks == pytest.approx(0.2)
    assert third.certificate().delta_of_all_looks == pytest.approx(0.3)  # its order is another one
    assert rf.calibrate(days_of(), PROBLEM).delta_of_all_looks == pytest.approx(0.4)
    assert first.certificate().delta_of_all_looks == pytest.approx(0.1)  # to look again is free
    second.save(tmp_path / "run.json")
    again = rf.Sequential.load(tmp_path / "run.json")
    assert again.certificate().delta_of_all_looks == pytest.approx(0.2)
    assert rf.verify(made, tmp_path / "run.json") == []
    seeded = [run(0.18, seed=4).certificate() for _ in range(2)]
    assert [one.delta_of_all_looks for one in seeded] == pytest.approx(
        [0.5, 0.5]
    )  # the same order gives the same answer
    assert seeded[0].data_sha256 == seeded[1].data_sha256


def test_examples_that_were_given_are_known_to_other_runs_and_to_tune() -> None:
    questions = np.random.default_rng(8).random((400, 2))

    def asked(**options: int) -> rf.Certificate:
        return finished(rf.Sequential(CONFIGS, PROBLEM, examples=questions, **options)).certificate()

    def losses(config: dict[str, str], examples: np.ndarray) -> dict[str, np.ndarray]:
        found = [outcome(config, int(np.flatnonzero((questions == one).all(axis=1))[0])) for one in examples]
        return {name: np.array([one[name] for one in found]) for name in ("error", "price")}

    assert asked(seed=1).delta_of_all_looks == pytest.approx(0.1)
    assert asked(seed=2).delta_of_all_looks == pytest.approx(0.2)
    assert asked(seed=1).delta_of_all_looks == pytest.approx(0.1)
    space = rf.Space(model=rf.Choice(["large", "medium", "small"]))
    found = rf.tune(losses, questions, space, PROBLEM, search="grid", adaptive=True, progress=False)
    assert found.delta_of_all_looks == pytest.approx(0.3)


def test_tables_without_names_are_refused_where_one_told_twice_would_count_twice() -> None:
    run = rf.Sequential(CONFIGS, PROBLEM, examples=800, planning=80)
    assert run.tell_table(days_of()) == 400
    for again in (days_of(), days_of().subset(range(100))):
        with pytest.raises(InvalidInputError, match="must have names"):
            run.tell_table(again)
    with pytest.raises(InvalidInputError, match="some of these were told before"):
        run.tell_table(days_of(), ids=[f"again {k}" for k in range(400)])
    assert run.n_told == 1200
    rng = np.random.default_rng(3)
    graded = [
        rf.LossTable(CONFIGS, {"error": rng.random((3, 100)) / 20, "price": rng.random((3, 100))}) for _ in range(2)
    ]
    run = rf.Sequential(CONFIGS, PROBLEM, examples=200, planning=80)
    assert [run.tell_table(table) for table in graded] == [100, 100]
    with pytest.raises(InvalidInputError, match="some of these were told before"):
        run.tell_table(graded[1].subset(range(50)))


def test_to_tell_again_what_was_not_saved_gives_the_same_answer() -> None:
    run = rf.Sequential(CONFIGS, PROBLEM, examples=400, planning=80)
    run.tell_table(days_of().subset(range(150)), ids=range(150))
    found = set()
    for _ in range(4):
        again = rf.Sequential.from_dict(run.to_dict())
        again.tell_table(days_of().subset(range(300)), ids=range(300))
        found.add(again.certificate().data_sha256)
    assert len(found) == 1
