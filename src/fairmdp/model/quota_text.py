"""Bounds as people write them, ``home>=0.25``, and as model checkers do, ``LRA>=0.25 ["home"]``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from fairmdp.errors import ProblemError
from fairmdp.model.checks import there_are
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota

_OURS = re.compile(r"(?P<name>.+?)\s*(?P<side>>=|<=)\s*(?P<share>[^<>=\s]+)")
_THEIRS = re.compile(
    r'(?:LRA|S)\s*(?P<side>>=|<=|>|<|=)\s*(?P<share>[^<>=\s\[]+)\s*\[\s*"(?P<name>[^"]+)"\s*\]', re.ASCII
)


def parse_quota(problem: Problem, text: str) -> Quota:
    """Read a bound on a quota, label, state or state/action of a problem.

    Parameters
    ----------
    problem
        Where the name is looked up: among the quotas, to which the labels of PRISM and Storm files belong,
        then among the states, then as ``state/action``.
    text
        ``name>=0.25``, ``name<=10%``, or as in Storm and MultiGain ``LRA>=0.25 ["name"]``,
        ``S<=0.1 ["name"]``.

    Returns
    -------
    Quota
        For `Problem.with_quotas`. The other bound of a quota of that name is kept.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> problem = scenarios.three_state()
    >>> parse_quota(problem, 'LRA>=0.25 ["s2"]')
    Quota('s2', at_least=0.25)
    """
    return parse_quotas(problem, [text])[0]


def parse_quotas(problem: Problem, texts: Iterable[str], added: Iterable[Quota] = ()) -> list[Quota]:
    """Read bounds one after the other, so that a later one may be on a quota that an earlier one named.

    Returns
    -------
    list of Quota
        The ``added`` quotas and those that the texts name, for `Problem.with_quotas`: in the order in which
        they would stand if each text were applied by itself, but the problem is built once.
    """
    found = {quota.name: quota for quota in added}
    numbers = {name: k for k, name in enumerate(problem.names)}
    for text in texts:
        try:
            name, side, share = split_quota(text)
        except ProblemError as error:
            raise ProblemError(f"quota {error}") from None
        bounds: dict[str, Any] = {side: share}
        known = found.pop(name, None) or (problem.quotas[numbers[name]] if name in numbers else None)
        found[name] = replace(known, **bounds) if known else _new_quota(problem, found, name, bounds)
    return list(found.values())


def with_named(problem: Problem, *names: str) -> Problem:
    """Return the same problem with quotas of these names that ask for nothing, where there are none yet.

    Names are looked up as by `parse_quota`: a state or a ``state/action`` will do.
    """
    unknown = [f"{name}>=0" for name in dict.fromkeys(names) if name not in problem.names]
    return problem.with_quotas(parse_quotas(problem, unknown)) if unknown else problem


def _new_quota(problem: Problem, added: Collection[str], name: str, bounds: dict[str, Any]) -> Quota:
    """Bound on a state or a pair."""
    mdp = problem.mdp
    state, slash, action = name.rpartition("/")
    if slash and name not in mdp.state_numbers:
        return Quota(name, pairs=[mdp.pair_index(state, action)], **bounds)
    try:
        return Quota(name, states=[mdp.state_index(name)], **bounds)
    except ProblemError:
        quotas = [*(other for other in problem.names if other not in added), *added]
        known = there_are(list(dict.fromkeys([*quotas, *(mdp.states or ())])))
        if mdp.states is None:
            known += f"; states are called 0 to {mdp.n_states - 1}"
        raise ProblemError(f"there is no quota or state called {name!r}{known}") from None


def split_quota(text: str) -> tuple[str, str, float]:
    """Name, ``at_least`` or ``at_most``, and share of a bound."""
    if not isinstance(text, str):
        raise ProblemError(f"{text!r}: expected text such as 'ward_b>=0.25'")
    match = _THEIRS.fullmatch(text.strip()) or _OURS.fullmatch(text.strip())
    if match is None or match["side"] not in (">=", "<="):
        raise ProblemError(
            f"{text!r}: expected NAME>=SHARE or NAME<=SHARE, such as 'ward_b>=0.25', or LRA>=SHARE [\"NAME\"]"
        )
    share = match["share"]
    try:
        number = float(share.removesuffix("%"))
    except ValueError:
        raise ProblemError(f"{text!r}: {share!r} is not a number") from None
    side = "at_least" if match["side"] == ">=" else "at_most"
    return match["name"], side, number / 100 if share.endswith("%") else number
