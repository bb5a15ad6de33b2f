"""Problems and worlds as files: TOML, written by people, npz, for large ones, tables, model checkers' own.

The ending of the file's name picks the format. What is wrong with the form of a file is a `FormatError`,
what is wrong with the model in it a `ProblemError`; both begin with the path. A world and a problem are told
apart by the version of their format: ``fairmdp`` or ``fairmdp_world``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from types import ModuleType

from fairmdp import io
from fairmdp.errors import FormatError, ProblemError
from fairmdp.files import naming
from fairmdp.model.columns import SPREADSHEETS
from fairmdp.model.problem import Problem
from fairmdp.npz import member_in
from fairmdp.world.world import World

# Modules of this package, each loaded when a file of its kind is met.
_FORMATS = {
    ".toml": "toml_problem", ".npz": "npz_problem", ".tra": "prism_explicit", ".drn": "drn", ".umb": "umb",
    ".csv": "table_file", ".tsv": "table_file", ".parquet": "table_file",
    ".prism": "storm_language", ".nm": "storm_language", ".pm": "storm_language", ".sm": "storm_language",
    ".jani": "storm_language",
}  # fmt: skip


_WORLD_FORMATS = {".toml": "toml_world", ".npz": "npz_world"}
_WRITTEN = {ending: _FORMATS[ending] for ending in (".toml", ".npz", ".tra", ".drn")}
_CHOOSING = (".tra", ".drn", ".umb")
TABLES = (".csv", ".tsv", ".parquet")
LANGUAGES = (".prism", ".nm", ".pm", ".sm", ".jani")

_READ_ONLY = {
    **dict.fromkeys(TABLES, "tables of transitions are read, and not written\n  save as .toml or .npz"),
    **dict.fromkeys(LANGUAGES, "models in a language are read, and not written\n  save as .drn or .tra"),
    ".umb": "UMB files are read, and not written\n  save as .drn, which Storm turns into UMB",
}


def load(
    path: str | PathLike[str],
    *,
    reward: str | None = None,
    columns: Mapping[str, str] | None = None,
    constants: Mapping[str, object] | None = None,
) -> Problem:
    """Read a problem: ``.toml``, ``.npz``, a table, or what model checkers write and read.

    Explicit models are ``.tra`` (PRISM), ``.drn`` (Storm) and ``.umb`` (both). With ``model.tra`` come
    ``model.lab``, ``.srew``, ``.trew`` and ``.sta``, where they lie beside it. Labels become quotas that ask
    for nothing yet; put a bound on one with `parse_quota` or `Problem.with_bounds`. Models in the languages
    of PRISM (``.prism``, ``.nm``, ``.pm``, ``.sm``) and JANI (``.jani``) are built by Storm, if stormpy is
    installed. Tables of transitions, ``.csv``, ``.tsv`` or ``.parquet``, are read as by `MDP.from_table`; a
    column ``group`` says which states make a quota that asks for nothing yet.

    Parameters
    ----------
    path
        The file.
    reward
        Name of the reward that a policy is to earn, for models that have several. All are kept.
    columns
        Which column of a table is what, as in `MDP.from_table`.
    constants
        Values of constants that a model in a language leaves open, ``{"N": 3, "p": 0.9}``.

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
        if is_world(path):
            raise FormatError("this file holds a world\n  read it by load_world")
        if columns is not None and ending not in TABLES:
            raise FormatError("this is not a table, it has no columns")
        if constants is not None and ending not in LANGUAGES:
            raise FormatError("this is not a model in a language, it has no constants")
        if ending in TABLES:
            return form.read(path, reward, columns)
        if ending in LANGUAGES:
            return form.read(path, reward, constants)
        if ending in _CHOOSING:
            return form.read(path, reward)
        problem: Problem = form.read(path)
        if reward is not None and not problem.mdp.reward_names:
            raise FormatError("this file holds one reward, there is nothing to choose")
        return problem if reward is None else problem.with_reward(reward)


def load_world(path: str | PathLike[str]) -> World:
    """Read a world from a ``.toml`` or ``.npz`` file.

    Raises
    ------
    FormatError
        The file cannot be read, or not as what its ending says; the message names the place in it.
    ProblemError
        The file is well formed, but the world in it does not make sense.
    """
    path = os.fsdecode(path)
    with naming(path):
        world: World = _format_of(path, _WORLD_FORMATS, "worlds").read(path)
        return world


def is_world(path: str | PathLike[str]) -> bool:
    """Whether a file says of itself that it holds a world; one that cannot be read does not."""
    path = os.fsdecode(path)
    ending = os.path.splitext(path)[1].lower()
    try:
        if ending == ".npz":
            return member_in(path, (io.npz_world.VERSION_MEMBER, "fairmdp")) == io.npz_world.VERSION_MEMBER
        return ending == ".toml" and io.toml_text.holds_world(path)
    except FormatError:
        return False


def save(problem: Problem | World, path: str | PathLike[str]) -> None:
    """Write a problem as a ``.toml``, ``.npz``, ``.tra`` or ``.drn`` file, atomically.

    A world is written as one of the first two.

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
    if not isinstance(problem, Problem | World):
        raise ProblemError(f"problem is a {type(problem).__name__}, expected a fairmdp.Problem or World")
    path = os.fsdecode(path)
    with naming(path):
        if isinstance(problem, Problem):
            _format_of(path, _WRITTEN).write(problem, path)
        else:
            _format_of(path, _WORLD_FORMATS, "worlds").write(problem, path)


def _format_of(path: str, formats: Mapping[str, str] = _FORMATS, called: str = "problems") -> ModuleType:
    """Module of the format that a name's ending says; a message offers those that will do."""
    ending = os.path.splitext(path)[1].lower()
    if formats is _WRITTEN and ending in _READ_ONLY:
        raise FormatError(_READ_ONLY[ending])
    if ending not in formats:
        what = f"the ending {ending!r} is not a format of {called}" if ending else "the name has no ending"
        advice = ""
        if ending in SPREADSHEETS:
            advice = "\n  save the sheet as CSV (UTF-8)"
        elif not ending and formats is not _WRITTEN:
            advice = "\n  ready-made ones are functions of fairmdp.scenarios"
        raise FormatError(f"{what}, expected {' or '.join(formats)}{advice}")
    form: ModuleType = getattr(io, formats[ending])
    return form
