"""The report page as text: what it says, what it never does. ``test_page_in_browser.py`` opens it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from riskfront._calibration.certificates.uses_of_test_set import UseOfTestSet
from riskfront._reporting import certificate_charts, page_values, sentences
from riskfront._reporting.page import Section, python_command, report_html, write_report
from tests.support import certificates
from tests.support.certificates import certificate
from tests.support.processes import output


class Page(HTMLParser):
    """The words of a page in their order, its numbers, and its headings, without scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.numbers: list[tuple[float, str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._skipped = False
        self._value: str | None = None
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append((tag, named))
        self._skipped = tag in ("script", "style")
        self._value = named.get("data-value")

    def handle_endtag(self, tag: str) -> None:
        self._skipped = False
        self._value = None

    def handle_data(self, data: str) -> None:
        if self._skipped:
            return
        self.words.append(data)
        if self._value is not None:
            self.numbers.append((float(self._value), data))

    def count(self, tag: str) -> int:
        return sum(found == tag for found, _ in self.tags)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: certificates.page(name) for name in certificates.NAMES}


def page(pages: dict[str, str], name: str) -> Page:
    return Page(pages[name])


def in_order(text: str, *parts: str) -> bool:
    places = [text.index(part) for part in parts]
    return places == sorted(places)


# ---------------------------------------------------------------- the story


@pytest.mark.slow
def test_story_in_order(pages: dict[str, str]) -> None:
    text = page(pages, "two").text
    parts = ["The chosen setting", "The limits", "The trade-off", "The testing path", "Mixtures", "How it was made"]
    assert in_order(text, "confidence, error stays at or below", *parts, "What this rests on")
    assert in_order(page(pages, "one").text, "The testing path", "The calibrated frontier", "How it was made")
    assert "Nothing could be certified at 0.002." in page(pages, "one").text


def test_verdict_says_confidence_limits_and_objectives() -> None:
    first, covered, second = sentences.verdict(certificate("two"))
    best = certificate("two").chosen.iloc[0]
    assert first == (
        "With 90 % confidence, error stays at or below 5 % and error in every label (cat, dog and fox) stays at or below 15 %."
    )
    assert second == (
        f"The chosen setting has a mean cost of {best['cost']:.4g} and a mean latency of {best['latency']:.4g} as measured "
        "on the testing examples."
    )
    assert covered == "No other label is covered."
    assert sentences.verdict(certificate("nothing"))[0].startswith("Nothing could be certified.")
    assert len(sentences.verdict(certificate("nothing"))) == 2


@pytest.mark.slow
def test_every_shown_number_is_its_exact_value(pages: dict[str, str]) -> None:
    for name in certificates.NAMES:
        numbers = page(pages, name).numbers
        assert len(numbers) > 10
        for value, shown in numbers:
            assert shown == sentences.number(value), name


def test_limits_are_those_of_the_certificate(pages: dict[str, str]) -> None:
    for name in ("one", "per", "two", "three", "quantile", "holm", "hostile"):
        of = certificate(name)
        measured = of.measured[of.measured["chosen"] == 1]
        values = [value for value, _ in page(pages, name).numbers]
        for column in ("measured", "examples", "compared_with", "p_value", "tested_at"):
            for value in measured[column]:
                assert value in values, (name, column)
        for column in [m.name for m in certificate_charts.measures(of)] + ["p_value", "tested_at"]:
            for value in of.path[column].head(100):
                assert value in values, (name, column)


def test_quantile_is_shown_as_the_share_above_it() -> None:
    row = page_values.limits(certificate("quantile"))[1]
    assert row["what"] == "share of examples with latency above 300"
    assert row["limit"] == 0.05


def test_nothing_certified_says_why(pages: dict[str, str]) -> None:
    of = certificate("nothing")
    assert not of
    assert of.diagnosis is not None
    shown = page(pages, "nothing")
    assert "Nothing could be certified." in shown.text
    assert of.diagnosis["message"] in shown.text
    assert re.search("(Above|Below) the limit by", shown.text)
    assert "Testing examples a perfect setting would need" in shown.text
    values = [value for value, _ in shown.numbers]
    for key in ("measured", "p_value", "tested_at", "examples", "examples_if_perfect"):
        assert of.diagnosis[key] in values, key
    assert in_order(shown.text, "Why nothing was certified", "The trade-off", "The testing path", "How it was made")
    assert "The chosen setting" not in shown.text


def test_nothing_certified_says_how_many_examples_would_help() -> None:
    random = np.random.default_rng(0)
    losses = {"error": random.random((3, 200)) < 0.04, "cost": random.random((3, 200))}
    of = rf.calibrate(
        rf.LossTable([{"a": i} for i in range(3)], losses),
        rf.Problem([rf.Limit("error", at_most=0.05)], ["cost"], delta=0.01),
        method="bonferroni",
    )
    failure = page_values.failure(of)
    assert failure is not None
    assert of.diagnosis is not None
    facts = dict(failure["facts"])
    assert facts["Testing examples needed with this mean"] == of.diagnosis["examples_at_this_mean"] > 200
    assert facts["Below the limit by"] == pytest.approx(0.05 - of.diagnosis["measured"])


def test_nothing_tested_at_all() -> None:
    table = rf.LossTable([{"a": 1}, {"a": 2}], {"error": np.ones((2, 50), dtype=bool), "cost": np.ones((2, 50))})
    of = rf.calibrate(table, rf.Problem([rf.Limit("error", at_most=0.1)], ["cost"]))
    text = Page(report_html(of)).text
    assert of.diagnosis is not None
    assert of.diagnosis["message"] in text


def test_no_guarantee_is_said_first(pages: dict[str, str]) -> None:
    for name in ("unguaranteed", "uncorrected"):
        shown = page(pages, name)
        assert in_order(
            shown.text, "No guarantee", sentences.NO_GUARANTEE, "NO GUARANTEE: the method", "The chosen setting"
        )
        assert "✓" not in shown.text
        body = [tag for tag, _ in shown.tags].index("main")
        assert shown.tags[body + 1] == ("div", {"class": "alarm", "role": "alert"})
    assert "No test was made" in page(pages, "unguaranteed").text
    assert "No guarantee" not in page(pages, "one").text


def test_without_a_guarantee_no_group_is_covered(pages: dict[str, str]) -> None:
    assert "covered" not in page(pages, "unguaranteed").text
    assert "certified" not in page(pages, "unguaranteed").text.lower()
    assert (
        "A limit in every label covers cat, dog and fox. An example with any other label is not covered."
        in sentences.assumptions(certificate("per"))
    )


def test_the_confidence_speaks_of_runs() -> None:
    first = sentences.assumptions(certificate("one"))[0]
    assert "at most 10 % of the runs would certify any setting that breaks a limit" in first
    assert "All runs count, also those that certify nothing, so it is not a share of the certificates issued." in first


def test_numbers_next_to_a_limit_say_what_they_are(pages: dict[str, str]) -> None:
    assert (
        "What holds on new examples is the limit, not the measured value, for all certified settings together."
        in page(pages, "two").text
    )
    picked = page(pages, "unguaranteed").text
    assert "Measured on the testing examples the setting was picked by, so new examples may well be worse." in picked
    assert "Tested at" not in picked
    assert sentences.how_made(certificate("unguaranteed"))["p-value"] == "none: no test was made"


def test_earlier_looks_at_the_same_examples_are_said(pages: dict[str, str]) -> None:
    asked = [
        UseOfTestSet(str(index), f"error <= 0.0{index}; pareto-testing, seed {index}", 0.1) for index in range(1, 6)
    ]
    of = replace(certificate("one"), earlier_looks=tuple(asked))
    (said,) = sentences.earlier_looks(of)
    assert said == (
        "The same examples were used for 5 other questions before: (1) error <= 0.01; pareto-testing, seed 1; "
        "(2) error <= 0.02; pareto-testing, seed 2; (3) error <= 0.03; pareto-testing, seed 3; and 2 more, listed in the "
        "certificate. The confidence counts them: their deltas and that of this answer add up."
    )
    assert said in Page(report_html(of)).text
    assert sentences.how_made(of)["Confidence"] == (
        "40 % (delta = 0.1, and those of 5 earlier uses of the testing examples)"
    )
    used_up = of.after([replace(use, delta=0.3) for use in asked])
    text = Page(report_html(used_up)).text
    assert "no confidence is left" in text
    assert "✓ Certified" not in text
    assert sentences.earlier_looks(replace(of, earlier_looks=())) == []
    assert sentences.earlier_looks(replace(certificate("unguaranteed"), earlier_looks=tuple(asked))) == []


def test_how_it_was_made(pages: dict[str, str]) -> None:
    of, text = certificate("per"), page(pages, "per").text
    for part in (
        of.data_sha256,
        of.version,
        "exact binomial",
        "900 planning examples, 2,100 testing examples",
        "pareto-testing",
    ):
        assert part in text
    assert "drawn independently" in text
    given = Page(report_html(of, command="riskfront calibrate losses.parquet --limit 'error <= 0.05'"))
    assert "riskfront calibrate losses.parquet --limit 'error <= 0.05'" in given.text


@pytest.mark.parametrize("name", ["per", "three", "quantile", "nothing", "unguaranteed", "hostile"])
def test_the_command_repeats_the_certificate(name: str) -> None:
    names = {"table": certificates.table(hostile=name == "hostile")}
    exec(python_command(certificate(name)), names)
    again = names["certificate"]
    assert isinstance(again, rf.Certificate)
    assert again.to_dict() == certificate(name).to_dict()


def test_frontier_over_several_limits_is_in_the_order_given() -> None:
    alphas = [(0.04, 0.15), (0.001, 0.1), (0.06, 0.2)]
    found = page_values.frontier(
        certificate("two"), rf.frontier(certificates.table(), certificates.problem("two"), alphas)
    )
    assert not found["numeric"]
    assert list(dict.fromkeys(found["alphas"])) == ["0.04, 0.15", "0.06, 0.2"]
    assert found["empty"] == ["0.001, 0.1"]
    assert sum(found["first"]) == 2
    assert len(found["tips"]["rows"]) == len(found["alphas"]) == len(found["values"])


def test_separate_test_data_are_said(pages: dict[str, str]) -> None:
    opt, test = certificates.table().split(0.3, seed=1)
    of = rf.certify(rf.ParetoTesting().plan(opt, certificates.problem("one")), test, certificates.problem("one"))
    assert sentences.how_made(of)["Seed"] == "none: the parts were given"
    names = {"opt": opt, "test": test}
    exec(python_command(of), names)
    assert names["certificate"].to_dict() == of.to_dict()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_mixtures_are_those_of_the_certificate() -> None:
    of = certificate("three")
    found = page_values.mixtures(of)
    assert found is not None
    assert [goal["name"] for goal in found["objectives"]] == ["mean cost", "mean latency", "mean price"]
    cheapest, dearest = of.chosen["cost"].min(), of.chosen["cost"].max()
    for place, entry in enumerate(found["objectives"][0]["targets"]):
        target = float(np.linspace(cheapest, dearest, len(found["objectives"][0]["targets"]))[place])
        weights = np.zeros(len(of.chosen))
        for row, weight, _ in entry["weights"]:
            weights[row] = weight
        assert weights == pytest.approx(of.mixture({"cost": target})["weight"].to_numpy(), abs=1e-9)
    assert page_values.mixtures(certificate("one")) is None
    assert page_values.mixtures(certificate("nothing")) is None


@pytest.mark.slow
def test_a_loaded_certificate_gives_the_same_page(tmp_path: Path) -> None:
    for name in ("two", "nothing"):
        certificate(name).save(tmp_path / "certificate.json")
        assert report_html(rf.Certificate.load(tmp_path / "certificate.json")) == certificates.page(name)


# ---------------------------------------------------------------- safety


def test_nothing_the_user_named_becomes_markup(pages: dict[str, str]) -> None:
    html, shown = pages["hostile"].split('<script type="module">')[0], page(pages, "hostile")
    assert certificates.HOSTILE not in html
    assert "<img" not in html
    assert "window.broken=1</script>" not in html
    for name in (certificates.HOSTILE, certificates.ENDING, certificates.DOTTED, certificates.IMAGE):
        assert name in "".join(shown.words)
    assert shown.count("script") == page(pages, "two").count("script") == 3
    data = re.search(r'id="data">(.*?)</script>', html, re.DOTALL)
    assert data is not None
    assert not re.search("[<>&]", data[1])
    names = json.loads(data[1])["charts"]["tradeoff"]["tips"]["names"]
    assert certificates.HOSTILE in names


def test_page_is_one_small_file_that_forbids_requests(pages: dict[str, str]) -> None:
    for name, html in pages.items():
        assert len(html.encode()) < 2_000_000, name
        assert "default-src 'none'" in html
        for tag, attributes in page(pages, name).tags:
            assert "src" not in attributes, tag
            assert attributes.get("href") in (None, "data:,"), tag


@pytest.mark.slow
def test_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_report(certificate("two"), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == certificates.page("two")
    with pytest.raises(rf.StoreError, match=r"must exist"):
        write_report(certificate("one"), tmp_path / "nowhere" / "report.html")
    with pytest.raises(rf.InvalidInputError, match=r"frontier must be"):
        write_report(certificate("one"), tmp_path / "other.html", frontier=certificate("one").tested)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.slow
def test_importing_loads_no_charts() -> None:
    heavy = ("altair", "vl_convert", "matplotlib")
    code = f"import riskfront, riskfront._reporting.page, riskfront.plots, sys; print([m for m in {heavy} if m in sys.modules])"
    assert output([sys.executable, "-c", code]).strip() == "[]"


@pytest.mark.slow
def test_a_report_of_a_later_process_starts_no_compiler() -> None:
    """Putting Vega together takes seconds: the first report on a machine does it, no later one."""
    report_html(certificate("one"))
    code = (
        "import sys; from tests.support import certificates; certificates.page('two'); "
        "print([m for m in ('altair', 'vl_convert') if m in sys.modules])"
    )
    assert output([sys.executable, "-c", code]).strip() == "[]"


# ---------------------------------------------------------------- accessibility


def test_accessible(pages: dict[str, str]) -> None:
    for name in certificates.NAMES:
        tags = page(pages, name).tags
        assert [tag for tag, _ in tags].count("h1") == 1
        assert all(attributes.get("scope") for tag, attributes in tags if tag == "th")
        charts = [attributes for _, attributes in tags if attributes.get("class") == "chart"]
        assert charts
        assert all(chart["role"] == "img" and len(chart["aria-label"] or "") > 30 for chart in charts)
        assert ("html", {"lang": "en"}) in tags


# ---------------------------------------------------------------- large tables


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pareto-testing", "holm"])
def test_large_tables_are_thinned_and_say_so(method: str) -> None:
    of = certificates.large(method)
    html = certificates.large_page(method)
    assert len(html.encode()) < 4_000_000
    data = certificate_charts.tradeoff_data(of)
    assert data.thinned
    assert data.n_settings == 100_000
    assert len(data.status) <= certificate_charts.MOST_POINTS
    assert f"it shows {len(data.status):,} of 100,000 settings" in Page(html).text
    assert (data.status == certificate_charts.CHOSEN).sum() == (of.path["chosen"] > 0).sum()
    if method == "holm":
        assert f"it shows {len(certificate_charts.path_data(of).step)} of 100,000 tests" in Page(html).text


def test_many_groups_are_folded() -> None:
    random = np.random.default_rng(0)
    losses = {"error": random.random((2, 6000)) < 0.01, "cost": random.random((2, 6000))}
    table = rf.LossTable([{"a": 0}, {"a": 1}], losses, groups={"label": random.integers(0, 20, 6000)})
    of = rf.calibrate(table, rf.Problem([rf.Limit("error", at_most=0.1, per="label")], ["cost"]))
    assert of
    shown, more = page_values.shortened(page_values.limits(of))
    assert (len(shown), len(more)) == (12, 8)
    assert min(row["p_value"] for row in shown) >= max(row["p_value"] for row in more)
    assert Page(report_html(of)).text.count("(label = ") == 20


def test_sections_that_are_not_the_certificates_own_come_after_the_limits() -> None:
    more = Section(
        "What else", "Measured, <not> certified.", ["", "ms"], [["full & slow", 21.76], ["small", "?"]], ["A note."]
    )
    html = report_html(certificate("one"), sections=[more])
    page = Page(html)
    assert "What else Measured, <not> certified. ms full & slow 21.76 small ? A note." in page.text
    assert (21.76, "21.76") in page.numbers
    assert page.text.index("The limits") < page.text.index("What else") < page.text.index("The trade-off")
    assert "What else" not in Page(report_html(certificate("one"))).text
