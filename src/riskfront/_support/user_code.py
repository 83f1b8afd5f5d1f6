"""Whose code it is, and what a piece of code names. The user's own code is read; an installed package has a version."""

from __future__ import annotations

import dis
import functools
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__)}
_IMPORT = dis.opmap["IMPORT_NAME"]


def is_users(value: FunctionType | type | ModuleType) -> bool:
    """Whether code is the user's own: in no installed package and not of Python itself. What has no file is the user's."""
    if isinstance(value, ModuleType):
        return _is_users_module(value)
    file = value.__code__.co_filename if isinstance(value, FunctionType) else "<class>"
    if not file.startswith("<"):
        return _is_users_file(file)
    module = sys.modules.get(value.__module__ or "")
    return not file.startswith("<frozen ") and (module is None or _is_users_module(module))


def is_known_by_name(value: Any) -> bool:
    """Whether an installed or compiled function is what its name says: none that wraps another, or was made by a function."""
    place, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    module = sys.modules.get(place) if isinstance(place, str) else None
    compiled = str(getattr(module, "__file__", "")).endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))
    if module is None or not isinstance(name, str) or (_is_users_module(module) and not compiled):
        return False
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def version_of(package: str) -> str:
    """The version of what is installed under the name of a package, or Python's own."""
    if package in sys.stdlib_module_names:
        return f"Python {sys.version_info.major}.{sys.version_info.minor}"
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # it goes by another name, as sklearn does
        found = {name: metadata.version(name) for name in _distributions().get(package, ())}
        return ", ".join(f"{name} {found[name]}" for name in sorted(found))


def named_by(code: CodeType) -> tuple[set[str], frozenset[str]]:
    """The global variables, and the attributes of anything, that a piece of code and those defined in it name."""
    steps = [step for part in _nested(code) for step in dis.get_instructions(part)]
    loads = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
    variables = {step.argval for step in steps if step.opname in loads}
    return variables, frozenset(step.argval for step in steps if step.opname in ("LOAD_ATTR", "LOAD_METHOD"))


def imported_by(code: CodeType, package: str) -> set[str]:
    """The modules that a piece of code imports; each name after "from" may be one too."""
    found: set[str] = set()
    for part in _nested(code):
        if _IMPORT in part.co_code[::2]:  # taking all of a large program apart would be slow
            steps = [step for step in dis.get_instructions(part) if step.opname != "EXTENDED_ARG"]
            for level, names, step in zip(steps, steps[1:], steps[2:], strict=False):
                if step.opname == "IMPORT_NAME":
                    found |= _imported(step.argval, level.argval, names.argval or (), package)
    return found


def spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    """Where a module of the user's is, found without importing it; None if it is none of theirs, or not there."""
    top, *inner = name.split(".")
    try:
        spec = _loaded_spec(top) or importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    for part in inner:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{spec.name}.{part}"
        spec = _loaded_spec(name) or importlib.machinery.PathFinder.find_spec(name, spec.submodule_search_locations)
    place = None if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ()), None)
    return spec if place is not None and os.path.isabs(place) and _is_users_file(place) else None


def code_of(spec: importlib.machinery.ModuleSpec) -> CodeType | bytes | None:
    """The code of a module, or the bytes of a compiled one; None if there is neither, or it cannot be read."""
    try:
        code: CodeType | None = getattr(spec.loader, "get_code", lambda name: None)(spec.name)
        return code if code is not None or spec.origin is None else Path(spec.origin).read_bytes()
    except (ImportError, SyntaxError, OSError, ValueError):
        return None


def _is_users_module(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    if isinstance(file, str) and os.path.isabs(file):
        return _is_users_file(file)
    top = module.__name__.partition(".")[0]
    if top != module.__name__ and top in sys.modules:
        return _is_users_module(sys.modules[top])
    return top == "__main__" or top not in sys.stdlib_module_names


def _is_users_file(file: str) -> bool:
    path = Path(file)
    standard = any(path.is_relative_to(folder) for folder in _STANDARD)
    return not standard and _INSTALLED.isdisjoint(path.parts)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _imported(name: str, level: int, names: tuple[str, ...], package: str) -> set[str]:
    try:
        module = importlib.util.resolve_name("." * level + name, package)
    except ImportError:  # a relative import outside of any package: it fails when it is run
        return set()
    parents = module.split(".")
    return {".".join(parents[:count]) for count in range(1, len(parents) + 1)} | {f"{module}.{part}" for part in names}


def _loaded_spec(name: str) -> importlib.machinery.ModuleSpec | None:
    return getattr(sys.modules.get(name), "__spec__", None)


@functools.cache
def _distributions() -> dict[str, list[str]]:
    return {package: sorted(set(names)) for package, names in metadata.packages_distributions().items()}
