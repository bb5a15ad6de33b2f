"""The command line: one file per command, each calling the functions that a script would call.

Exit codes: 0 solved, 1 bad problem or file, 2 bad command line, 3 infeasible (with its proof),
4 stopped before the target.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import click

from fairmdp.cli import exit_codes
from fairmdp.errors import FairMDPError
from fairmdp.version import __version__

COMMANDS = {
    "scenarios": "List the ready-made problems and worlds, and their parameters.",
    "new": "Write a ready-made problem or world as a file to edit.",
    "inspect": "Say what a model is, before it is solved.",
    "solve": "Find the best fair policy, with proof.",
    "welfare": "Find the policy that a principle of fairness prefers, with proof.",
    "verify": "Check a kept solution from the data alone.",
    "audit": "Judge a policy that is there already, and mend it.",
    "frontier": "What fairness costs: the best gain for every share owed.",
    "compare": "Fair, unconstrained, max-min and uniform policies side by side.",
    "explore": "A page in your browser with a slider for every quota.",
    "report": "Write a solution as one HTML file to send to somebody.",
    "learn": "Learn a fair policy from a simulator.",
    "certify": "Prove from fresh samples that a learned policy is fair.",
    "simulate": "Run a policy and watch its shares come about.",
    "online": "Learn while it runs, and keep every quota's account.",
    "reproduce": "Repeat the paper's experiments.",
    "warmup": "Compile everything now, so that no first run is slow.",
}
"""Commands, as one meets them and not by the alphabet; each is in the module of its name."""


class _Modules(Mapping[str, click.Command]):
    """A command's module is imported when the command is called, so that ``--help`` waits for none."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in COMMANDS:
            raise KeyError(name)
        command: click.Command = getattr(import_module(f"{__name__}.{name}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _InOrder(click.Group):
    """Commands are listed in the order of the table, and from it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=_InOrder, commands=_Modules(), context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="fairmdp")
def cli() -> None:
    """Policies that earn the most while giving everyone their due share of time, with proofs."""


def main() -> None:
    """Entry point: turns errors into messages and exit codes."""
    try:
        code = cli.main(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # what cannot be written is to be said, and not after the end
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except FairMDPError as error:
        _fail(str(error), exit_codes.BAD_PROBLEM)
    except (KeyboardInterrupt, click.Abort):
        _fail("stopped", exit_codes.STOPPED)
    except MemoryError:
        _fail("out of memory: this problem is too large for this machine", exit_codes.BAD_PROBLEM)
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        sys.exit(exit_codes.BAD_PROBLEM)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG):
            _mistake(error)
        with suppress(OSError):
            sys.stdout.close()  # or Python complains once more when it ends
        _fail(f"the output cannot be written: {error.strerror}", exit_codes.BAD_PROBLEM)
    except Exception as error:
        _mistake(error)
    sys.exit(code)


def _mistake(error: Exception) -> NoReturn:
    """End with what nobody thought of."""
    if os.environ.get("FAIRMDP_TRACE"):
        raise error
    where = "set FAIRMDP_TRACE=1 to see where it happened"
    _fail(f"a mistake of ours, not yours: {type(error).__name__}: {error}\n  {where}", exit_codes.BAD_PROBLEM)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"{click.style('error:', fg='red')} {message}", err=True)
    sys.exit(code)
