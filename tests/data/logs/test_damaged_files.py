"""Whatever stands in a field where something else belongs: the log is read, or one sentence says what is wrong."""

import copy
import json
import warnings

import pytest

import riskfront as rf
from tests.data.logs.made import MAKERS

WRONG = (None, [1, 2], "text")
JSON_TOOLS = ("lm-eval", "inspect", "promptfoo", "every-eval-ever", "helm", "openai-evals")


def places(value, place=()):
    """Every field, of lists the first element only."""
    yield place
    if isinstance(value, dict):
        for name, part in value.items():
            yield from places(part, (*place, name))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*place, 0))


def spoilt(value, place, wrong):
    if not place:
        return wrong
    value = copy.deepcopy(value)
    part = value
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = wrong
    return value


def versions(path):
    """The text of a file with one field wrong, and cut off."""
    text = path.read_text()
    for end in range(0, len(text), max(1, len(text) // 10)):
        yield text[:end]
    if path.suffix == ".json":
        found = json.loads(text)
        yield from (json.dumps(spoilt(found, place, wrong)) for place in places(found) for wrong in WRONG)
        return
    lines = text.splitlines()
    for number in (0, len(lines) - 2):
        found = json.loads(lines[number])
        for place in places(found):
            for wrong in WRONG:
                changed = json.dumps(spoilt(found, place, wrong))
                yield "\n".join([*lines[:number], changed, *lines[number + 1 :]])


@pytest.mark.slow
@pytest.mark.parametrize("tool", JSON_TOOLS)
def test_no_other_error_than_a_sentence(tool, tmp_path):
    folder = MAKERS[tool](tmp_path / "logs")
    files = [path for path in folder.rglob("*.json*") if "large" not in str(path.relative_to(tmp_path))]
    said = []
    read = 0
    for path in files:
        whole = path.read_text()
        for text in versions(path):
            path.write_text(text)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    rf.read_runs(folder, tool)
                    read += 1
                except rf.RiskfrontError as error:
                    said.append(str(error))
        path.write_text(whole)
    assert read > 0
    assert len(said) > 0
    assert not any("\n" in sentence for sentence in said)
