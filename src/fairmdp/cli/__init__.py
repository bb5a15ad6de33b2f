"""The command line: one file per command, each calling the functions that a script would call.

Exit codes: 0 solved, 1 bad problem or file, 2 bad command line, 3 infeasible (with its proof),
4 stopped before the target.
"""

from __future__ import annotations

import os
import sys

import click

from fairmdp import __version__
from fairmdp.cli.certify import certify
from fairmdp.cli.compare import compare
from fairmdp.cli.explore import explore
from fairmdp.cli.frontier import frontier
from fairmdp.cli.learn import learn
from fairmdp.cli.new import new
from fairmdp.cli.report import report
from fairmdp.cli.reproduce import reproduce
from fairmdp.cli.scenarios import scenarios
from fairmdp.cli.simulate import simulate
from fairmdp.cli.solve import solve
from fairmdp.cli.verify import verify
from fairmdp.cli.warmup import warmup
from fairmdp.errors import FairMDPError

STOPPED = 4


class _InOrder(click.Group):
    """Commands are listed as one meets them, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fairmdp")
def cli() -> None:
    """Policies that earn the most while giving everyone their due share of time, with proofs."""


for command in (
    scenarios, new, solve, verify, frontier, compare, explore, report, learn, certify, simulate, reproduce,
    warmup,
):  # fmt: skip
    cli.add_command(command)


def main() -> None:
    """Entry point: turns errors into messages and exit codes."""
    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except FairMDPError as error:
        _fail(str(error), 1)
    except (KeyboardInterrupt, click.Abort):
        _fail("stopped", STOPPED)
    except MemoryError:
        _fail("out of memory: this problem is too large for this machine", 1)
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        if os.environ.get("FAIRMDP_TRACE"):
            raise
        where = "set FAIRMDP_TRACE=1 to see where it happened"
        _fail(f"a mistake of ours, not yours: {type(error).__name__}: {error}\n  {where}", 1)
    sys.exit(code)


def _fail(message: str, code: int) -> None:
    click.echo(f"{click.style('error:', fg='red')} {message}", err=True)
    sys.exit(code)
