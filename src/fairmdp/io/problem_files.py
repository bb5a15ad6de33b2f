"""Problems as files: TOML, written by people, npz, for large models, and those of PRISM and Storm.

The ending of the file's name picks the format. What is wrong with the form of a file is a `FormatError`,
what is wrong with the model in it a `ProblemError`; both begin with the path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from types import ModuleType

from fairmdp import io
from fairmdp.errors import FormatError, ProblemError
from fairmdp.files import naming
from fairmdp.model.problem import Problem

# Modules of this package, each loaded when a file of its kind is met.
_FORMATS = {
    ".toml": "toml_problem", ".npz": "npz_problem", ".tra": "prism_explicit", ".drn": "drn",
    ".csv": "table_file", ".tsv": "table_file", ".parquet": "table_file",
}  # fmt: skip


_CHOOSING = (".tra", ".drn")
TABLES = (".csv", ".tsv", ".parquet")


def load(
    path: str | PathLike[str], *, reward: str | None = None, columns: Mapping[str, str] | None = None
) -> Problem:
    """Read a problem from a ``.toml``, ``.npz``, ``.tra`` (PRISM) or ``.drn`` (Storm) file, or from a table.

    With ``model.tra`` come ``model.lab``, ``.srew``, ``.trew`` and ``.sta``, where they lie beside it. Labels
    become quotas that ask for nothing yet; put a bound on one with `parse_quota` or `Problem.with_bounds`.
    Tables of transitions, ``.csv``, ``.tsv`` or ``.parquet``, are read as by `MDP.from_table`; a column
    ``group`` says which states make a quota that asks for nothing yet.

    Parameters
    ----------
    path
        The file.
    reward
        Name of the reward that a policy is to earn, for models that have several. All are kept.
    columns
        Which column of a table is what, as in `MDP.from_table`.

    Raises
    ------
    FormatError
        The file cannot be read, or not as what its ending says; the message names the place in it.
    ProblemError
        The file is well formed, but the model or a quota in it does not make sense.
    """
    path = os.fsdecode(path)
    with naming(path):
        form = _format_of(path)
        ending = os.path.splitext(path)[1].lower()
        if ending in TABLES:
            return form.read(path, reward, columns)
        if columns is not None:
            raise FormatError("this is not a table, it has no columns")
        if ending in _CHOOSING:
            return form.read(path, reward)
        problem: Problem = form.read(path)
        if reward is not None and not problem.mdp.reward_names:
            raise FormatError("this file holds one reward, there is nothing to choose")
        return problem if reward is None else problem.with_reward(reward)


def save(problem: Problem, path: str | PathLike[str]) -> None:
    """Write a problem as a ``.toml``, ``.npz``, ``.tra`` or ``.drn`` file, atomically.

    npz keeps everything, so that `load` gives a problem with the same digest. TOML keeps every number
    exactly, but calls everything by name: a model without names comes back with the names that messages
    give it, ``0``, ``1``, ... for states and ``a0``, ``a1``, ... for the actions of each.

    ``.tra`` and ``.drn`` are for PRISM and Storm: quotas over states become labels, their bounds are kept
    beside the model in a ``.quotas`` file, which `load` reads too. ``.tra`` comes with ``.lab``, ``.trew``
    and ``.sta``; older files of the same model that would be read along with it are removed.

    Raises
    ------
    FormatError
        The ending is unknown, the format cannot say what the problem says, or the file cannot be written.
        A file that was there before is then untouched.
    """
    if not isinstance(problem, Problem):
        raise ProblemError(f"problem is a {type(problem).__name__}, expected a fairmdp.Problem")
    path = os.fsdecode(path)
    with naming(path):
        _format_of(path).write(problem, path)


def _format_of(path: str) -> ModuleType:
    ending = os.path.splitext(path)[1]
    if ending.lower() not in _FORMATS:
        raise FormatError(
            f"the ending {ending!r} is not a format of problems, expected {' or '.join(_FORMATS)}"
        )
    form: ModuleType = getattr(io, _FORMATS[ending.lower()])
    return form
