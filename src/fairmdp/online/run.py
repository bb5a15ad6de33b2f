"""Run an agent in a model, a simulator or an environment; a killed run goes on from its checkpoint."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fsdecode
from pathlib import Path
from signal import SIGINT, getsignal, signal
from threading import current_thread, main_thread
from typing import Any

import numpy as np

from fairmdp.errors import FormatError
from fairmdp.files import naming, reading, replacing
from fairmdp.learning.counts import Seed, root_seed
from fairmdp.model.checks import Bools, Floats, Ints, ReadOnly, check_count, counted, refuse
from fairmdp.model.labels import Labels
from fairmdp.online import agent_file
from fairmdp.online.agent import OnlineAgent
from fairmdp.online.report import AgentReport
from fairmdp.online.systems import Arrays, System, system_of
from fairmdp.tables import Table

_POINTS = 512  # of a course, at most; then every other one is dropped
_BETWEEN = 256  # steps between looks at the clock
_COLUMNS = ("steps", "gains", "shares", "accounts", "cushions", "restoring")

Progress = Callable[[int, int, AgentReport], None]


@dataclass(frozen=True, eq=False, repr=False)
class OnlineRun(ReadOnly):
    """What an agent did, and how it came there.

    Attributes
    ----------
    report : AgentReport
        Where it is at the end.
    steps : ndarray
        The steps at which the course was noted, evenly spaced, (C,).
    gains, shares, accounts, cushions, restoring : ndarray
        Mean reward so far, (C,), realised shares so far and accounts and cushions, (C, K), and whether the
        policy in force restored, (C,).
    finished : bool
        Whether all steps were taken; Ctrl-C keeps those that were.
    seconds : float
        Wall-clock time, of this call.
    """

    report: AgentReport
    steps: Ints
    gains: Floats
    shares: Floats
    accounts: Floats
    cushions: Floats
    restoring: Bools
    finished: bool
    seconds: float

    def to_table(self) -> Table:
        """Return one row per point of the course."""
        values, names = self.report.units.values, self.report.quota_names
        shares = np.array([values(row) for row in self.shares]).reshape(self.shares.shape)
        return Table(
            {"steps": self.steps.tolist(), "gain": self.gains.tolist()}
            | {f"share {name}": shares[:, k].tolist() for k, name in enumerate(names)}
            | {f"account {name}": self.accounts[:, k].tolist() for k, name in enumerate(names)}
            | {"restoring": self.restoring.tolist()}
        )

    def __repr__(self) -> str:
        said = self.report
        return (
            f"OnlineRun({counted(said.steps, 'step')}, gain={said.gain:.4g}, "
            f"worst_account={said.worst_account:+.1f} steps)"
        )


def run_online(
    env: Any,
    agent: OnlineAgent,
    steps: int,
    *,
    seed: Seed = 0,
    on_terminate: str | None = None,
    checkpoint: str | PathLike[str] | None = None,
    every: float = 10.0,
    progress: Progress | None = None,
    tell: float = 0.5,
) -> OnlineRun:
    """Let an agent act for so many steps.

    Parameters
    ----------
    env
        A model or a problem, whose numbers only the world sees; a simulator; or an environment of Gymnasium
        with discrete observations and actions.
    agent
        It is at the end of the run afterwards.
    steps
        All steps of the run, those before a checkpoint too.
    seed
        What is random in the world follows from it, its first state too; the agent has a seed of its own.
    on_terminate
        What follows where an episode of an environment ends by itself: ``"restart"`` takes a step, for no
        reward, to where the next one begins, as `from_gymnasium` and `Log.from_trajectories` do.
    checkpoint
        A file that is written now and then, and at the end. Where there is one already the run goes on from
        it, to the same bits as a run that was never stopped; the agent must be as it was when that began.
    every
        Seconds between checkpoints.
    progress
        Called now and then with the steps taken, all steps, and a report.
    tell
        Seconds between calls of ``progress``.

    Examples
    --------
    >>> from fairmdp import OnlineAgent, scenarios, solve
    >>> world = scenarios.three_state()
    >>> agent = OnlineAgent(world, start=solve(world.with_bounds([0.12, 0.12, 0.3])), seed=1)
    >>> run_online(world, agent, 2000, seed=1)
    OnlineRun(2000 steps, gain=0.4407, worst_account=+10.0 steps)
    """
    check_count("steps", steps)
    started = time.perf_counter()
    system = system_of(env, Labels.of(agent.problem.mdp), seed, on_terminate)
    if agent.steps:
        agent.moved()  # the world begins anew
    course = _Course()
    path = None if checkpoint is None else fsdecode(checkpoint)
    mark = "" if path is None else _fingerprint(agent, system, seed)
    if path is not None and Path(path).exists():
        _go_on(path, mark, agent, system, course)
    saved = told = time.perf_counter()
    with _asked_to_stop() as stop:
        while agent.steps < steps and not stop():
            _some(system, agent, min(_BETWEEN - agent.steps % _BETWEEN, steps - agent.steps), course)
            now = time.perf_counter()
            if progress is not None and (now - told >= tell or agent.steps >= steps):
                progress(agent.steps, steps, agent.report())
                told = now
            if path is not None and now - saved >= every:
                _save(path, mark, agent, system, course)
                saved = now
    if path is not None:
        _save(path, mark, agent, system, course)
    finished = agent.steps >= steps
    return OnlineRun(
        agent.report(), **course.columns(), finished=finished, seconds=time.perf_counter() - started
    )


def _some(system: System, agent: OnlineAgent, steps: int, course: _Course) -> None:
    """Take some steps."""
    act, observe, step = agent.act, agent.observe, system.step
    for _ in range(steps):
        state = system.state
        action = act(state)
        reward, led = step(action)
        observe(state, action, reward, led)
        if system.moved:
            agent.moved()
        if agent.steps >= course.due:
            course.note(agent.report())


class _Course:
    """Points of a run, evenly spaced and not too many: with more, every other one is dropped."""

    def __init__(self) -> None:
        self.stride = self.due = 1
        self.points: list[tuple[Any, ...]] = []

    def note(self, said: AgentReport) -> None:
        """Keep where the agent is."""
        self.points.append(
            (said.steps, said.gain, said.shares, said.accounts, said.cushions, said.mode == "restore")
        )
        if len(self.points) >= _POINTS:
            self.points = self.points[1::2]
            self.stride *= 2
        self.due = said.steps + self.stride - said.steps % self.stride

    def columns(self) -> dict[str, Any]:
        """The points as arrays."""
        if not self.points:
            none = np.zeros((0, 0))
            return dict(
                zip(
                    _COLUMNS,
                    (np.zeros(0, int), np.zeros(0), none, none, none, np.zeros(0, bool)),
                    strict=True,
                )
            )
        return {
            name: np.array(column)
            for name, column in zip(_COLUMNS, zip(*self.points, strict=True), strict=True)
        }

    def go_on(self, arrays: Arrays, stride: int, due: int) -> None:
        """Be where that was kept."""
        self.stride, self.due = stride, due
        columns = [arrays[f"course.{name}"] for name in _COLUMNS]
        self.points = [
            (int(t), float(gain), *rows, bool(mode)) for t, gain, *rows, mode in zip(*columns, strict=True)
        ]


def _fingerprint(agent: OnlineAgent, system: System, seed: Seed) -> str:
    """What a run begins with: another agent, world or seed cannot go on from its checkpoint."""
    sha = hashlib.sha256(repr(root_seed(seed)).encode())
    sha.update(str(system.facts()).encode())
    for name, array in sorted(agent_file.to_arrays(agent).items()):
        sha.update(name.encode() + array.tobytes())
    return sha.hexdigest()


def _save(path: str, mark: str, agent: OnlineAgent, system: System, course: _Course) -> None:
    facts = {"mark": mark, "system": system.facts(), "stride": course.stride, "due": course.due}
    arrays = {f"agent.{name}": array for name, array in agent_file.to_arrays(agent).items()}
    arrays |= {f"system.{name}": array for name, array in system.arrays().items()}
    arrays |= {f"course.{name}": column for name, column in course.columns().items()}
    arrays["run"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def _go_on(path: str, mark: str, agent: OnlineAgent, system: System, course: _Course) -> None:
    with naming(path), reading(path) as file:
        arrays = agent_file.read_arrays(file)
        if "run" not in arrays:
            raise FormatError("this is not a checkpoint of run_online")
        facts = json.loads(arrays["run"].tobytes())
        if facts["mark"] != mark:
            refuse(
                "this checkpoint is of another run",
                "its agent, its world or its seed was another one at the beginning",
                "begin as that run did, or name another file",
            )
        agent.become(agent_file.from_arrays(agent_file.under("agent.", arrays)))
        system.go_on(facts["system"], agent_file.under("system.", arrays))
        course.go_on(arrays, facts["stride"], facts["due"])


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C end a run between two steps, where nothing is half done."""
    asked: list[int] = []
    if current_thread() is not main_thread():
        yield lambda: False
        return
    usual = getsignal(SIGINT)
    signal(SIGINT, lambda number, _: asked.append(number))
    try:
        yield lambda: bool(asked)
    finally:
        signal(SIGINT, usual)
