"""The command line: one small function a command.

Exit status 0 certified, 1 nothing certified, 2 bad input, 3 an error of riskfront itself, 130 stopped.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import sys
import traceback
import warnings
from collections.abc import Iterable, Sequence
from typing import Annotated, NoReturn

import typer

from riskfront._support.version import __version__
from riskfront.errors import EvaluationError, RiskfrontError

_PLAIN = warnings.formatwarning

#: name of a command -> the module of this package and the function, or the group of commands, that it is
COMMANDS = {
    "calibrate": ("tables", "calibrate"),
    "verify": ("tables", "verify"),
    "check": ("checks", "check"),
    "monitor": ("monitoring", "monitor"),
    "cascade": ("cascades", "cascade"),
    "serve": ("serving", "serve"),
    "inspect": ("tables", "inspect"),
    "trials": ("tables", "trials"),
    "frontier": ("tables", "frontier"),
    "decide": ("deciding", "decide"),
    "choose": ("deciding", "choose"),
    "report": ("tables", "report"),
    "plan": ("planning", "plan"),
    "tune": ("models", "tune"),
    "evaluate": ("models", "evaluate"),
    "demo": ("models", "demo"),
    "accelerate": ("adaptive", "accelerate"),
    "import": ("logs", "import_"),
    "transformers": ("adaptive", "steps"),
    "reproduce": ("reproduce", "commands"),
}


def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    """Choose the settings of a machine-learning system with proof."""
    if version:
        print(f"riskfront {__version__}")
        raise typer.Exit


def make_app(commands: Iterable[str] = tuple(COMMANDS)) -> typer.Typer:
    """The command line with these commands; a module is imported if one of its commands is among them."""
    app = typer.Typer(
        help="Choose the settings of a machine-learning system with proof.",
        no_args_is_help=True,
        invoke_without_command=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"max_content_width": 80},
    )
    app.callback()(_version)
    for name in commands:
        module, function = COMMANDS[name]
        found = getattr(importlib.import_module(f"riskfront._cli.{module}"), function)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: riskfront's own errors become one line on stderr and exit status 2, warnings one line each."""
    warnings.formatwarning = _sentence
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        asked = [name for name in given[:1] if name in COMMANDS]
        needed = () if given[:1] == ["--version"] else asked or COMMANDS
        app = _loaded(needed) if arguments is None else make_app(needed)
        status = app(args=given, standalone_mode=False)
    except EvaluationError as error:
        _fail(f"{error.problem} {_advice(error)}")
    except RiskfrontError as error:
        _fail(_in_options(str(error)))
    except (typer.Abort, KeyboardInterrupt):
        _fail("stopped.", 130)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
    except Exception as error:
        if not hasattr(error, "format_message"):  # click's own errors know how to say what is wrong
            traceback.print_exc()
            _fail("this error was not foreseen; please report it.", 3)  # 1 would say that nothing can be certified
        _fail(error.format_message())
    else:
        if status == 130:  # what typer makes of Ctrl-C
            _fail("stopped.", 130)
        raise SystemExit(status or 0)
    finally:
        warnings.formatwarning = _PLAIN


def _loaded(commands: Iterable[str]) -> typer.Typer:
    """The command line of a process of its own. What is loaded stays: to look for garbage in it takes a quarter of a second."""
    gc.disable()
    app = make_app(commands)
    gc.freeze()
    gc.enable()
    atexit.register(gc.freeze)
    return app


#: what Python users are told -> what the command line has an option for
_OPTIONS = {
    "call it 'example'": "name it (--example-column)",
    "Call the column of the examples 'example', and leave out columns that are no settings": (
        "Name them (--config-columns, --example-column)"
    ),
    "Add the rows that are missing, or leave out columns that are no settings": (
        "Name the setting columns (--config-columns) to learn which rows are missing, or add them"
    ),
    "leave out columns that are no settings": "--config-columns names others",
    "they must have the same values for every example": "name them (--config-columns)",
    "call it by another name, such as": "name the settings (--config-columns), or call it by another name, such as",
}


def _in_options(message: str) -> str:
    """The message with advice in terms of options."""
    for in_python, option in _OPTIONS.items():
        message = message.replace(in_python, option)
    return message


def _advice(error: EvaluationError) -> str:
    """How to go on, in the words of the command line."""
    before = f"The {error.n_evaluated} settings evaluated before are"
    if error.in_store:
        skip = ", or count failures as the worst outcome with --skip-errors" if error.can_skip else ""
        return f"{before} in the store: correct it and run again to go on{skip}."
    skip = " Or count failures as the worst outcome with --skip-errors." if error.can_skip else ""
    if error.n_evaluated:
        return f"{before} lost; with --store they are kept, and the same command goes on from them.{skip}"
    return skip.strip()


def _sentence(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    if issubclass(category, UserWarning):
        return f"riskfront: {' '.join(str(message).split())}\n"
    return _PLAIN(message, category, filename, lineno, line)


def _fail(message: str, status: int = 2) -> NoReturn:
    print(f"riskfront: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(status)
