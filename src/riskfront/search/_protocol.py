"""What every search strategy offers. Strategies only ever see the numbers told to them: planning examples, by construction."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from riskfront._problems.spaces.space import Config


@runtime_checkable
class Search(Protocol):
    """Proposes settings and learns from their values. Tells may come late, in any order, or without an ask."""

    def ask(self, n: int = 1) -> list[Config]:
        """Up to n settings never asked or told before; fewer, at last none, when the space has no more."""
        ...

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        """The value of every objective at this setting, each to be minimised."""
        ...


@runtime_checkable
class Remembering(Search, Protocol):
    """A search that may know settings from before it was made: earlier runs and other machines told them."""

    def belong_to(self, task: Callable[[], Mapping[str, str]]) -> None:
        """Whose settings these are, by a name for each part of the task; an error if they are another's."""
        ...

    def remembered(self) -> list[Config]:
        """Every setting told so far, each time in the same order."""
        ...
