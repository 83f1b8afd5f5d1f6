"""A digest of any Python object: its values, and all code of the user's that it leads to; the same in every process.

Objects are taken apart as pickle would, with these differences. Code of the user's is described by what Python runs (so
comments and layout do not count), and by every variable, function, class and module of the user's that it names. Modules
count with all of their code and that of the modules of the user's they import, even inside of functions. Functions and
classes of installed packages count by name; their packages are listed, with versions. Sets have no order, attributes
neither; dictionaries keep theirs. Equal objects are one, whether they are shared or copies.

Not covered is what no name in the code leads to: files and services read while the code runs, environment variables, names
made up while it runs (``globals()[name]``), packages that only other packages use, and the device of a tensor.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import inspect
import io
import sys
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np
import pandas as pd

from riskfront._support.user_code import (
    code_of,
    imported_by,
    is_known_by_name,
    is_users,
    named_by,
    spec_of,
    version_of,
)
from riskfront.errors import InvalidInputError

_PLAIN = {str, bytes, int, float, bool, complex, type(None), type(...), type(NotImplemented)}

# objects of these modules hold a connection or a lock and compute nothing: their kind is all there is to say
_CONNECTIONS = {"_abc", "_asyncio", "_contextvars", "_io", "_queue", "_socket", "_ssl", "_thread", "_weakref"}
_CONNECTIONS |= {"asyncio", "contextvars", "logging", "socket", "sqlite3", "ssl", "threading", "weakref"}


_WITH_CACHE = type(functools.lru_cache(lambda: None))


class UnreadableError(Exception):
    """An object whose content cannot be read; the text says which kind, and why."""


class Description:
    """What one object is: ``digest`` of all that was found, ``packages`` of the versions of what it uses."""

    def __init__(self, value: Any) -> None:
        self._packages: set[str] = set()
        self._modules: set[str] = set()
        self._known: dict[int, tuple[Any, str]] = {}  # with the object, so that its id stays its own
        self._open: dict[int, int] = {}  # objects that are being described -> depth
        self.digest = joined("all", [self.of(value), *self._code_of_modules()])
        self.packages = joined("packages", (f"{name} {version_of(name)}" for name in sorted(self._packages)))

    def of(self, value: Any) -> str:
        if type(value) in _PLAIN:
            return f"{type(value).__name__} {value!r}"
        if id(value) in self._open:
            return f"{len(self._open) - self._open[id(value)]} above"
        if id(value) not in self._known:
            self._open[id(value)] = len(self._open)
            self._known[id(value)] = (value, self._described(value))
            del self._open[id(value)]
        return self._known[id(value)][1]

    def _all(self, values: Iterable[Any]) -> Iterable[str]:
        return (self.of(value) for value in values)

    def _described(self, value: Any) -> str:
        if type(value) in (list, tuple):
            return joined(type(value).__name__, self._all(value))
        if type(value) in (dict, MappingProxyType):
            return joined("dict", self._pairs(value.items()))
        named = _own_name(value)
        if named is not None:
            return joined("named", [named])
        return self._described_data(value) or self._described_code(value) or self._described_object(value)

    def _pairs(self, items: Iterable[tuple[Any, Any]]) -> Iterable[str]:
        return (self.of(part) for pair in items for part in pair)

    def _alone(self, value: Any) -> str:
        """As if nothing else had been seen: parts of a set come in another order in each process."""
        known, self._known = self._known, {}
        alone = self.of(value)
        self._known = known
        return alone

    # ---------------------------------------------------------------- data

    def _described_data(self, value: Any) -> str | None:
        if isinstance(value, set | frozenset):
            return joined("set", [self.of(type(value)), *sorted(self._alone(part) for part in value)])
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, pd.DataFrame):
            columns = (value.iloc[:, at] for at in range(value.shape[1]))
            return joined(
                "frame", [self.of(value.columns), self.of(value.index), *(self._values(column) for column in columns)]
            )
        if isinstance(value, pd.Series):
            return joined("series", [self.of(value.name), self.of(value.index), self._values(value)])
        if isinstance(value, pd.Index):
            return joined("index", [self.of(list(value.names)), self._values(value)])
        tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        return self._tensor(value) if tensor is not None and isinstance(value, tensor) else None

    def _array(self, array: np.ndarray[Any, Any]) -> str:
        header = [array.dtype.str if array.dtype.names is None else str(array.dtype.descr), str(array.shape)]
        if isinstance(array, np.ma.MaskedArray):
            header += [self.of(np.ma.getmaskarray(array)), self.of(array.filled())]
            return joined("masked", header)
        if array.dtype.hasobject:
            return joined("objects", [*header, *(self.of(part) for part in array.ravel().tolist())])
        return joined("array", header, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _values(self, column: pd.Series | pd.Index[Any]) -> str:
        kind = column.dtype
        if isinstance(kind, pd.CategoricalDtype):
            codes = column.cat.codes if isinstance(column, pd.Series) else column.codes  # type: ignore[attr-defined]
            held = [self.of(kind.categories), self.of(np.asarray(codes)), str(kind.ordered)]
            return joined("categories", held)
        values = column.to_numpy() if isinstance(kind, np.dtype) else column.to_numpy(dtype=object)
        return joined("column", [str(kind), self.of(values)])

    def _tensor(self, tensor: Any) -> str:
        held = [str(tensor.dtype), str(tuple(tensor.shape)), self._attributes(getattr(tensor, "__dict__", {}))]
        if tensor.is_meta:  # it has a shape and no content
            return joined("tensor", held)
        values = tensor.detach()
        values = (values if "strided" in str(values.layout) else values.to_dense()).cpu().contiguous().reshape(-1)
        return joined("tensor", held, values.view(sys.modules["torch"].uint8).numpy().data)

    # ---------------------------------------------------------------- code

    def _described_code(self, value: Any) -> str | None:
        if isinstance(value, ModuleType):
            return self._module(value, frozenset())
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, CodeType):
            return self._bytecode(value)
        if isinstance(value, MethodType):
            return joined("method", self._all([value.__func__, value.__self__]))
        if isinstance(value, BuiltinFunctionType):
            holder = value.__self__
            if holder is None or isinstance(holder, ModuleType):
                return self._installed(value.__module__ or "builtins", value.__qualname__)
            return joined("method", [value.__name__, self.of(holder)])
        if isinstance(value, CellType):
            return joined("cell", [self.of(_content(value))])
        if isinstance(value, staticmethod | classmethod):
            return joined(type(value).__name__, [self.of(value.__func__)])
        if isinstance(value, property):
            return joined("property", self._all([value.fget, value.fset, value.fdel]))
        if callable(value) and is_known_by_name(value):  # a compiled function
            return self._installed(value.__module__, value.__qualname__)
        return None

    def _installed(self, module: str, name: str) -> str:
        """Code that only changes with the version of its package, or with the file that it was compiled to."""
        self._note(module)
        return f"{module}.{name}"

    def _note(self, module: str) -> None:
        package = module.partition(".")[0]
        if spec_of(module) is not None:
            self._modules.add(module)
        elif spec_of(package) is None:
            self._packages.add(package)

    def _function(self, function: FunctionType) -> str:
        if is_users(function):
            return self._users_function(function)
        # a decorator may have given it the name of what it wraps: its variables say where it is from
        name = self._installed(function.__globals__.get("__name__", ""), function.__code__.co_name)
        return name if is_known_by_name(function) else joined(name, self._all(function.__closure__ or ()))

    def _users_function(self, function: FunctionType) -> str:
        variables = function.__globals__
        package = variables.get("__package__") or str(variables.get("__name__", "")).rpartition(".")[0]
        named, attributes = named_by(function.__code__)
        self._packages.add("sys")  # what Python runs is of Python's version
        for module in imported_by(function.__code__, package):
            self._note(module)
        held = [function.__code__, function.__defaults__, function.__kwdefaults__]
        refers = {name: variables[name] for name in named & variables.keys()}
        refers |= dict(zip(function.__code__.co_freevars, map(_content, function.__closure__ or ()), strict=True))
        followed = (
            self._module(part, attributes) if isinstance(part, ModuleType) else self.of(part)
            for part in (refers[name] for name in sorted(refers))
        )
        parts = [*self._all(held), *sorted(refers), *followed, self._attributes(vars(function))]
        return joined("function", parts)

    def _bytecode(self, code: CodeType) -> str:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        runs = (code.co_code, getattr(code, "co_exceptiontable", b""))
        return joined("code", self._all([*counts, *names, *runs, *code.co_consts]))

    def _class(self, value: type) -> str:
        if not is_users(value):
            return self._installed(value.__module__, value.__qualname__)
        own = {name: part for name, part in vars(value).items() if _is_written(name, part)}
        return joined("class", [*self._all([type(value), *value.__bases__]), self._attributes(own)])

    def _module(self, module: ModuleType, attributes: frozenset[str]) -> str:
        """A module and, where it is the user's, what it holds under these names: code may be the same and a value not."""
        self._note(module.__name__)
        if id(module) in self._open or not is_users(module):
            return module.__name__
        self._open[id(module)] = len(self._open)
        held = [(name, vars(module)[name]) for name in sorted(attributes & vars(module).keys())]
        parts = [self._module(v, attributes) if isinstance(v, ModuleType) else self.of(v) for _, v in held]
        del self._open[id(module)]
        return joined("module", [*(name for name, _ in held), *parts])

    def _code_of_modules(self) -> list[str]:
        """The code of all modules of the user's that were named, and of those that they import."""
        found: dict[str, str] = {}
        while waiting := sorted(self._modules - found.keys()):
            for name in waiting:
                spec = spec_of(name)
                code = None if spec is None else code_of(spec)
                found[name] = self.of(code)
                if isinstance(code, CodeType) and spec is not None:
                    self._packages.add("sys")
                    self._modules |= {module for module in imported_by(code, spec.parent or "") if spec_of(module)}
        return [part for name in sorted(found) for part in (name, found[name])]

    # ---------------------------------------------------------------- other objects

    def _described_object(self, value: Any) -> str:
        kind = type(value)
        if isinstance(value, io.BytesIO | io.StringIO):
            return joined("file in memory", self._all([kind, value.getvalue(), value.tell()]))
        if kind.__module__.partition(".")[0] in _CONNECTIONS and not is_users(kind):
            return f"{kind.__module__}.{kind.__qualname__}"
        held = getattr(value, "__dict__", {})
        if kind is _WITH_CACHE:
            return joined("wrapped", self._all([kind, held["__wrapped__"]]))
        try:  # how pickle would make the object anew: a name, or a function, its arguments, a state, items and pairs
            reduce: Any = copyreg.dispatch_table.get(kind)
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception as error:
            if not held:
                raise UnreadableError(f"{kind.__module__}.{kind.__qualname__} is not ({error})") from None
            return joined("object", [self.of(kind), self._attributes(held)])
        if isinstance(reduced, str):
            return joined("name", [self.of(kind), reduced])
        make, arguments, state, items, pairs = [*reduced, None, None, None][:5]
        attributes = self._attributes(state) if isinstance(state, Mapping) else self.of(state)
        parts = [*self._all([kind, make, arguments, list(items or ())]), attributes, *self._pairs(pairs or ())]
        return joined("object", parts)

    def _attributes(self, held: Mapping[Any, Any]) -> str:
        """In the order of names: that of assignments says nothing. Nor does the address of another attribute (scikit-learn)."""
        addresses = {id(part) for part in held.values()}
        parts = {str(name): "address" if type(v) is int and v in addresses else self.of(v) for name, v in held.items()}
        return joined("attributes", (text for name in sorted(parts) for text in (name, parts[name])))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned to it yet
        return None


def _is_written(name: str, part: Any) -> bool:
    """Whether a member of a class was written by the user, or is made of what was, and not a record of Python's."""
    special = name.startswith("__") and name.endswith("__")
    return not special or (callable(part) and "annotate" not in name) or isinstance(part, property | classmethod)


def _own_name(value: Any) -> str | None:
    """The text attribute 'fingerprint' with which an object names itself."""
    if isinstance(value, type | ModuleType):
        return None
    try:
        named = getattr(value, "fingerprint", None)
    except Exception:  # an attribute that is computed, and cannot be
        return None
    # a series may have it as a label, which is no attribute
    return named if isinstance(named, str) and inspect.getattr_static(value, "fingerprint", None) is not None else None


def joined(kind: str, parts: Iterable[str], data: Any = b"") -> str:
    """One digest for a kind, a list of texts, and bytes."""
    digest = hashlib.sha256(kind.encode())
    for part in parts:
        text = part.encode(errors="surrogatepass")
        digest.update(b"%d:" % len(text))
        digest.update(text)
    digest.update(b";")
    digest.update(data)
    return digest.hexdigest()


def fingerprint_data(value: Any) -> str:
    """The digest of examples."""
    must = "examples must be data whose content can be hashed, so that a store is never continued on others"
    return _described(value, must, "Give it").digest


def fingerprint_code(function: Callable[..., Any]) -> str:
    """The digest of a function and of everything of the user's that it leads to."""
    return described_code(function).digest


def described_code(function: Callable[..., Any]) -> Description:
    """The same with the packages that the code names."""
    must = "what the losses function refers to must have content that can be hashed, so that a store is never continued with"
    return _described(function, f"{must} other code", "Give it, or the function,")


def _described(value: Any, must: str, give: str) -> Description:
    try:
        return Description(value)
    except Exception as error:  # objects of all kinds are taken apart, and each may fail in its own way
        reason = str(error) if isinstance(error, UnreadableError) else f"{type(value).__name__} is not ({error!r})"
        raise InvalidInputError(
            f"{must}; {reason}. {give} a text attribute 'fingerprint' that names its content."
        ) from error
