"""Problems as tables of transitions, ``.csv``, ``.tsv`` and ``.parquet``, which are read and not written.

A column ``group`` beside the states makes a quota of each group that asks for nothing yet, as labels do in
files of PRISM and Storm.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairmdp.model import groups_of_states, mdp_of, table_of
from fairmdp.model.problem import Problem


def read(path: str, reward: str | None = None, columns: Mapping[str, str] | None = None) -> Problem:
    """Read a problem; the message of an error begins with the line."""
    table = table_of(path)
    named = dict(columns or {}) | ({} if reward is None else {"reward": reward})
    return Problem(mdp_of(table, named, None), groups_of_states(table))
