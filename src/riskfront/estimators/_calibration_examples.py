"""The examples of ``fit``: without copies, and split by what they contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from riskfront._data.groups import Groups, as_groups
from riskfront._data.identity.fingerprints import ExampleFingerprints, Repeats, check_repeats
from riskfront._data.splits import DRAWN, split_examples
from riskfront._data.table import LossTable
from riskfront._support.arrays import FloatArray, IntArray
from riskfront.errors import InvalidInputError

CLUSTER = "cluster"


@dataclass(frozen=True, eq=False)
class Examples:
    """X, y and groups of n examples, and sentences on what a guarantee on them speaks of."""

    X: Any
    y: Any
    groups: Mapping[str, Groups]
    notes: tuple[str, ...] = ()
    copies: IntArray | None = None  # (n,): how many copies of each were left out
    clusters: Groups | None = None  # rows of one cluster, a day say, are averaged to one
    amounts: FloatArray | None = None  # (n,): what is at stake
    part_of: str | None = None  # the digest of all examples, where these are those that a split left to test

    @classmethod
    def of(
        cls, X: Any, y: Any, groups: Any, repeats: Repeats, *, clusters: Any = None, amounts: Any = None
    ) -> Examples:
        """Those that count, as ``repeats`` says; an error where there are copies that it does not speak of."""
        check_repeats(repeats)
        n = _num_samples(X)
        given = cls(
            X,
            y,
            groups_by_name(groups, n),
            clusters=None if clusters is None else as_groups(CLUSTER, clusters, n),
            amounts=None if amounts is None else _checked_amounts(amounts, n),
        )
        found = given.fingerprints
        if found is None:
            return given
        found = replace(found, to_the_last_digit=True)  # rows of X alone are looked at below
        kept = found.kept(repeats)
        own = given if len(kept.positions) == len(found) else given.take(kept.positions)
        if repeats != "independent":
            own._refuse_several_labels()
        return replace(own, notes=kept.notes, copies=kept.copies)

    def __len__(self) -> int:
        return int(_num_samples(self.X))

    @cached_property
    def fingerprints(self) -> ExampleFingerprints | None:
        codes = [group.codes for group in (*self.groups.values(), *([] if self.clusters is None else [self.clusters]))]
        return ExampleFingerprints.of(self.X, self.y, self.amounts, *codes)

    def _refuse_several_labels(self) -> None:
        """An error where X repeats more than independent draws explain: one example, measured or labelled several times.

        Rows of one cluster may be alike; those of different clusters must be independent draws.
        """
        alone = ExampleFingerprints.of(self.X)
        if alone is not None and self.clusters is not None:
            pairs = np.stack([alone.numbers, self.clusters.codes.astype(np.uint64)], axis=1)
            alone = alone.take(np.unique(pairs, axis=0, return_index=True)[1])
        if alone is None or not alone.n_copies:
            return
        said = f"a guarantee needs every example once; of {len(self):,} rows {alone.n_copies:,} have exactly the X of another"
        if self.clusters is not None:
            raise InvalidInputError(
                f"{said} in another cluster, which independent draws do not explain. Give all rows with the same X one "
                "cluster, or leave copies out. Where equal X were drawn independently of each other, say so: "
                "repeats='independent'."
            )
        raise InvalidInputError(
            f"{said}, which independent draws do not explain. Several labels of one example are no independent draws: give "
            "clusters=, one value for all rows with the same X. Where equal X were drawn independently of each other, say "
            "so: repeats='independent'."
        )

    @property
    def _digest(self) -> bytes:
        """Of all examples in their order; of labels and groups alone where X cannot be read."""
        codes = [group.codes for group in self.groups.values()]
        found = self.fingerprints or ExampleFingerprints.of(self.y, *codes) or ExampleFingerprints.of(range(len(self)))
        return b"" if found is None else found.digest

    def describe(self, table: LossTable) -> LossTable:
        """The table of these examples, with what is known of them: they shuffle its split, so that fit is repeatable.

        Rows of one cluster become one averaged row.
        """
        if self.clusters is not None:
            table = table.by_cluster(CLUSTER)
        table.notes, table.shuffled_by = self.notes, DRAWN + self._digest[:16].hex()
        table.copies_left_out = 0 if self.copies is None else int(self.copies.sum())
        # another seed leaves other examples of the same: that asks the same examples again
        table.examples_digest = self.part_of or self._order_free
        return table

    @property
    def _order_free(self) -> str | None:
        """A digest of X and y in any order; None where they cannot be read or few of them differ."""
        labels = ExampleFingerprints.of(self.y)
        own = ExampleFingerprints.of(self.X, *([] if labels is None else labels.ranks))
        return None if own is None else own.order_free

    def take(self, positions: IntArray) -> Examples:
        # groups that only other examples have stay known: a limit in every group speaks of them too
        groups = {name: group.at(positions) for name, group in self.groups.items()}
        y = None if self.y is None else _safe_indexing(self.y, positions)
        copies = None if self.copies is None else self.copies[positions]
        clusters = self.clusters and self.clusters.at(positions)
        amounts = None if self.amounts is None else self.amounts[positions]
        X = _safe_indexing(self.X, positions)
        return Examples(X, y, groups, self.notes, copies, clusters, amounts, self.part_of)

    @property
    def table_groups(self) -> dict[str, Groups]:
        """Groups for a table of rows, clusters among them."""
        return {**self.groups, **({} if self.clusters is None else {CLUSTER: self.clusters})}

    def planning_rows(self, fraction: float, seed: int) -> IntArray:
        """The rows on which a method with this share plans: what is learned from them alone leaves the test as it is."""
        return split_examples(len(self), fraction, seed, self._digest[:16])[0]

    def split(self, fraction: float, seed: int) -> tuple[Examples, Examples]:
        """To train on, about this share, and to calibrate on. Not stratified: what calibrates must be independent draws.

        Examples that hold much are split by content, and all copies of one go to the same side. Where examples hold little,
        equal ones are independent draws, and each goes its own way.
        """
        found = self.fingerprints
        if self.clusters is not None:
            raise InvalidInputError(
                "clusters must not be divided between training and calibration; got train_fraction too. Fit the model on other "
                "clusters first, and leave train_fraction out."
            )
        if len(self) < 2:
            raise InvalidInputError(
                f"train_fraction needs an example to train on and another to calibrate on; got {len(self)} sample."
            )
        if found is None or not found.are_rich:
            train, rest = split_examples(len(self), fraction, seed, self._digest)
        else:
            order = np.argsort(found.places(seed), kind="stable")
            cut = round(fraction * len(order))
            while 0 < cut < len(order) and found.numbers[order[cut]] == found.numbers[order[cut - 1]]:
                cut += 1
            train, rest = order[:cut], order[cut:]
        if min(len(train), len(rest)) == 0:
            raise InvalidInputError(
                f"train_fraction must leave examples to train on and others to calibrate on; {fraction} of {len(self)} leaves "
                f"{len(train)} and {len(rest)}. Give more examples."
            )
        whole = self._order_free
        return self.take(np.sort(train)), replace(self.take(np.sort(rest)), part_of=whole)


def groups_by_name(groups: Any, n: int) -> dict[str, Groups]:
    """Groups that limits may name: name -> (n,) values, a data frame, or one (n,) array, then called "group"."""
    if groups is None:
        return {}
    if isinstance(groups, str):
        raise InvalidInputError(
            f"groups must hold a value for each example; got the text {groups!r}. Give the values: "
            f"groups={{{groups!r}: X[{groups!r}]}}, or any array with one value for each row."
        )
    by_name = groups if isinstance(groups, Mapping | pd.DataFrame) else {"group": groups}
    return {str(name): as_groups(str(name), by_name[name], n) for name in by_name}


def _checked_amounts(amounts: Any, n: int) -> FloatArray:
    array = np.asarray(amounts, dtype=np.float64).reshape(-1)
    if array.shape != (n,) or not np.isfinite(array).all() or (array < 0).any():
        raise InvalidInputError(
            f"amounts must hold a number of at least 0 for each of {n} examples; got {len(array)} values, "
            "some of them perhaps negative or missing."
        )
    return array
