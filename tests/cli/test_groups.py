"""A group of options is a dataclass to the command and plain options to the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from riskfront._cli.options import grouped


@dataclass(frozen=True)
class Where:
    place: Annotated[str, typer.Option(help="Must be given.")]
    names: Annotated[list[str], typer.Option("--name")] = field(default_factory=list)


@dataclass(frozen=True)
class Exactly(Where):
    names: Annotated[list[str], typer.Option("--name")] = field(default_factory=lambda: ["x"])
    height: int = 3


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @grouped
    def go(target: Annotated[str, typer.Argument()], where: Exactly, fast: bool = False) -> int:
        """Go there."""
        print(target, where, fast)
        return 0

    return app


def test_fields_are_options_with_their_defaults(app: typer.Typer) -> None:
    found = CliRunner().invoke(app, ["home", "--place", "p"])
    assert found.output == f"home {Exactly('p', ['x'], 3)} False\n"
    found = CliRunner().invoke(app, ["--name", "a", "--name", "b", "--height", "4", "--fast", "--place", "p", "home"])
    assert found.output == f"home {Exactly('p', ['a', 'b'], 4)} True\n"


def test_a_field_without_a_default_must_be_given(app: typer.Typer) -> None:
    found = CliRunner().invoke(app, ["home"])
    assert found.exit_code == 2
    assert "--place" in found.output
