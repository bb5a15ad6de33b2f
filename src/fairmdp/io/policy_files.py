"""Policies as files: read from any that holds one, and written as strategies of PRISM and of Storm.

Storm writes a list with the choices of each state, PRISM a line for every state::

    [{"s": {"state": "ward_b"}, "c": [{"index": 2, "labels": ["keep"], "prob": 1.0}]}]
    (ward_b)=0.25:share+0.75:keep

What stands in either for a state is its name, or its number where the model has no names. Storm says
``action-label`` under ``origin``, or ``labels``; else ``index`` is the number of the pair in the model.

Neither format can draw a policy when a run begins, so a mixture is written as a file for each policy,
``policy.1.txt``, ``policy.2.txt``, ...
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np

from fairmdp.errors import FormatError, ProblemError
from fairmdp.files import naming, read_bytes, write_together
from fairmdp.model.checks import Floats
from fairmdp.model.columns import SPREADSHEETS
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.policy.policy import Policy
from fairmdp.solution.file import MAX_BYTES, parsed
from fairmdp.solution.solution import Solution

_SHARE = re.compile(r"(?:^|\+)([0-9.eE+-]+):")  # what begins a part of PRISM's mix
_NO_POLICIES = (".toml", ".npz", ".drn", ".umb", ".parquet", ".html", *SPREADSHEETS)


def read_policy(problem: Problem, path: str | PathLike[str]) -> Policy:
    """Read a policy for a problem, in whatever format it was kept.

    Parameters
    ----------
    problem
        Whose states and actions the file names; what it does not name is named in the error.
    path
        A ``.csv`` or ``.json`` that ``Policy.save`` or a spreadsheet wrote, the file of a solution or of what
        was learned, a scheduler of Storm (``.json``), or a strategy of PRISM.
    """
    path = os.fsdecode(path)
    ending = os.path.splitext(path)[1].lower()
    with naming(path):
        if ending == ".csv":
            given: Any = Policy.load(path)
        elif ending == ".json":
            given = _of_json(problem.mdp, path)
        elif ending in _NO_POLICIES:
            raise FormatError(
                f"a file {ending} holds no policy\n  give a .csv, a .json or a strategy of PRISM"
            )
        else:
            given = _of_prism(problem.mdp, _text(path))
        return Policy.of(problem, given)


def read_kept(problem: Problem, path: str | PathLike[str]) -> Solution | Policy:
    """Read a solution that has a policy for a problem, or a policy from any other file that holds one."""
    path = os.fsdecode(path)
    if os.path.splitext(path)[1].lower() == ".json":
        with naming(path):
            raw = parsed(read_bytes(path, MAX_BYTES))
            kept = raw.get("policy") if isinstance(raw, dict) else None
            if isinstance(raw, dict) and raw.get("status") == "infeasible":
                raise ProblemError("the quotas were found infeasible, there is no policy to run")
            if isinstance(kept, list) and len(kept) != problem.mdp.n_pairs:
                pairs = f"{len(kept)} state-action pairs, the model has {problem.mdp.n_pairs}"
                raise ProblemError(
                    f"its policy is over {pairs}\n  name the problem as you did when it was solved"
                )
        if isinstance(raw, dict) and "fairmdp_solution" in raw:
            solution = Solution.load(path)
            if solution.has_policy:
                return solution
    return read_policy(problem, path)


def _of_json(mdp: MDP, path: str) -> Any:
    raw = parsed(read_bytes(path, MAX_BYTES))
    if isinstance(raw, list):
        return _of_storm(mdp, raw)
    if isinstance(raw, dict) and "fairmdp_solution" in raw:
        solution = Solution.load(path)
        if not solution.has_policy:
            raise ProblemError(f"there is no policy in it: {solution.status.meaning}")
        return solution if solution.labels is None else Policy.of(solution.labels, solution)
    if isinstance(raw, dict) and isinstance(raw.get("policy"), list):
        return raw["policy"]  # what learn has kept
    return Policy.load(path)


def _of_storm(mdp: MDP, rows: list[Any]) -> dict[int, dict[int, float]]:
    policy: dict[int, dict[int, float]] = {}
    for k, row in enumerate(rows):
        try:
            s, choices = _state(mdp, row["s"]), row["c"]
            pairs = [_storm_pair(mdp, s, choice) for choice in choices]
            first = int(mdp.pair_ptr[s])
            policy[s] = {i - first: c["prob"] for i, c in zip(pairs, choices, strict=True)}
        except (KeyError, TypeError, IndexError):
            raise FormatError(
                f"[{k}]: expected a state and its choices, as in Storm's schedulers: "
                '{"s": ..., "c": [{"labels": [...], "prob": ...}]}'
            ) from None
    return policy


def _state(mdp: MDP, said: Any) -> int:
    """Number of a state that Storm names by its number or by the values of its variables."""
    if not isinstance(said, dict):
        return mdp.state_index(said)
    name = ",".join(map(str, said.values()))
    if name not in mdp.state_numbers and said and said.keys() <= mdp.variables.keys():
        found = np.flatnonzero(np.all([mdp.variables[key] == value for key, value in said.items()], axis=0))
        if found.size == 1:
            return int(found[0])
    return mdp.state_index(name)


def _storm_pair(mdp: MDP, s: int, choice: dict[str, Any]) -> int:
    label = (choice.get("origin") or {}).get("action-label") or next(iter(choice.get("labels") or ()), None)
    if label is not None:
        return mdp.pair_index(s, str(label))
    first, stop = int(mdp.pair_ptr[s]), int(mdp.pair_ptr[s + 1])
    if not first <= choice["index"] < stop:
        raise ProblemError(
            f"choice {choice['index']} is none of state {mdp.state_name(s)}, expected {first} to {stop - 1}"
        )
    return int(choice["index"])


def _of_prism(mdp: MDP, text: str) -> dict[int, dict[str, float]]:
    policy: dict[int, dict[str, float]] = {}
    for k, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        state, mix = _line(mdp, line.strip())
        if not mix:
            raise FormatError(f"line {k}: expected STATE=ACTION, as PRISM's strategies have it")
        s = mdp.state_index(state)
        if s in policy:
            raise FormatError(f"line {k}: state {mdp.state_name(s)} is there twice")
        parts = _SHARE.split(mix)
        names, shares = (parts[2::2], parts[1::2]) if not parts[0] and len(parts) > 1 else ([mix], ["1"])
        policy[s] = {name: float(share) for name, share in zip(names, shares, strict=True)}
    return policy


def _line(mdp: MDP, line: str) -> tuple[str, str]:
    """State and choice of a line; in parentheses a state may have the sign = in its name."""
    if not line.startswith("("):
        state, _, mix = line.partition("=")
        return state, mix
    ends = [found.start() for found in re.finditer(r"\)=", line)] or [len(line)]
    end = next((end for end in ends if line[1:end] in mdp.state_numbers), ends[0])
    return line[1:end], line[end + 2 :]


def _text(path: str) -> str:
    try:
        return read_bytes(path, MAX_BYTES).decode()
    except UnicodeDecodeError:
        raise FormatError("it is not UTF-8 text") from None


def save_strategy(problem: Problem, solution: Solution, path: str | PathLike[str]) -> tuple[str, ...]:
    """Write the policy of a solution for PRISM, or for Storm where the name ends in ``.json``, atomically.

    Returns
    -------
    tuple of str
        What was written: `path`, or of a mixture a file for each of its policies, with its number before
        the ending.

    Raises
    ------
    ProblemError
        The solution has no policy, or belongs to another model.
    FormatError
        The file cannot be written.
    """
    path = os.fsdecode(path)
    if not solution.has_policy:
        raise ProblemError(f"there is no policy to write: {solution.status.meaning}")
    if solution.policy.shape != (problem.mdp.n_pairs,):
        raise ProblemError(
            f"the solution has {solution.policy.size} state-action pairs, the problem {problem.mdp.n_pairs}"
        )
    policy = Policy.of(problem, solution)
    stem, ending = os.path.splitext(path)
    numbers = range(1, len(policy.parts) + 1) if policy.is_mixture else ()
    paths = [f"{stem}.{m}{ending}" for m in numbers] or [path]
    lines = _storm_lines if path.lower().endswith(".json") else _prism_lines
    write_together({name: lines(problem.mdp, part) for name, part in zip(paths, policy.parts, strict=True)})
    return tuple(paths)


def _prism_lines(mdp: MDP, policy: Floats) -> Iterator[str]:
    for s, pairs in _used(mdp, policy):
        state = f"({mdp.states[s]})" if mdp.states else str(s)
        mix = [f"{float(policy[i])!r}:{mdp.action_name(i)}" for i in pairs]
        yield f"{state}={mdp.action_name(pairs[0]) if len(pairs) == 1 else '+'.join(mix)}"


def _storm_lines(mdp: MDP, policy: Floats) -> Iterator[str]:
    yield "["
    for s, pairs in _used(mdp, policy):
        state: Any = {"state": mdp.states[s]} if mdp.states else s
        choices = [{"index": i, "labels": [mdp.action_name(i)], "prob": float(policy[i])} for i in pairs]
        yield json.dumps({"s": state, "c": choices}) + ("," if s + 1 < mdp.n_states else "")
    yield "]"


def _used(mdp: MDP, policy: Floats) -> Iterator[tuple[int, list[int]]]:
    """States, and the pairs of each that the policy uses."""
    used = np.flatnonzero(policy > 0)
    ends = np.searchsorted(used, mdp.pair_ptr)
    for s in range(mdp.n_states):
        yield s, used[ends[s] : ends[s + 1]].tolist()
