"""models.toml: how the models of a policy are reached, and how much the endpoint takes on. Keys come from the environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from riskfront._cascades.policy import Policy
from riskfront._support.values import is_number
from riskfront.errors import InvalidInputError, StoreError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PRICES = ("per_call", "per_million_input", "per_million_output")
#: what a request may hold whatever the configuration allows: it changes no answer
HARMLESS = frozenset({"model", "messages", "stream", "stream_options", "user", "metadata", "store", "about"})


#: parameters that no configuration sets
_OWN = {
    "n": "a policy judges one answer a call, and asks as often as in the logs by itself",
    "stream": "an answer is judged as a whole, and streamed to the client once it is decided on",
    "model": "it has an entry of its own, beside parameters",
    "api_base": "it has an entry of its own, beside parameters",
    "timeout": "it has an entry of its own, beside parameters",
    "fallbacks": "another model would answer than the one that was certified; the policy itself goes on where a call fails",
    "max_retries": "it is called 'retries' and stands beside parameters",
    "messages": "they are those of the request; a system message or a template have entries of their own",
}


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model of a policy; docs/howto/serve.md says what each entry means."""

    model: str
    api_base: str | None = None
    api_key_env: str | None = None
    timeout: float = 60.0
    retries: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    template: str | None = None
    price: Mapping[str, float] | None = None

    def key(self) -> str | None:
        return None if self.api_key_env is None else os.environ.get(self.api_key_env)


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """What the endpoint takes on; docs/howto/serve.md says what each entry means."""

    name: str = "riskfront"
    most_running: int = 256
    most_waiting: int = 4096
    failed_answer: str | None = None
    api_key_env: str | None = None
    allow: tuple[str, ...] = ()
    log: str | None = None
    judge: str | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """All of models.toml."""

    models: Mapping[str, ModelEntry]
    server: ServerEntry

    def secrets(self) -> list[str]:
        """The keys, which must not stand in any message."""
        named = [entry.api_key_env for entry in self.models.values()] + [self.server.api_key_env]
        keys = [os.environ.get(name, "") for name in named if name]
        keys += [value for name, value in os.environ.items() if name.endswith(("_API_KEY", "_TOKEN", "_SECRET"))]
        return [key for key in keys if len(key) >= 4]


def read_configuration(path: str | os.PathLike[str], policy: Policy) -> Configuration:
    """The configuration of a file, if it fits a policy."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"cannot read '{path}': {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"'{path}' must be TOML; {error}.") from None
    return configuration(data, policy, f"'{path}'")


def configuration(data: Mapping[str, Any], policy: Policy, where: str = "the configuration") -> Configuration:
    """The same from what TOML holds."""
    unknown = set(data) - {"models", "server"}
    if unknown:
        raise InvalidInputError(f"{where} must have the tables models and server; it also has '{sorted(unknown)[0]}'.")
    listed = data.get("models", {})
    missing = [name for name in policy.models if name not in listed]
    if missing:
        raise InvalidInputError(
            f"{where} must say how to reach every model of the policy; '{missing[0]}' is missing. Add "
            f'[models."{missing[0]}"] with model = "provider/name".'
        )
    models = {name: _entry(ModelEntry, listed[name], f"{where}, models.{name}") for name in policy.models}
    server = _entry(ServerEntry, data.get("server", {}), f"{where}, server")
    for name, entry in models.items():
        _must_be_usable(entry, f"{where}, models.{name}")
    named = [key for key in (server.api_key_env, *(entry.api_key_env for entry in models.values())) if key is not None]
    if not all(re.fullmatch(r"\w+", key) for key in named):  # a key itself would stand in the next message
        raise InvalidInputError(
            f"{where}: api_key_env must be the name of an environment variable, not the key itself."
        )
    lacking = [name for name in sorted(set(named)) if not os.environ.get(name)]
    if lacking:
        raise InvalidInputError(
            f"{where} names the environment variable {lacking[0]}, which must hold a key; it is not set."
        )
    if set(server.allow) & set(_OWN):
        raise InvalidInputError(
            f"{where}, server: allow must not name {', '.join(sorted(set(server.allow) & set(_OWN)))}, on which decisions rest."
        )
    if min(server.most_running, server.most_waiting + 1) < 1:
        raise InvalidInputError(f"{where}, server: most_running must be at least 1 and most_waiting at least 0.")
    return Configuration(models, server)


def _entry(kind: Any, given: Any, where: str) -> Any:
    """A dataclass from a table, whose names and kinds of values are checked."""
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"{where} must be a table; got {given!r}.")
    if "api_key" in given or "key" in given:
        raise InvalidInputError(
            f"{where}: keys must come from the environment, never from a file; name the variable with api_key_env."
        )
    known = {part.name: part for part in fields(kind)}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InvalidInputError(f"{where} has no '{unknown[0]}'; it takes {', '.join(known)}.")
    lacking = [part.name for part in known.values() if part.default is MISSING and part.default_factory is MISSING]
    if not set(lacking) <= set(given):
        raise InvalidInputError(f"{where} must have '{lacking[0]}', such as \"openai/gpt-4o-mini\"; it has none.")
    kinds: dict[str, Any] = {"str": str, "float": (int, float), "int": int, "Mapping": Mapping, "tuple": list}
    for name, value in given.items():
        wanted = kinds[str(known[name].type).split("[")[0].split(" ")[0]]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise InvalidInputError(f"{where}: '{name}' must be of the kind {known[name].type}; got {value!r}.")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def _must_be_usable(entry: ModelEntry, where: str) -> None:
    if entry.timeout <= 0 or entry.retries < 0:
        raise InvalidInputError(f"{where}: timeout must be positive and retries at least 0.")
    if entry.template is not None and "{prompt}" not in entry.template:
        raise InvalidInputError(f"{where}: template must hold {{prompt}}; it does not.")
    for name, price in (entry.price or {}).items():
        if name not in _PRICES or not is_number(price) or price < 0:
            raise InvalidInputError(f"{where}: price must have numbers of at least 0 under {', '.join(_PRICES)}.")
    own = next((name for name in entry.parameters if name in _OWN), None)
    if own is not None:
        raise InvalidInputError(f"{where}: '{own}' must not be among the parameters: {_OWN[own]}.")
    nested = [
        part for name, part in entry.parameters.items() if name in _SENT_AS_THEY_ARE and isinstance(part, Mapping)
    ]
    secret = next((name for part in (entry.parameters, *nested) for name in part if _is_key(name)), None)
    if secret is None and entry.api_base is not None and _has_password(entry.api_base):
        secret = "api_base"
    if secret is not None:
        raise InvalidInputError(
            f"{where}: keys must come from the environment, never from a file; '{secret}' holds one. Name the variable with "
            "api_key_env."
        )


#: parameters whose parts LiteLLM sends as headers, or as they are
_SENT_AS_THEY_ARE = ("extra_headers", "headers", "extra_body", "extra_query", "default_headers")


_KEYS = re.compile(r"key|authorization|secret|password|(access|auth)_token|^(x-)?(token|auth)$", re.IGNORECASE)


def _is_key(name: str) -> bool:
    return name != "prompt_cache_key" and _KEYS.search(name) is not None


def _has_password(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:  # no address; the calls will say so
        return False
    return parts.password is not None or any(_is_key(name) for name, _ in parse_qsl(parts.query))
