"""Agents as npz: plain arrays in a zip, nothing that could run code, and the continuation to the last bit.

Members ``problem.*`` are those of a problem's file; ``facts`` is JSON: whole numbers, modes and the states of
the generators. Records that are not yet counted are kept as they are, since the order of sums matters for
rounding.
"""

from __future__ import annotations

import json
from os import PathLike, fsdecode
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from fairmdp.errors import FormatError
from fairmdp.files import naming, reading, replacing
from fairmdp.io import npz_problem
from fairmdp.online.agent import OnlineAgent, Tuning
from fairmdp.online.belief import Seen
from fairmdp.online.drift import Drift
from fairmdp.online.planning import Cushion, Plan
from fairmdp.online.start import Start

VERSION = 1

_NUMBERS = (
    "_t", "_at", "_due", "_epochs", "_epoch_began", "_restored", "_entered", "_counted", "_mode", "_earned",
    "_chosen", "_deviated", "_anchor",
)  # fmt: skip
_LISTS = {"_pairs": "<i8", "_following": "<i8", "_rewards": "<f8", "_left": "<i8", "_uniforms": "<f8"}
_ARRAYS = ("_visits", "_given", "_lowest")
_SEEN = ("counts", "paid", "squares")
_CUSHION = ("span", "variance", "slack")

Arrays = dict[str, NDArray[Any]]


def save(agent: OnlineAgent, path: str | PathLike[str]) -> None:
    """Write an agent, atomically."""
    with replacing(fsdecode(path)) as file:
        np.savez(file, allow_pickle=False, **to_arrays(agent))


def load(path: str | PathLike[str]) -> OnlineAgent:
    """Read an agent that `save` wrote."""
    with naming(path), reading(path) as file:
        return from_arrays(read_arrays(file))


def read_arrays(file: BinaryIO) -> Arrays:
    """Members of a file."""
    try:
        with np.load(file, allow_pickle=False) as members:
            return dict(members)
    except (ValueError, TypeError, AttributeError, OSError, EOFError, BadZipFile) as error:
        raise FormatError(f"this is not the file of an agent: {error}") from None


def to_arrays(agent: OnlineAgent) -> Arrays:
    """Everything that the continuation depends on."""
    start, belief = agent._start, agent._belief
    facts: dict[str, Any] = {
        "version": VERSION,
        "delta": agent._delta,
        "tuning": {"part": agent._tuning.part, "epoch": agent._tuning.epoch},
        "reward_range": belief.reward_range,
        "rewards_seen": belief.rewards_seen,
        "generators": [rng.bit_generator.state for rng in (agent._acting, agent._thinking)],
        "start": None if start is None else {"slack": start.slack, "said": start.said},
        "plans": {mode: plan.room for mode, plan in agent._plans.items()},
        "cycles": [agent._cycles.n, agent._cycles.begun],
        "looks": agent._watch.looks,
        "drifts": agent._drifts,
        **{name: getattr(agent, name) for name in _NUMBERS},
    }
    arrays = {f"problem.{name}": array for name, array in npz_problem.to_arrays(agent._owed).items()}
    arrays |= {name: np.array(getattr(agent, name), kind) for name, kind in _LISTS.items()}
    arrays |= {name: getattr(agent, name) for name in _ARRAYS}
    for what, seen in (("now", belief.now), ("before", agent._watch.before)):
        arrays |= {f"{what}.{name}": getattr(seen, name) for name in _SEEN}
    arrays |= {f"plan.{mode}": plan.policy for mode, plan in agent._plans.items()}
    arrays |= {f"basis.{kind}": basis for kind, basis in agent._planner.bases.items()}
    arrays |= {"policy": agent._policy, "cycle.sums": agent._cycles.sums, "cycle.part": agent._cycles.part}
    arrays |= {f"cushion.{name}": getattr(agent._cushion, name) for name in _CUSHION}
    if start is not None:
        arrays["start"] = start.policy
    arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    return arrays


def from_arrays(arrays: Arrays) -> OnlineAgent:
    """Agent that goes on where `to_arrays` left it."""
    try:
        facts = json.loads(arrays["facts"].tobytes())
        if facts["version"] != VERSION:
            raise FormatError(f"an agent of version {facts['version']}, expected {VERSION}")
        return _agent(arrays, facts)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FormatError(f"this is not the file of an agent: {error!r}") from None


def _agent(arrays: Arrays, facts: dict[str, Any]) -> OnlineAgent:
    owed = npz_problem.from_arrays(under("problem.", arrays))
    start = None if facts["start"] is None else Start(arrays["start"], **facts["start"])
    stated, seen = facts["reward_range"], facts["rewards_seen"]
    agent = object.__new__(OnlineAgent)
    agent._set_up(
        owed,
        None if stated is None else (stated[0], stated[1]),
        facts["delta"],
        Tuning(**facts["tuning"]),
        start,
    )
    agent._belief.rewards_seen = seen[0], seen[1]
    for name in _NUMBERS:
        setattr(agent, name, facts[name])
    for name in _LISTS:
        setattr(agent, name, arrays[name].tolist())
    for name in _ARRAYS:
        setattr(agent, name, arrays[name])
    now, before = (Seen(*(arrays[f"{what}.{name}"] for name in _SEEN)) for what in ("now", "before"))
    agent._belief.now, agent._watch.before, agent._watch.looks = now, before, facts["looks"]
    agent._drifts = tuple(Drift(*drift) for drift in facts["drifts"])
    agent._acting, agent._thinking = (_generator(state) for state in facts["generators"])
    agent._planner.bases = under("basis.", arrays)
    agent._plans = {mode: Plan(arrays[f"plan.{mode}"], room) for mode, room in facts["plans"].items()}
    agent._cushion = Cushion(**{name: arrays[f"cushion.{name}"] for name in _CUSHION}, delta=facts["delta"])
    agent._follow(arrays["policy"])
    agent._cycles = agent._no_cycles()
    agent._cycles.n, agent._cycles.begun = facts["cycles"]
    agent._cycles.sums, agent._cycles.part = arrays["cycle.sums"], arrays["cycle.part"]
    return agent


def under(prefix: str, arrays: Arrays) -> Arrays:
    """Members whose names begin so, without that."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _generator(state: dict[str, Any]) -> np.random.Generator:
    rng = np.random.Generator(np.random.PCG64())
    rng.bit_generator.state = state
    return rng
