"""The identity of a task: fingerprints of its code, its examples and its groups, the same in every run.

An object with a text attribute ``fingerprint`` names itself: a data set too large to hash, or a model behind a service.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import json
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import joblib
import numpy as np
import pandas as pd

from riskfront.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Task:
    """What a store belongs to.

    Args:
        n_examples: how many examples each setting is evaluated on.
        identity: part of the task, such as "code" or "examples" -> its fingerprint. A store never mixes two.
        groups: name -> (n_examples,).
        bounds: name of a loss -> (low, high).
    """

    n_examples: int
    identity: Mapping[str, str]
    groups: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        losses: Callable[..., Any],
        examples: Any,
        groups: Mapping[str, Any] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        **more: Any,
    ) -> Task:
        """The task of a function on examples; ``more`` are further parts of its identity, as JSON values."""
        identity = {"code": fingerprint_code(losses), "examples": fingerprint_data(examples)}
        identity["groups"] = fingerprint_data({name: np.asarray(values) for name, values in (groups or {}).items()})
        identity |= {name: _digest(json.dumps(value, sort_keys=True)) for name, value in more.items()}
        return cls(len(examples), identity, dict(groups or {}), dict(bounds or {}))


def fingerprint_data(value: Any) -> str:
    """The digest of examples or of anything that a function refers to."""
    named = _own_name(value)
    if named is not None:
        return named
    if isinstance(value, np.ndarray) and value.dtype != object:
        return _digest(f"array {value.dtype.str} {value.shape}", np.ascontiguousarray(value).reshape(-1).view(np.uint8))
    if isinstance(value, pd.DataFrame | pd.Series):
        header = f"{type(value).__name__} {list(getattr(value, 'columns', [value.name if value.ndim == 1 else None]))}"
        return _digest(header, pd.util.hash_pandas_object(value).to_numpy().data)
    if isinstance(value, Mapping):
        parts = sorted((repr(key), fingerprint_data(part)) for key, part in value.items())
        return _digest(f"mapping {parts}")
    try:
        return _digest(f"object {joblib.hash(value, hash_name='sha1')}")
    except Exception as error:
        raise InvalidInputError(
            f"examples must be data whose content can be hashed, so that a store is never continued on others; "
            f"{type(value).__name__} is not ({error}). Give it a text attribute 'fingerprint' that names its content."
        ) from None


def fingerprint_code(function: Callable[..., Any]) -> str:
    """The digest of a function: its source and everything of the user's that it refers to."""
    return _digest(repr(_described(function, {})))


def _described(value: Any, seen: dict[int, Any]) -> Any:
    named = _own_name(value)
    if named is not None:
        return named
    if isinstance(value, str | bytes | int | float | bool | complex | type(None)):
        return repr(value)
    if isinstance(value, ModuleType | BuiltinFunctionType):
        return value.__name__
    if id(value) in seen:
        return "seen above"
    seen[id(value)] = value  # kept alive: its id must not go to another object meanwhile
    if isinstance(value, functools.partial):
        return ["partial", *(_described(part, seen) for part in (value.func, value.args, dict(value.keywords)))]
    if isinstance(value, MethodType):
        return ["method", value.__func__.__name__, _described(value.__self__, seen)]
    if isinstance(value, FunctionType):
        return _described_function(value, seen)
    if isinstance(value, type):
        return (
            ["class", value.__qualname__, _source(value)]
            if _is_users(value)
            else f"{value.__module__}.{value.__name__}"
        )
    if isinstance(value, list | tuple):
        return [_described(part, seen) for part in value]
    if isinstance(value, dict):
        return [[_described(key, seen), _described(part, seen)] for key, part in value.items()]
    try:
        return [_described(type(value), seen), fingerprint_data(value)]
    except InvalidInputError:  # of a lock or a connection its kind must do, of other objects what they hold
        return [_described(type(value), seen), _described(getattr(value, "__dict__", None), seen)]


def _described_function(function: FunctionType, seen: dict[int, Any]) -> Any:
    if not _is_users(function):
        return f"{function.__module__}.{function.__qualname__}"
    refers = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
    refers |= inspect.getclosurevars(function).nonlocals
    defaults = [function.__defaults__, function.__kwdefaults__]
    return [
        "function",
        _source(function) or _bytecode(function.__code__),
        [_described(part, seen) for part in defaults],
        [[name, _described(refers[name], seen)] for name in sorted(refers)],
    ]


def _names(code: CodeType) -> set[str]:
    """Every global name that a function or one defined in it may use."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inner)


def _is_users(value: Any) -> bool:
    """Whether code is the user's own and not that of an installed package, which changes with its version only."""
    try:
        file = inspect.getfile(value)
    except TypeError:
        return value.__module__ == "__main__"
    installed = "site-packages" in file or "dist-packages" in file
    return not installed and value.__module__.partition(".")[0] not in sys.stdlib_module_names - {"__main__"}


def _source(value: Any) -> str | None:
    """The source without comments and layout; None when there is none, or only a piece that cannot be read alone."""
    try:
        return ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(value))))
    except (OSError, TypeError, SyntaxError):
        return None


def _bytecode(code: CodeType) -> Any:
    constants = [_bytecode(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return [code.co_code.hex(), constants, code.co_names, code.co_varnames]


def _own_name(value: Any) -> str | None:
    named = None if isinstance(value, type | ModuleType) else getattr(value, "fingerprint", None)
    return _digest(f"named {named}") if isinstance(named, str) else None


def _digest(text: str, data: Any = b"") -> str:
    digest = hashlib.sha256(text.encode())
    digest.update(data)
    return digest.hexdigest()
