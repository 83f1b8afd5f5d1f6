"""The command line: one small function a command.

Exit status 0 certified, 1 nothing certified, 2 bad input, 3 an error of riskfront itself, 130 stopped.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from riskfront.cli import adaptive, cascades, checks, logs, models, planning, reproduce, tables
from riskfront.errors import EvaluationError, RiskfrontError
from riskfront.version import __version__

_PLAIN = warnings.formatwarning

app = typer.Typer(
    help="Choose the settings of a machine-learning system with proof.",
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 80},
)


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    """Choose the settings of a machine-learning system with proof."""
    if version:
        print(f"riskfront {__version__}")
        raise typer.Exit


for command in (
    tables.calibrate,
    tables.verify,
    checks.check,
    cascades.cascade,
    tables.inspect,
    tables.trials,
    tables.frontier,
    tables.report,
    planning.plan,
    models.tune,
    models.evaluate,
    models.demo,
    adaptive.accelerate,
):
    app.command()(command)
app.command("import")(logs.import_)
app.add_typer(adaptive.steps, name="transformers")
app.add_typer(reproduce.commands, name="reproduce")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: riskfront's own errors become one line on stderr and exit status 2, warnings one line each."""
    warnings.formatwarning = _sentence
    try:
        status = app(args=None if arguments is None else list(arguments), standalone_mode=False)
    except EvaluationError as error:
        _fail(f"{error.problem} {_advice(error)}")
    except RiskfrontError as error:
        _fail(str(error))
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


def _advice(error: EvaluationError) -> str:
    """How to go on, in the words of the command line."""
    before = f"The {error.n_evaluated} settings evaluated before are"
    if error.in_store:
        skip = ", or leave such settings out with --skip-errors" if error.can_skip else ""
        return f"{before} in the store: correct it and run again to go on{skip}."
    skip = " Or leave such settings out with --skip-errors." if error.can_skip else ""
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
