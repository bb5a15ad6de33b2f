"""Problems as files: TOML, written by people, npz, for large models, and those of PRISM and Storm.

The ending of the file's name picks the format. What is wrong with the form of a file is a `FormatError`,
what is wrong with the model in it a `ProblemError`; both begin with the path.
"""

from __future__ import annotations

import os
from os import PathLike
from types import ModuleType

from fairmdp import io
from fairmdp.errors import FormatError, ProblemError
from fairmdp.files import naming
from fairmdp.model.problem import Problem

# Modules of this package, each loaded when a file of its kind is met.
_FORMATS = {".toml": "toml_problem", ".npz": "npz_problem", ".tra": "prism_explicit", ".drn": "drn"}
_SEVERAL_REWARDS = (".tra", ".drn")


def load(path: str | PathLike[str], *, reward: str | None = None) -> Problem:
    """Read a problem from a ``.toml``, ``.npz``, ``.tra`` (PRISM) or ``.drn`` (Storm) file.

    With ``model.tra`` come ``model.lab``, ``.srew``, ``.trew`` and ``.sta``, where they lie beside it. Labels
    become quotas that ask for nothing yet; put a bound on one with `parse_quota` or `Problem.with_bounds`.

    Parameters
    ----------
    path
        The file.
    reward
        Name of the reward structure, for ``.tra`` and ``.drn`` models that have several.

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
        if os.path.splitext(path)[1].lower() in _SEVERAL_REWARDS:
            problem: Problem = form.read(path, reward)
        elif reward is not None:
            raise FormatError("this kind of file holds one reward, there is nothing to choose")
        else:
            problem = form.read(path)
    return problem


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
