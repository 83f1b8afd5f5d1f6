"""A description changes with everything that decides what code does, and with nothing else."""

import functools
import importlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from riskfront._support.object_digest import Description, UnreadableError
from tests.support.processes import output

Describe = Callable[..., str]


@pytest.fixture
def describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Describe:
    """``describe(source, **modules)``: of ``losses`` in a file next to modules of the user's, loaded anew from a new folder."""
    count = 0

    def made(source: str, **modules: str) -> str:
        nonlocal count
        count += 1
        folder = tmp_path / str(count)
        folder.mkdir()
        files = {"mytask": source, **modules}
        for name, text in files.items():
            path = folder / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        for name in [name for name in sys.modules if name.partition(".")[0] in {f.partition("/")[0] for f in files}]:
            del sys.modules[name]
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(folder))
            return Description(importlib.import_module("mytask").losses).digest

    return made


CODE = """
import functools

LIMIT = 1

def helper(x):
    return x + LIMIT

class Base:
    scale = 3

    def go(self, x):
        return x * 4

class Model(Base):
    def __call__(self, config, x):
        return helper(x)

    @property
    def size(self):
        return 5

def decorator(function):
    @functools.wraps(function)
    def inner(config, x):
        return function(config, x) + 6
    return inner

@decorator
def wrapped(config, x):
    return x

def cached(config, x):
    return remembered(x)

@functools.lru_cache
def remembered(x):
    return x + 7

def default(config, x, power=8):
    return x**power

def outer(weight):
    def inner(config, x):
        return x * weight
    return inner

def unrelated():
    return 10
"""


@pytest.mark.parametrize(
    ("losses", "old", "new"),
    [
        ("helper", "x + LIMIT", "x - LIMIT"),
        ("helper", "LIMIT = 1", "LIMIT = 2"),
        ("Model()", "x + LIMIT", "x - LIMIT"),
        ("Model()", "x * 4", "x * 5"),
        ("Model()", "scale = 3", "scale = 4"),
        ("Model()", "return 5", "return 6"),
        ("Model().go", "x * 4", "x * 5"),
        ("Model().go", "scale = 3", "scale = 4"),
        ("wrapped", "+ 6", "+ 7"),
        ("wrapped", "return x\n", "return -x\n"),
        ("cached", "x + 7", "x + 8"),
        ("default", "power=8", "power=9"),
        ("outer(2)", "x * weight", "x / weight"),
        ("functools.partial(default, power=3)", "x**power", "x*power"),
        ("{'a': [helper]}['a'][0]", "LIMIT = 1", "LIMIT = 2"),
        ("lambda config, x: [helper, default]", "x**power", "x*power"),
    ],
)
def test_code_counts_wherever_it_is_reached(describe: Describe, losses: str, old: str, new: str) -> None:
    source = f"{CODE}\nlosses = {losses}\n"
    first = describe(source)
    assert old in source
    assert describe(source.replace(old, new)) != first
    assert describe(f"# a comment\n\n{source}".replace("return 10", "return 11")) == first, (
        "nothing that it uses changed"
    )


def test_two_lambdas_on_a_line_differ(describe: Describe) -> None:
    pair = "f, g = (lambda c, x: x > 1), (lambda c, x: x < 1)\n"
    assert describe(f"{pair}losses = f") != describe(f"{pair}losses = g")


def test_a_model_of_an_installed_package_counts_with_functions_of_the_users_in_it(describe: Describe) -> None:
    source = (
        "from sklearn.preprocessing import FunctionTransformer\n"
        "def double(x):\n    return 2 * x\n"
        "model = FunctionTransformer(double)\n"
        "def losses(config, x):\n    return model.transform(x)\n"
    )
    assert describe(source) != describe(source.replace("2 * x", "3 * x"))


MODULE = "VALUE = 1\n\ndef predict(x):\n    return x + 1\n"


@pytest.mark.parametrize(
    "losses",
    [
        "import mymodel\ndef losses(c, x):\n    return mymodel.predict(x)\n",
        "import mymodel as m\ndef losses(c, x):\n    return getattr(m, c['name'])(x)\n",
        "from mymodel import predict\ndef losses(c, x):\n    return predict(x)\n",
        "def losses(c, x):\n    from mymodel import predict\n    return predict(x)\n",
        "def losses(c, x):\n    import mymodel\n    return mymodel.predict(x)\n",
        "import myother\ndef losses(c, x):\n    return myother.answer(x)\n",
        "import mypackage.inner\ndef losses(c, x):\n    return mypackage.inner.answer(x)\n",
        "def losses(c, x):\n    from mypackage import inner\n    return inner.answer(x)\n",
    ],
)
def test_modules_of_the_users_count(describe: Describe, losses: str) -> None:
    via = "def answer(x):\n    import mymodel\n    return mymodel.predict(x)\n"
    others = {"myother": via, "mypackage/__init__": "", "mypackage/inner": "from . import deep\n" + via}
    others |= {"mypackage/deep": "import mymodel\n"}
    first = describe(losses, mymodel=MODULE, **others)
    assert describe(losses, mymodel="# a comment\n" + MODULE, **others) == first
    assert describe(losses, mymodel=MODULE.replace("x + 1", "x - 1"), **others) != first


def test_values_in_a_module_count_when_they_are_used(describe: Describe) -> None:
    losses = "import mymodel\ndef losses(c, x):\n    return x > mymodel.VALUE\n"
    module = "import os\nVALUE = os.environ.get('RISKFRONT_VALUE')\n"
    os.environ["RISKFRONT_VALUE"] = "1"
    first = describe(losses, mymodel=module)
    os.environ["RISKFRONT_VALUE"] = "2"
    changed = describe(losses, mymodel=module)
    del os.environ["RISKFRONT_VALUE"]
    assert first != changed


def test_modules_that_import_each_other_are_described(describe: Describe) -> None:
    losses = "import mymodel\ndef losses(c, x):\n    return mymodel.myother.mymodel.f(x)\n"
    modules = {"mymodel": "import myother\ndef f(x):\n    return g(x)\ndef g(x):\n    return f(x)\n"}
    assert describe(losses, myother="import mymodel\n", **modules) == describe(
        losses, myother="import mymodel\n", **modules
    )


def test_a_module_imported_in_a_function_is_read_and_not_run(describe: Describe) -> None:
    describe("def losses(c, x):\n    import mymodel\n", mymodel="raise RuntimeError('ran')\n")
    assert "mymodel" not in sys.modules


def test_code_without_a_file_or_a_module_counts() -> None:
    def made(text: str) -> str:
        variables: dict[str, object] = {}
        exec(f"def losses(c, x):\n    return {text}", variables)
        return Description(variables["losses"]).digest

    assert made("x in {'a', 'b'}") == made("x in {'b', 'a'}")
    assert made("x in {'a', 'b'}") != made("x in {'a', 'c'}")


def test_versions_of_packages_are_kept_apart_from_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def losses(config: dict, x: np.ndarray) -> object:
        return np.exp(x), pd.DataFrame

    now = Description(losses)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "99.0")
    later = Description(losses)
    assert (later.digest == now.digest, later.packages == now.packages) == (True, False)


def test_order_counts_in_dictionaries_and_not_in_sets_or_attributes() -> None:
    class Model:
        def __init__(self, **held: object) -> None:
            vars(self).update(held)

    def digest(value: object) -> str:
        return Description(value).digest

    assert digest({"a": 1, "b": 2}) != digest({"b": 2, "a": 1})
    assert digest({(1, "a"), None, 2.0}) == digest({2.0, None, (1, "a")})
    assert digest(Model(a=1, b=2)) == digest(Model(b=2, a=1)) != digest(Model(b=1, a=2))
    shared = [1]
    assert digest([shared, shared]) == digest([[1], [1]])
    endless: list[object] = [1]
    endless.append(endless)
    assert digest(endless) != digest([1, [1]])


def test_data_frames_count_with_types_categories_and_labels() -> None:
    def digest(frame: pd.DataFrame | pd.Series) -> str:
        return Description(frame).digest

    frame = pd.DataFrame({"a": [1, 2], "b": [["x"], {"y": 1}], "c": pd.Categorical(["u", "v"])})
    assert digest(frame) == digest(frame.copy())
    others = [
        frame.assign(a=[1.0, 2.0]),
        frame.assign(b=[["x"], {"y": 2}]),
        frame.assign(c=pd.Categorical(["u", "v"], categories=["u", "v", "w"])),
        frame.set_index(pd.Index([3, 4])),
        frame[["b", "a", "c"]],
    ]
    assert len({digest(other) for other in [frame, *others]}) == 6
    labels = pd.Series(["x", "y"], index=["fingerprint", "other"])
    assert digest(labels) != digest(labels.replace("y", "z")), "a label is no name that it gives itself"


def test_arrays_count_with_type_shape_mask_and_objects() -> None:
    arrays = [
        np.arange(6),
        np.arange(6.0),
        np.arange(6).reshape(2, 3),
        np.ma.array(np.arange(6), mask=[0, 0, 0, 0, 0, 1]),
        np.array([0, [1], None], dtype=object),
        np.array([0, [2], None], dtype=object),
    ]
    assert len({Description(array).digest for array in arrays}) == 6
    assert Description(np.arange(6).reshape(2, 3).T.copy()).digest == Description(np.arange(6).reshape(2, 3).T).digest


def test_what_cannot_be_read_is_refused_and_a_lock_is_none_of_that() -> None:
    import ctypes
    import threading

    class Model:
        def __init__(self, held: object) -> None:
            self.held = held

    assert Description(Model(threading.Lock())).digest == Description(Model(threading.Lock())).digest
    with pytest.raises(UnreadableError, match="ctypes"):
        Description(Model(ctypes.pointer(ctypes.c_int(3))))
    with pytest.raises(UnreadableError, match="generator"):
        Description(Model(i for i in range(3)))


STABLE = """
import collections, enum, functools, re
import numpy as np
from dataclasses import dataclass, field
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer
from riskfront._support.object_digest import Description

class Kind(enum.Enum):
    ONE = 1
    TWO = "two"

@dataclass
class Config:
    words: set = field(default_factory=lambda: {"a", "b", "c", "d"})

Point = collections.namedtuple("Point", "x y")
WORDS = frozenset({"the", "a", "of", "and", "to"})

@functools.lru_cache
def known(word):
    return word in {"the", "a", "of"} or word in WORDS

X, y = np.random.default_rng(0).random((60, 3)), np.arange(60) % 2
space = {}
exec("def made(c, x):\\n    return [w in {'the', 'a', 'of'} for w in x]", space)
VALUES = [
    WORDS, {("a", 1), ("b", 2)}, {Kind.ONE, Kind.TWO}, {known, Point, Config}, Config(), Point(1, Kind.TWO), re.compile("a|b"),
    RandomForestClassifier(3, random_state=0).fit(X, y), KNeighborsClassifier().fit(X, y),
    HistGradientBoostingClassifier(max_iter=3, random_state=0).fit(X, y), FunctionTransformer(np.log1p),
    TfidfVectorizer(stop_words="english").fit(["some words", "more"]), TfidfVectorizer(stop_words=["a"]).fit(["some words"]),
    functools.partial(known, "a"), np.random.default_rng(0), np.vectorize(known), space["made"],
    lambda c, x: [w in {"the", "a", "of", "and"}
                  for w in x],
]
"""

STABLE_TORCH = """
import torch
from transformers import BertConfig, BertForSequenceClassification
from riskfront._support.object_digest import Description

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.register_buffer("halves", torch.ones(3, dtype=torch.bfloat16))

    def forward(self, x):
        return self.layer(x)

torch.manual_seed(0)
net = Net()
small = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)

@torch.no_grad()
def losses(config, x):
    return net(x)

VALUES = [
    torch.arange(10.0), [torch.arange(3), torch.ones(2, 2)], net, losses, net.forward, torch.eye(3).to_sparse(),
    BertForSequenceClassification(small), torch.float16, torch.device("cpu"),
]
"""


def _digests(source: str, folder: Path, seed: int) -> list[str]:
    (folder / "stable.py").write_text(
        f"{source}\nif __name__ == '__main__':\n    print(*(Description(v).digest for v in VALUES))\n"
    )
    return output([sys.executable, folder / "stable.py"], env={"PYTHONHASHSEED": str(seed)}).split()


@pytest.mark.slow
def test_descriptions_are_the_same_in_every_process(tmp_path: Path) -> None:
    first = _digests(STABLE, tmp_path, seed=1)
    assert first == _digests(STABLE, tmp_path, seed=2)
    assert len(set(first)) == len(first)


def test_descriptions_of_torch_models_are_the_same_in_every_process(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    first = _digests(STABLE_TORCH, tmp_path, seed=1)
    assert first == _digests(STABLE_TORCH, tmp_path, seed=2)
    assert len(set(first)) == len(first)


def test_torch_models_count_with_weights_layers_and_code_of_the_users() -> None:
    torch = pytest.importorskip("torch")

    def made(order: str = "ab", add: float = 0.0, kind: object = torch.float32) -> str:
        torch.manual_seed(0)
        parts = {"a": torch.nn.Linear(2, 2).to(kind), "b": torch.nn.ReLU()}
        model = torch.nn.Sequential()
        for name in order:
            model.add_module(name, parts[name])
        with torch.no_grad():
            parts["a"].weight += add
        return Description(model).digest

    assert made() == made()
    assert len({made(), made(order="ba"), made(add=1.0), made(kind=torch.bfloat16)}) == 4

    def decorated(function: object) -> str:
        return Description(torch.no_grad()(function)).digest

    assert decorated(lambda c, x: x + 1) != decorated(lambda c, x: x + 2)


def test_what_wraps_a_function_counts_with_its_arguments() -> None:
    def base(config: object, x: object, w: float) -> float:
        return w

    def dressed(w: float) -> functools.partial[float]:
        return functools.update_wrapper(functools.partial(base, w=w), base)  # type: ignore[return-value]

    assert Description(dressed(1.0)).digest == Description(dressed(1.0)).digest
    assert Description(dressed(1.0)).digest != Description(dressed(2.0)).digest


@pytest.mark.parametrize("kind", [io.BytesIO, io.StringIO])
def test_files_in_memory_count_by_content(kind: Any) -> None:
    one, other = (b"one", b"two") if kind is io.BytesIO else ("one", "two")
    assert Description([kind(one)]).digest == Description([kind(one)]).digest
    assert Description([kind(one)]).digest != Description([kind(other)]).digest
