"""Limits: what a mean loss, or a quantile, must keep, and the texts that say so."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from riskfront._problems import proxies, targets
from riskfront._problems.terms import Term, short_repr
from riskfront._support.values import is_number, known
from riskfront.errors import InvalidInputError
from riskfront.statistics import _p_values as p_values

_LIMIT = re.compile(
    r"^\s*(?:q(?P<quantile>0?\.\d+)\s*\(\s*(?P<inner>.+?)\s*\)|(?P<loss>.+?))"
    r"\s*(?P<sign><=|>=|≤|≥|<|>|(?<=\s)at (?:most|least)(?=\s))\s*(?P<value>[^\s%]+)"
    r"(?:\s*(?P<percent>%|per ?cent\b))?"
    r"(?:\s+per\s+(?P<per>.+?))?(?:\s+given\s+(?P<given>.+?))?(?:\s+proxy\s+(?P<proxy>.+?))?\s*$"
)


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound that a mean loss must keep.

    Args:
        loss: name of the loss.
        at_most: upper limit on its mean; or
        at_least: lower limit on its mean.
        drop_from: name of a reference setting (see ``find_reference``); the limit is then on the mean drop, the loss of the
            reference minus that of the setting, example by example. It is signed: gains make up for drops.
        per: name of a group; the limit must hold in every group that occurs in the table or is declared as a category of
            it (worst-class risk). A declared group without testing examples cannot be certified.
        given: name of a 0/1 column or group; only examples where it is 1 count (selective risk).
        quantile: q in (0, 1): the q-quantile, not the mean, must be at most ``at_most``. Needs no bounds.
        p_value: one of ``riskfront.statistics.P_VALUES``; "auto" is binomial for 0/1 losses and betting for all others.
        over: name of a loss, several, or several with factors: the limit is then on E[loss] / E[over], the ratio of the two
            means, such as ``Limit("cost", over="solved", at_most=0.02)``. It is tested as E[loss - limit * over], signed, so
            both need bounds, and those of ``over`` must not go below 0. To count a loss
            among examples that fulfil a condition, use ``given``, which is tested exactly.
        gap_per: name of a group: no two groups may differ in their mean by more than ``at_most``. Examples of two groups are
            compared in random pairs, so that the smaller group decides how sure one can be: with many small groups this
            certifies little. A difference between groups says nothing about how good either is.
        worst: a share in (0, 1): the mean of the worst cases, the largest losses (with ``at_least`` the smallest), must keep
            the limit, such as ``Limit("latency", worst=0.05, at_most=300)`` (conditional value at risk). Only ``worst`` of the
            examples speak of it, so it needs many of them; where a share of bad cases is enough, ``quantile`` is cheaper.
        threshold: what ``worst`` is tested with. By default it is chosen on the planning examples and written into the
            certificate. Any number is valid; the best is the value that the worst cases lie beyond.
        weights: name of a group that holds a number for each example: how much more often such an example will come than it
            came here (covariate shift, or examples that were sampled with known probabilities). The limit is then on the
            weighted mean. Weights must be known: the guarantee does not hold for estimated ones, only as far as they are right.
        largest_weight: the largest that a weight can be. The larger, the more examples it takes.
        proxy: name of a loss that is known without labels, such as the score of a cheap judge, or 1 where a setting answers
            differently from the full model: unlabelled examples then help to test this limit (``calibrate(...,
            unlabelled=)``). Whatever it is worth, the limit is on ``loss``; a poor proxy costs next to nothing, a good one
            saves labels. With ``drop_from`` the drop of the proxy stands for the drop.
        said: the word by which the limit was asked for, such as "precision"; results and messages use it instead of the name of
            the loss and its condition.
        proxy_weight: the weight of the proxy in planning; chosen on the planning examples. Testing learns its own.
        padded: test a conditional limit in the paper's padded form (loss alpha for excluded examples, all n kept)
            instead of on the selected examples alone. Valid but far weaker; for comparison.

    Examples:
        >>> str(Limit("cost", over="solved", at_most=0.02))
        'cost / solved <= 0.02'
        >>> Limit.parse("tp / (tp + fp) >= 90 %") == Limit.precision(at_least=0.9)
        True
        >>> Limit.parse("worst 5 % of latency <= 300")
        Limit('latency', at_most=300.0, worst=0.05)
        >>> Limit.parse("error gap between country <= 0.05")
        Limit('error', at_most=0.05, gap_per='country')
        >>> Limit.parse("error <= 5 % proxy judge")
        Limit('error', at_most=0.05, proxy='judge')
    """

    loss: str
    _: KW_ONLY
    at_most: float | None = None
    at_least: float | None = None
    per: str | None = None
    given: str | None = None
    quantile: float | None = None
    p_value: str = "auto"
    padded: bool = False
    drop_from: str | None = None
    over: str | Sequence[Any] | Mapping[str, float] = ()
    gap_per: str | None = None
    worst: float | None = None
    threshold: float | None = None
    weights: str | None = None
    largest_weight: float | None = None
    proxy: str | None = None
    proxy_weight: float | None = None
    said: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.loss, str) or not self.loss:
            raise InvalidInputError(f"a limit must name a loss; got {self.loss!r}.")
        if (self.at_most is None) == (self.at_least is None):
            raise InvalidInputError(
                f"a limit on '{self.loss}' must have either at_most or at_least; got "
                f"at_most={self.at_most}, at_least={self.at_least}."
            )
        number = self.at_most if self.at_most is not None else self.at_least
        if not is_number(number):
            raise InvalidInputError(f"the limit on '{self.loss}' must be a finite number; got {number!r}.")
        object.__setattr__(self, "at_most" if self.at_most is not None else "at_least", self.value)
        object.__setattr__(self, "over", targets.as_over(self.over))
        known(self.p_value, ("auto", *p_values.P_VALUES), "p-value")
        targets.check(self)
        proxies.check(self)
        if self.padded and self.per is None and self.given is None:
            raise InvalidInputError(
                f"padded=True needs a conditional limit (per or given); the limit on '{self.loss}' has none."
            )
        if self.quantile is not None:
            self._check_quantile(self.quantile)
        if self.drop_from is not None:
            self._check_drop()

    @property
    def _counts(self) -> bool:
        """Whether the limit asks for a test that counts 0/1 losses."""
        return self.p_value != "auto" and p_values.P_VALUES[self.p_value].needs == "count"

    def _check_drop(self) -> None:
        if not isinstance(self.drop_from, str) or not self.drop_from.strip():
            raise InvalidInputError(f"drop_from must name a setting, such as 'gpt-4'; got {self.drop_from!r}.")
        if self.quantile is not None or self._counts:
            raise InvalidInputError(
                f"a drop is a signed mean: it has no quantile limit and no test of counts; got quantile={self.quantile}, "
                f"p_value='{self.p_value}'. Use p_value='auto', which bets."
            )

    def _check_quantile(self, quantile: float) -> None:
        if not 0 < quantile < 1:
            raise InvalidInputError(f"quantile must lie in (0, 1); got {quantile}.")
        if self.at_most is None:
            raise InvalidInputError(f"a limit on a quantile of '{self.loss}' must use at_most.")
        if self.p_value not in ("auto", "binomial") or self.padded:
            raise InvalidInputError(
                f"a limit on a quantile is tested by counting, with p_value 'auto' or 'binomial' and padded=False; "
                f"got p_value='{self.p_value}', padded={self.padded}."
            )

    @classmethod
    def parse(cls, text: str, *, p_value: str = "auto", reference: str | None = None) -> Limit:
        """A limit from a text such as "error <= 0.05", "recall >= 0.9", "error <= 0.15 per label",
        "error <= 0.02 given answered", "accuracy >= 95 %", "q0.95(latency) <= 300", "score drop from full <= 0.02",
        or, with a ``reference``,
        "score drop <= 0.02"; "error <= 0.05 proxy judge". ``_problems/targets.py`` lists the texts of ratios, gaps, worst cases
        and weights."""
        if len(split_limits(text)) > 1:
            raise InvalidInputError(f"a limit must be one limit; got {text!r}, which is several. Give them as a list.")
        _refuse_what_is_no_bound(text)
        match = _LIMIT.match(text)
        try:
            if match is None:
                raise ValueError
            value = float(match["value"]) / (100 if match["percent"] else 1)
        except ValueError:
            raise InvalidInputError(
                f"a limit must read like 'error <= 0.05', 'recall >= 90 %', 'error <= 0.15 per label', "
                f"'error <= 0.02 given answered' or 'q0.95(latency) <= 300', with a decimal point; got {text!r}."
            ) from None
        upper = match["sign"] in ("<=", "≤", "<", "at most")
        loss, drop_from = _loss_and_reference(match["inner"] or match["loss"], reference)
        asked = targets.parsed_name(loss) if drop_from is None else {"loss": loss}
        return cls(
            **asked,
            at_most=value if upper else None,
            at_least=None if upper else value,
            per=match["per"],
            given=match["given"],
            quantile=float(match["quantile"]) if match["quantile"] else None,
            p_value=p_value,
            drop_from=drop_from,
            proxy=match["proxy"],
        )

    @classmethod
    def precision(cls, *, at_least: float, tp: str = "tp", fp: str = "fp", **options: Any) -> Limit:
        """tp / (tp + fp) of all new examples together; ``tp`` and ``fp`` name columns of counts, or of 0 and 1."""
        return cls(tp, at_least=at_least, over=(tp, fp), **options)

    @classmethod
    def recall(cls, *, at_least: float, tp: str = "tp", fn: str = "fn", **options: Any) -> Limit:
        """tp / (tp + fn) of all new examples together."""
        return cls(tp, at_least=at_least, over=(tp, fn), **options)

    @classmethod
    def f_score(
        cls, *, at_least: float, beta: float = 1.0, tp: str = "tp", fp: str = "fp", fn: str = "fn", **options: Any
    ) -> Limit:
        """The F-score of all new examples together, (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp), with b = ``beta``."""
        if not is_number(beta) or beta <= 0:
            raise InvalidInputError(f"beta must be a number above 0; got {beta!r}.")
        missed = beta**2 / (1 + beta**2)
        return cls(tp, at_least=at_least, over={tp: 1.0, fp: round(1 - missed, 12), fn: round(missed, 12)}, **options)

    @property
    def value(self) -> float:
        """The number that must not be crossed."""
        return float(self.at_most if self.at_most is not None else self.at_least)  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        """What is averaged, in words: "error", "error per label", "error given answered", "share of latency above 300"."""
        if self.said is not None:
            return self.said + (f" per {self.per}" if self.per else "") + (" (padded)" if self.padded else "")
        if self.drop_from is not None:
            return self._named(f"{self.loss} drop from {self.drop_from}")
        return self._named(
            targets.name_of(self) if self.quantile is None else f"share of {self.loss} above {self.value:.10g}"
        )

    def _named(self, name: str) -> str:
        name += f" per {self.per}" if self.per else ""
        name += f" given {self.given}" if self.given else ""
        return name + (" (padded)" if self.padded else "")

    def __str__(self) -> str:
        sign = "<=" if self.at_least is None else ">="
        name = self.name if self.quantile is None else self._named(f"{self.quantile:g}-quantile of {self.loss}")
        return f"{name} {sign} {self.value:.10g}" + (f" proxy {self.proxy}" if self.proxy is not None else "")

    def meant_percentage(self, low: float, high: float) -> str:
        """The question whether 5 was meant as 5 %, for a share; empty where it cannot have been."""
        if (low, high) != (0, 1) or not 1 < self.value <= 100:
            return ""
        return f" Did you mean {self.value:g} %, which is {self.value / 100:g}?"

    @property
    def compared_with(self) -> float:
        """The number with which the mean compares: the limit itself, or for a quantile the share that may lie above it."""
        return self.value if self.quantile is None else round(1 - self.quantile, 12)

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def term(self) -> Term:
        """What is averaged to test this limit."""
        return Term(
            self.loss,
            self.per or self.gap_per,
            self.given,
            None if self.quantile is None else self.at_most,
            self.drop_from,
            over=self.over,  # type: ignore[arg-type]  # made so above
            at=self.value if self.over or self.weights else 0.0,
            weights=self.weights,
            beyond=self.threshold,
            lower=self.worst is not None and self.at_least is not None,
            gap=self.gap_per is not None,
            proxy=None if self.proxy_weight is None else proxies.columns_of(self),
            proxy_weight=self.proxy_weight or 0.0,
        )

    @property
    def bounded(self) -> list[str]:
        """The losses whose bounds the test rests on."""
        proxy = [] if self.proxy is None else [self.proxy]
        return [] if self.quantile is not None else [*replace(self, proxy_weight=None).term.losses, *proxy]

    @property
    def holds_for_reference(self) -> bool:
        """Whether the reference keeps a limit on the drop from itself, which is 0 on every example."""
        return self.value >= 0 if self.at_least is None else self.value <= 0


def split_limits(text: str) -> list[str]:
    """The limits that a text joins by "and" or commas; the text itself where it is one limit."""
    parts = re.split(r"\s+(?:and|AND|&)\s+|\s*[,;]\s+", text)
    return parts if len(parts) > 1 and all(_LIMIT.match(part) for part in parts) else [text]


def _refuse_what_is_no_bound(text: str) -> None:
    """An error for "accuracy = 0.9", for "recall => 0.9" and for limits joined by "or"."""
    turned = re.match(r"^\s*(?P<loss>[^<>=≤≥]+?)\s*=(?P<sign>[<>])\s*(?P<value>[^<>=≤≥]+?)\s*$", text)
    if turned is not None:
        meant = f"'{turned['loss']} {turned['sign']}= {turned['value']}'"
        raise InvalidInputError(f"a bound must be written '<=' or '>='; got {text!r}. Write {meant}.")
    number_first = re.match(r"^\s*(?P<value>[\d.]+(?:\s*%)?)\s*(?P<sign><=|>=|<|>)\s*(?P<loss>[^<>=≤≥]+?)\s*$", text)
    if number_first is not None:
        sign = ">=" if number_first["sign"][0] == "<" else "<="
        meant = f"'{number_first['loss']} {sign} {number_first['value']}'"
        raise InvalidInputError(f"a limit must begin with what is limited; got {text!r}. Write {meant}.")
    equal = re.match(r"^\s*(?P<loss>[^<>=≤≥]+?)\s*==?\s*(?P<value>[^<>=≤≥]+?)\s*$", text)
    if equal is not None:
        low, high = (f"'{equal['loss']} {sign} {equal['value']}'" for sign in ("<=", ">="))
        raise InvalidInputError(f"a limit must be a bound from one side; got {text!r}. Write {low} or {high}.")
    parts = re.split(r"\s+(?:or|OR|\|)\s+", text)
    if len(parts) > 1 and all(_LIMIT.match(part) for part in parts):
        raise InvalidInputError(
            f"limits must hold all together; got {text!r}. Calibrate with each of them alone, delta / {len(parts)} each, "
            "and choose between the results."
        )


def _loss_and_reference(name: str, reference: str | None) -> tuple[str, str | None]:
    """ "score drop from full" -> ("score", "full"); "score drop" likewise when a reference is given."""
    match = re.match(r"^(?P<loss>.+?)\s+drop(?:\s+from\s+(?P<named>.+))?$", name)
    if match is None or (match["named"] is None and reference is None):
        return name, None
    return match["loss"], match["named"] or reference
