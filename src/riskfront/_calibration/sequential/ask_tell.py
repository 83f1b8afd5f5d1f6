"""Sequential: certification by ask and tell, for those who run evaluations themselves."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront._calibration.calibrate import setting_columns
from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.certificates.known_examples import data_digests
from riskfront._calibration.certificates.uses_of_test_set import ASKED, DataDigests, UseOfTestSet
from riskfront._calibration.measured import COLUMNS
from riskfront._calibration.sequential.certificates import sequential_certificate
from riskfront._calibration.sequential.course import Testing, check_adaptive, raced, references
from riskfront._calibration.sequential.racing import Race
from riskfront._calibration.sequential.taken_in import (
    check_outcomes,
    coded,
    digests_of,
    from_content,
    name_of,
    new_examples,
    rows_of,
    shuffle_of,
    to_content,
)
from riskfront._calibration.sequential.told import PartOfTold, Told, race_edges, test_edges
from riskfront._data.columns import declared_bounds
from riskfront._data.configs import as_settings
from riskfront._data.groups import all_groups
from riskfront._data.identity.fingerprints import ExampleFingerprints
from riskfront._data.problem_fit import check_complete, complete_losses
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Config, config_id
from riskfront._support.arrays import Array, IntArray
from riskfront._support.checked_json import from_bytes, reading, to_bytes
from riskfront._support.files import written_whole
from riskfront._support.values import plain, whole_number
from riskfront._support.version import __version__
from riskfront.errors import InvalidInputError
from riskfront.methods import Method
from riskfront.methods._plan import parameters
from riskfront.methods._registry import make_method


class Trial(NamedTuple):
    """What to evaluate: a setting on an example, by its position among the examples."""

    config: Config
    example: int


class Sequential:
    """Certify settings while outcomes come; look at the certificate as often as you like.

    Two ways to use it:

    - **partial**, where each evaluation costs: ``ask`` names a setting and an example, ``tell`` takes the outcome. Settings
      race on planning examples; then the best path of them is tested, each setting until it passes or is hopeless.
    - **full**, where every labelled example gives the losses of all settings, as for thresholds or cascades: ``tell_table``
      takes new examples as they are labelled, as often as they come.

    The first examples plan, the others test. The path is fixed before any testing outcome is known, and every bet knows the
    past only, so ``certificate()`` is valid at any time. Outcomes count in the order of the examples, which is drawn at random
    beforehand, whatever order they are told in: a setting waits for outcomes that are late. One that will never come must be
    told as failed (None); it counts as the worst there can be.

    Args:
        configs: the settings, as for LossTable.
        problem: limits, objectives and delta. Limits are tested by betting; proxies are not supported.
        examples: how many examples there are, or the examples themselves, which are then searched for copies. In full use: how
            many will come in all, about.
        planning: how many of them plan; by default the share of the method.
        method: how the path is planned; it must plan a path, as pareto-testing does.
        groups: name -> one value for each example (partial use), or name -> all values that there can be (full use).
        bounds: name -> (low, high), the range of a loss; (0, 1) by default.
        seed: of the order of the examples; by default it is drawn by the operating system. With a seed of your own, the order
            in which you number the examples must have nothing to do with their outcomes.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> wrong = np.random.default_rng(0).random((3, 600)) < np.array([[0.02], [0.05], [0.3]])
        >>> configs = [{"model": name} for name in ("large", "medium", "small")]
        >>> price = {"large": 9.0, "medium": 3.0, "small": 1.0}
        >>> run = rf.Sequential(configs, rf.Problem("error <= 0.15", minimize="price"), examples=600, seed=0)
        >>> while trials := run.ask(8):
        ...     for config, example in trials:
        ...         row = ["large", "medium", "small"].index(config["model"])
        ...         run.tell((config, example), {"error": wrong[row, example], "price": price[config["model"]]})
        >>> run.certificate().config
        {'model': 'medium'}
        >>> run.n_told < 900  # of 1,800
        True
    """

    def __init__(
        self,
        configs: Sequence[Mapping[str, Any]] | pd.DataFrame,
        problem: Problem,
        *,
        examples: Any,
        planning: int | None = None,
        method: str | Method = "pareto-testing",
        groups: Mapping[str, npt.ArrayLike] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        seed: int | None = None,
    ) -> None:
        if not isinstance(problem, Problem):
            raise InvalidInputError(f"problem must be a Problem; got {type(problem).__name__}.")
        frame = as_settings(configs)
        rows = zip(*(frame[name] for name in frame.columns), strict=True)
        listed = [dict(zip(map(str, frame.columns), map(plain, row), strict=True)) for row in rows]
        chosen = make_method(method)
        check_adaptive(problem, chosen)
        n = _number_of(examples)
        n_opt = round(chosen.opt_fraction * n) if planning is None else whole_number("planning", planning, 1)
        if not 1 <= n_opt < n:
            raise InvalidInputError(f"some examples must plan and others test; got {n_opt} of {n} for planning.")
        drawn = np.random.SeedSequence().entropy if seed is None else whole_number("seed", seed, 0)
        order = np.random.default_rng(drawn).permutation(n)
        self._set(listed, problem, chosen, n, n_opt, order, dict(groups or {}), dict(bounds or {}))
        self._known_by.extend(digests_of(examples))

    def _set(
        self,
        configs: list[Config],
        problem: Problem,
        method: Method,
        n: int,
        n_opt: int,
        order: IntArray,
        groups: dict[str, Any],
        bounds: dict[str, tuple[float, float]],
    ) -> None:
        """Before the first outcome."""
        self.configs, self.problem, self._method = configs, problem, method
        self._n, self._n_opt, self._order = n, n_opt, np.asarray(order, dtype=np.int64)
        self._place = np.argsort(self._order)
        self._groups_given, self._bounds = groups, declared_bounds(bounds, dict.fromkeys(bounds, (np.nan, np.nan)))
        self._row = {config_id(config): at for at, config in enumerate(configs)}
        self._needed = references(configs, problem)
        self._bounded = {loss for limit in problem.limits for loss in limit.bounded}
        self._complete = complete_losses(problem)
        self._losses = list(problem.losses)
        self._full: bool | None = None
        self._log: list[tuple[int, int]] = []  # settings and examples, in the order in which they were told
        self._batches: list[int] = []  # in full use: how many examples came each time
        self._ids: dict[str, int] = {}  # in full use: the names of examples, and their places
        self._told = Told.nothing(configs, self._bounds, 0, {})
        self._asked: set[tuple[int, int]] = set()
        self._known_by: list[DataDigests] = []  # in full use: of what each time told; else of the examples, if given
        self._earlier: list[tuple[int, UseOfTestSet]] = []  # other questions to them, and how much was told by then
        self._looked = 0  # at how many of ``_known_by`` this run has looked
        self._race: Race | None = None
        self._testing: Testing | None = None

    # ---------------------------------------------------------------- partial use

    def _use(self, *, full: bool) -> None:
        """The first call decides whether outcomes come one by one or for all settings at a time."""
        if self._full is None:
            self._full = full
            if not full:
                coded = {name: of.at(self._order) for name, of in all_groups(self._groups_given, self._n).items()}
                self._told = Told.nothing(self.configs, self._bounds, self._n, coded)
        if self._full is not full:
            raise InvalidInputError(
                "a sequential run is used in one way: ask and tell for single outcomes, or tell_table for examples with the "
                "outcomes of all settings; this one began in the other way."
            )

    def ask(self, n: int = 1) -> list[Trial]:
        """At most n evaluations to make next; none when the run has ended, or waits for outcomes that were asked for."""
        self._use(full=False)
        found: list[Trial] = []
        for row, chunk in self._wanted(whole_number("n", n, 1)):
            start, stop = self._part(planning=self._testing is None).places[chunk : chunk + 2]
            for place in range(int(start), int(stop)):
                if not self._told.known[row, place] and (row, place) not in self._asked and len(found) < n:
                    self._asked.add((row, place))
                    found.append(Trial(dict(self.configs[row]), int(self._order[place])))
        return found

    def tell(self, trial: Trial | tuple[Mapping[str, Any], int], outcome: Mapping[str, Any] | None) -> None:
        """Take the outcome of a setting on an example, in any order; None, or None for a loss, is one that failed.

        An outcome that was told before is recognised, and does not count again.
        """
        self._use(full=False)
        config, example = trial
        row, place = self._found(config, example)
        checked = self._checked(outcome)
        if self._told.known[row, place]:
            if not self._told.same(row, place, checked):
                raise InvalidInputError(
                    f"an outcome is told once; that of {dict(config)} on example {example} was told before, with other values. "
                    "Average repeats before they are told."
                )
            return
        self._told.add(row, place, checked)
        self._log.append((row, int(example)))
        self._asked.discard((row, place))

    def _found(self, config: Mapping[str, Any], example: Any) -> tuple[int, int]:
        row = self._row.get(config_id({str(name): plain(value) for name, value in config.items()}))
        if row is None:
            raise InvalidInputError(f"outcomes must be of settings of this run; {dict(config)} is none of them.")
        number = whole_number("example", example, 0)
        if number >= self._n:
            raise InvalidInputError(f"examples are numbered from 0 to {self._n - 1}; got {number}.")
        return row, int(self._place[number])

    def _checked(self, outcome: Mapping[str, Any] | None) -> dict[str, float | None]:
        """Every loss of the problem as a number within its bounds, or None."""
        names = list(self._told.values) or sorted(set(self._losses) - set(self._told.groups))
        given = dict.fromkeys(names) if outcome is None else dict(outcome)
        lacking = [name for name in self._needs() if name not in given]
        if lacking or (self._told.values and given.keys() != self._told.values.keys()):
            raise InvalidInputError(
                f"an outcome must have a value for each of {sorted(set(names) | set(self._needs()))}; got {sorted(given)}."
            )
        found: dict[str, float | None] = {}
        for name, value in given.items():
            number = None if value is None else float(value)
            if number is not None and not math.isfinite(number):
                number = None
            if number is None and name in self._complete:
                check_complete(self._complete[name], name)
            low, high = self._bounds.get(name, (0.0, 1.0))
            if number is not None and name in self._bounded and not low <= number <= high:
                raise InvalidInputError(
                    f"loss '{name}' must lie in its bounds ({low:g}, {high:g}); got {number:g}. Declare its range with bounds=."
                )
            found[name] = number
        return found

    def _needs(self) -> list[str]:
        groups = set(self._told.groups) | set(self._groups_given)
        return sorted(name for name in self._losses if name not in groups)

    # ---------------------------------------------------------------- full use

    def tell_table(self, table: LossTable, ids: Iterable[Any] | None = None) -> int:
        """Take new examples with the outcomes of all settings; returns how many were new.

        Within a table the order is drawn at random; over time, examples count in the order in which tables are told. What comes
        when must not depend on outcomes: tell all that was labelled, or a random part of it.

        Args:
            table: losses of all settings of this run on some examples.
            ids: a name for each example. An example that was told before does not count again, so a file that grows can be told
                again and again. Only a single table, or tables whose losses tell examples apart, may come without names; what
                was told before is then refused.
        """
        self._use(full=True)
        rows = rows_of(self, table)
        names = None if ids is None else [name_of(one) for one in ids]
        new = new_examples(self, table, names)
        if not len(new):
            return 0
        told = table if len(new) == table.n_examples else table.subset(new)
        new = new[shuffle_of(self, len(self._ids), len(new))]
        part = table.select(rows).subset(new)
        check_outcomes(self, part)
        groups = coded(self, part)
        losses: dict[str, Array] = {name: part.outcomes(name, np.arange(part.n_configs)) for name in part.loss_names}
        for place, example in enumerate(new.tolist()):
            self._ids[f"#{len(self._ids)}" if names is None else names[example]] = self._told.known.shape[1] + place
        self._told.add_columns(losses, groups)
        self._batches.append(len(new))
        self._known_by.append(data_digests(told, self.problem, told.fingerprint))
        return len(new)

    def _limited(self) -> set[str]:
        return {loss for limit in self.problem.limits for loss in limit.term.losses}

    # ---------------------------------------------------------------- what is known now

    @property
    def n_told(self) -> int:
        """How many outcomes of a setting on an example were told."""
        return int(self._told.known.sum())

    def _part(self, *, planning: bool) -> PartOfTold:
        if planning:
            return self._told.part(race_edges(self._n_opt) if not self._full else np.array([0, self._n_opt]))
        if not self._full:
            return self._told.part(self._n_opt + test_edges(self._n - self._n_opt))
        ends = [end for end in np.cumsum(self._batches) if end > self._n_opt]
        return self._told.part(np.array([self._n_opt, *ends], dtype=np.int64))

    def _advance(self) -> None:
        """Go on as far as what was told allows."""
        if self._full is None:
            return
        if self._testing is None:
            opt = self._part(planning=True)
            if self._full and self._told.known.shape[1] < self._n_opt:
                return
            if self._race is None:
                rows = range(len(self.configs))
                self._race = raced(opt, self.configs, self.problem, self._n - self._n_opt, rows)
            if self._full:
                finalists = list(range(len(self.configs)))
            else:
                self._race.advance()
                if not self._race.is_over:
                    return
                finalists = self._race.alive
            self._testing = Testing(
                self.configs,
                self.problem,
                self._method,
                opt,
                self._part(planning=False),
                finalists,
                self._n - self._n_opt,
                open_ended=bool(self._full),
            )
        self._testing.path.see(self._part(planning=False))
        self._testing.path.advance()

    def _wanted(self, count: int) -> list[tuple[int, int]]:
        self._advance()
        if self._testing is not None:
            return self._testing.path.wanted(count)
        return [] if self._race is None else self._race.wanted()

    @property
    def certified(self) -> list[Config]:
        """The settings that are certified so far, in testing order; as valid at any time as ``certificate()``."""
        self._advance()
        self._record_use()
        tests = [] if self._testing is None else self._testing.path.certified
        return [dict(self.configs[test.row]) for test in tests]

    def certificate(self) -> Certificate:
        """What is certified by what was told so far. It is valid however often, and whenever, one looks."""
        self._advance()
        self._record_use()
        evaluations = {"told": self._times_told, "made": self.n_told, "full": self._all}
        if self._testing is None:
            return self._not_yet(evaluations)
        opt, test = self._part(planning=True), self._part(planning=False)
        levels = {row: level for row in range(len(self.configs)) if (level := opt.level(row))}
        made = sequential_certificate(self._testing, self._method, opt, test, levels, self._needed, evaluations)
        return made.after(list({use.question: use for _, use in self._earlier}.values()))

    @property
    def _times_told(self) -> int:
        return len(self._batches) if self._full else len(self._log)

    def _record_use(self) -> None:
        """To look once planning has ended is to use the examples: later questions to them count this one, and this one counts
        those that came before it. A plan without a setting to test counts, too: what it says of its planning examples decides
        whether one asks again, with these among the testing examples."""
        if self._testing is None:
            return
        by = hashlib.sha256(self._order.tobytes()).hexdigest()
        use = UseOfTestSet.of(
            self.problem, self._method.name, parameters(self._method), [by, self.configs], "a sequential run"
        )
        for data in self._known_by[self._looked :]:
            self._earlier += [(self._times_told, other) for other in ASKED.before(data, use)]
        self._looked = len(self._known_by)

    @property
    def _all(self) -> int:
        return len(self.configs) * max(self._n, self._told.known.shape[1])

    def _not_yet(self, evaluations: Mapping[str, Any]) -> Certificate:
        """Nothing is certified while planning examples are still needed."""
        names = list(self.configs[0])
        none = LossTable([self.configs[0]], {"none": [[0]]})
        columns = setting_columns(none, self.problem, also=("examples",))
        path = pd.DataFrame({columns[name]: [] for name in names}).assign(
            examples=np.array([], dtype=np.int64), p_value=0.0, tested_at=0.0, tested_by="", certified=False, chosen=0
        )
        made, wanted = int(self._told.known[:, : self._n_opt].sum()), self._n_opt
        message = f"Planning has not ended: {made:,} outcomes are known, and {wanted:,} examples plan. Nothing was tested yet."
        return Certificate(
            problem=self.problem,
            method=self._method.name,
            parameters=parameters(self._method) | ({"holm_share": 0.0} if hasattr(self._method, "holm_share") else {}),
            guaranteed=self._method.guaranteed,
            n_opt=self._n_opt,
            n_test=0,
            seed=None,
            data_sha256="",
            version=__version__,
            setting_columns=columns,
            path=path.astype({"certified": bool, "chosen": np.int64}),
            measured=pd.DataFrame(columns=list(COLUMNS)),
            groups={},
            explored=None,
            diagnosis={"message": message},
            loss_bounds={name: self._bounds.get(name, (0.0, 1.0)) for name in sorted(self._limited())},
            evaluations=dict(evaluations),
            intake=self._told.account(self.problem),
        )

    def __repr__(self) -> str:
        state = "planning" if self._testing is None else f"{len(self._testing.path.certified)} settings certified"
        return f"Sequential({len(self.configs)} settings, {self.n_told:,} outcomes told, {state})"

    # ---------------------------------------------------------------- files

    def as_of(self, told: int) -> Sequential:
        """The run as it was after so many outcomes (in full use: tables) were told; to verify a certificate of that time."""
        return self.from_dict(self.to_dict(told))

    def to_dict(self, told: int | None = None) -> dict[str, Any]:
        """Everything that was told, or the first so many."""
        return to_content(self, told)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sequential:
        return from_content(cls, data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON, whole or not at all, and on the disk when this returns. Evaluations that were asked for and not told
        are asked for again after ``load``."""
        with written_whole(path, durable=True) as temporary:
            temporary.write_bytes(to_bytes(self.to_dict()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Sequential:
        """Read from JSON, to go on where it was saved."""
        with reading("run", path):
            return cls.from_dict(from_bytes(Path(path).read_bytes()))


def _number_of(examples: Any) -> int:
    """How many examples there are; examples themselves are searched for copies."""
    if isinstance(examples, int | np.integer) and not isinstance(examples, bool):
        return whole_number("examples", int(examples), 2)
    found = ExampleFingerprints.of(examples)
    if found is not None:
        found.kept("refuse")
    return len(examples)
