"""The command line: one module per group of commands, imported only when one of them is called."""

from __future__ import annotations

import gc
import importlib
import keyword
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

import click

from canaryd import __version__
from canaryd.cli.manual import epilog
from canaryd.cli.options import global_options, in_place
from canaryd.errors import EXIT_CRASH, EXIT_INTERRUPTED, EXIT_PIPE, CanarydError, UsageError

#: Every command, the module it lives in and what `canaryd --help` says of it.
COMMANDS = {
    "init": ("canaryd.cli.project", "Write a working project into a new directory."),
    "demo": ("canaryd.demo.command", "Play 60 days with a drop on day 31, on this machine alone."),
    "panel": ("canaryd.cli.panel", "Generate, lint, freeze, verify, show and compare panels."),
    "calibrate": ("canaryd.cli.calibrate", "Find the questions worth asking: screen, confirm, design, freeze."),
    "register": ("canaryd.cli.register", "Freeze the decision rule before the first day."),
    "simulate": ("canaryd.cli.simulate", "False alarms and detection delays of a registration, before you start."),
    "validate": ("canaryd.cli.validate", "Show that the instrument sees a change, and none where there is none."),
    "run": ("canaryd.cli.measure", "Measure one slot of a series."),
    "rehearse": ("canaryd.cli.rehearse", "Play days of a project with a demo clock."),
    "doctor": ("canaryd.cli.doctor", "Check everything a measurement needs, and say what to do."),
    "deviation": ("canaryd.cli.deviation", "Note a deviation, or accept a harness that has drifted."),
    "rebaseline": ("canaryd.cli.deviation", "Begin a new baseline without a drift."),
    "ack": ("canaryd.cli.deviation", "Silence an alarm state until a time, or settle a carried change."),
    "quarantine": ("canaryd.cli.quarantine", "Take a slot out of the analysis, with a reason."),
    "sentinel": ("canaryd.cli.sentinel", "Take the baseline of the sentinels before day 1."),
    "status": ("canaryd.cli.reading", "Say what is known, from the store alone."),
    "check": ("canaryd.cli.reading", "Exit 0 no change, 1 changed, 2 could not be judged."),
    "report": ("canaryd.cli.report", "Write the whole argument of a series: HTML, Markdown, pictures."),
    "compare": ("canaryd.cli.compare", "Compare two result files, each item with itself, without a store."),
    "alarms": ("canaryd.cli.alerts", "List the transitions of the alarm state of every series."),
    "alert": ("canaryd.cli.alerts", "Send a test through Alertmanager or the webhook."),
    "daemon": ("canaryd.cli.daemon", "Measure every series each day, decide, and serve metrics."),
    "metrics": ("canaryd.cli.metrics", "Print the metrics of the store, or write a textfile."),
    "duel": ("canaryd.cli.duel", "Compare two retrieval substrates by two judges, in both orders."),
    "regrade": ("canaryd.cli.regrade", "Grade the stored replies again and list what comes out otherwise."),
    "verify": ("canaryd.cli.verify", "Recompute every verdict from the raw rows and name what differs."),
    "export": ("canaryd.cli.transfer", "Write a series out: JSON lines, CSV, Parquet or Inspect's .eval."),
    "import": ("canaryd.cli.transfer", "Read a series in: an export, or what was measured elsewhere."),
    "config": ("canaryd.cli.config", "Show and check the configuration."),
    "completion": ("canaryd.cli.completion", "Print the completion script of a shell."),
    "db": ("canaryd.cli.db", "Create, upgrade, check and back up the store."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, so that `status` starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now; None when there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        # A command may be called as no Python function can (`import`).
        command = getattr(module, f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name)
        assert isinstance(command, click.Command)
        return in_place(command, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command list of `--help` from the table, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(
    cls=LazyGroup,
    params=global_options(is_root=True),
    epilog=epilog(""),
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 110,
        "auto_envvar_prefix": "CANARYD",
    },
)
@click.version_option(__version__, message="canaryd %(version)s")
def cli() -> None:
    """Did the model behind this name change, or was I unlucky?

    canaryd asks a frozen panel every day of a tracked and of a control model and says "changed" only when the rule that
    was registered beforehand says so. `canaryd demo` shows the whole of it in two minutes.

    An option may also stand in the environment, $CANARYD_STATUS_SERIES for `status --series`; the command line wins.
    The options below may stand before a command or after it.
    """


def main() -> NoReturn:
    """Run the command line and end the process with the code of the contract.

    The interpreter is not torn down: by then what was measured is stored and what was said is flushed, and to free all
    objects of SQLAlchemy would take a quarter of the time of `canaryd status`.
    """
    code = invoke()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def invoke() -> int:
    """Run the command line of `sys.argv` and return the code of the contract."""
    # Importing makes many objects and no garbage: collecting as often as Python does costs a tenth of a short command.
    gc.set_threshold(50_000, 20, 20)
    # A service manager's SIGTERM is said and answered like Ctrl-C, wherever a command does not know better.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = _invoke()
        if sys.stdout is not None:
            sys.stdout.flush()
    except Exception as error:
        return _explained(error)
    except KeyboardInterrupt:
        return _interrupted()
    return code


def _explained(error: Exception) -> int:
    """Say in one line what went wrong, and return its exit code; what nobody expected leaves a file."""
    match error:
        case CanarydError():
            _say(str(error))
            return error.exit_code
        case click.ClickException():
            _say(error.format_message())
            return UsageError.exit_code
        case click.exceptions.Abort():
            return _interrupted()
        case BrokenPipeError():
            return EXIT_PIPE
        case OSError():
            where = f"{error.filename}: " if error.filename else "the output "
            _say(f"{where}cannot be read or written ({error.strerror}); check the path, its owner and the space left")
        case _:
            from canaryd.cli.crash import write_crash_file

            _say(f"internal error ({type(error).__name__}); {write_crash_file(error)}; please report it")
    return EXIT_CRASH


def _interrupted() -> int:
    _say("interrupted; what was stored stays, and the same command goes on from there")
    return EXIT_INTERRUPTED


def _invoke() -> int:
    """Run the command and return its code.

    Click's own `main` is left to shell completion: it answers a closed pipe with 1, which is the code of a change.
    """
    if "_CANARYD_COMPLETE" in os.environ:
        cli.main(prog_name="canaryd")
    try:
        with cli.make_context("canaryd", sys.argv[1:]) as context:
            cli.invoke(context)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    return 0


def _say(text: str) -> None:
    """Write one line to standard error, if there is one that can be written to."""
    with suppress(OSError, ValueError, AttributeError):
        click.echo(f"canaryd: {text}", err=True)
