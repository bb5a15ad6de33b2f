"""How a command ends."""

from __future__ import annotations

SOLVED = 0
BAD_PROBLEM = 1  # or a bad file, or a claim that was not confirmed
BAD_COMMAND_LINE = 2
INFEASIBLE = 3  # with its proof; of a learned policy: not fair
STOPPED = 4  # before the target: out of time or steps, or undecided

OF_STATUS = {"optimal": SOLVED, "infeasible": INFEASIBLE, "feasible": STOPPED, "undecided": STOPPED}
"""What was proved, as an exit code."""

OF_VERDICT = {"fair": SOLVED, "not fair": INFEASIBLE, "undecided": STOPPED}
"""What is said of a policy, as an exit code."""
