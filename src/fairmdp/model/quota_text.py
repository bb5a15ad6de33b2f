"""Bounds as people write them, ``home>=0.25``, and as model checkers do, ``LRA>=0.25 ["home"]``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, there_are
from fairmdp.model.expression import states_where
from fairmdp.model.problem import Problem
from fairmdp.model.queries import why_unread
from fairmdp.model.quota import Quota

EVERY_RUN = "every run:"
"""What stands before a model checker's words where they are not to bound the mean over runs."""

_BOUND = r"(?P<side>>=|<=|>|<|=)\s*(?P<value>[^<>=\s\[]+)"
_OURS = re.compile(r"(?P<what>.+?)\s*(?P<side>>=|<=)\s*(?P<value>[^<>=\s]+)")
_SHARE = re.compile(rf"(?:LRA|S)\s*{_BOUND}\s*\[(?P<what>.*)\]", re.ASCII)
_MEAN = re.compile(rf'R\s*(?:\{{\s*"(?P<what>[^"]+)"\s*\}})?\s*{_BOUND}\s*\[\s*(?:LRA|S)\s*\]', re.ASCII)
_SIGNS = str.maketrans({"\N{GREATER-THAN OR EQUAL TO}": ">=", "\N{LESS-THAN OR EQUAL TO}": "<="})
_OTHER_SIGN = re.compile(r"(?P<what>[^<>=]+?)\s*(?P<sign>=>|=<|==|=|>|<)\s*(?P<value>[^<>=\s]+)")
_SEVERAL = re.compile(r'(?P<one>[^"]+?[<>]=[^",;]+)[,;]\s*(?P<other>[^"]+?[<>]=[^"]+)')
_QUOTED = re.compile(r'\s*"([^"]+)"\s*')
_FORMULA = re.compile(r'["&|!<>=()]')
_ALWAYS_KNOWN = ("true", "false", "init")  # words for sets of states in every model


class Bound(NamedTuple):
    """A bound in words."""

    name: str
    side: str  # at_least or at_most
    value: float
    of_reward: bool = False  # on the mean of a reward, and not on a share
    expected: bool | None = None  # on the mean over runs, as model checkers mean it; None if not said


def parse_quota(problem: Problem, text: str) -> Quota:
    """Read a bound on a quota, label, state, state/action or reward of a problem, or on a formula of these.

    Parameters
    ----------
    problem
        Where the name is looked up: among the quotas, to which the labels of PRISM and Storm files belong,
        then among the states, then as ``state/action``, then among the `MDP.rewards`.
    text
        ``name>=0.25``, ``name<=10%``, or as in Storm and MultiGain ``LRA>=0.25 ["name"]``,
        ``S<=0.1 ["name"]``, ``R{"energy"}<=1.5 [LRA]``, which bound means over runs (``expected=True``)
        unless ``every run:`` stands before them.
        In place of a name a formula will do, of labels, and of variables where states have them:
        ``LRA>=0.25 ["home" & !(x>=2 | "odd")]``.

    Returns
    -------
    Quota
        For `Problem.with_quotas`. The other bound of a quota of that name is kept.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> problem = scenarios.three_state()
    >>> parse_quota(problem, 'LRA>=0.25 ["s2"]')
    Quota('s2', at_least=0.25, expected=True)
    >>> parse_quota(problem, 'LRA>=0.5 [!"s2"]')
    Quota('!s2', at_least=0.5, expected=True)
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
    if isinstance(texts, str):
        raise ProblemError(f"quotas is the single text {texts!r}, expected a list of them")
    found = {quota.name: quota for quota in added}
    numbers = {name: k for k, name in enumerate(problem.names)}
    for text in texts:
        try:
            bound = split_quota(text)
        except ProblemError as error:
            raise ProblemError(f"quota {error}") from None
        side: dict[str, Any] = {bound.side: bound.value}
        side |= {} if bound.expected is None else {"expected": bound.expected}
        name = _name_of_reward(problem, bound.name) if bound.of_reward else bound.name
        known = found.get(name) or (problem.quotas[numbers[name]] if name in numbers else None)
        if known is not None:
            found[name] = replace(known, **side)
        elif bound.of_reward:
            found[name] = _on_reward(problem, name, bound.name, side)
        else:
            found[name] = _new_quota(problem, found, name, side)
    return list(found.values())


def reward_of(problem: Problem, k: int) -> str | None:
    """Name of the reward whose mean quota `k` bounds, if it is one; "" for what the policy is to earn."""
    if not problem.weighted[k]:
        return None
    row = problem.weights[[k]].toarray()[0]
    mdp = problem.mdp
    named = (name for name in mdp.reward_names if np.array_equal(row, mdp.rate_of(name)))
    return next(named, "" if np.array_equal(row, mdp.rates) else None)


def with_named(problem: Problem, *names: str) -> Problem:
    """Return the same problem with quotas of these names that ask for nothing, where there are none yet.

    Names are looked up as by `parse_quota`: a state or a ``state/action`` will do.
    """
    unknown = [f"{name}>=0" for name in dict.fromkeys(names) if name not in problem.names]
    return problem.with_quotas(parse_quotas(problem, unknown)) if unknown else problem


def _name_of_reward(problem: Problem, reward: str) -> str:
    """Name of a quota on a reward: the reward's own, unless something else is called so."""
    if reward in problem.names:
        taken = reward_of(problem, problem.quota_index(reward)) != reward
    else:
        taken = reward in problem.mdp.state_numbers
    return f'R{{"{reward}"}}' if taken else reward or "R"


def _on_reward(problem: Problem, name: str, reward: str, side: dict[str, Any]) -> Quota:
    return Quota(name, reward=reward, **side) if reward else Quota(name, weights=problem.mdp.rates, **side)


def _new_quota(problem: Problem, added: Collection[str], name: str, side: dict[str, Any]) -> Quota:
    """Bound on a state, a pair, a reward or a formula."""
    mdp = problem.mdp
    state, slash, action = name.rpartition("/")
    if slash and name not in mdp.state_numbers and '"' not in name:
        return Quota(name, pairs=[mdp.pair_index(state, action)], **side)
    if name in mdp.reward_names and name not in mdp.state_numbers:
        return Quota(name, reward=name, **side)
    try:
        return Quota(name, states=np.array([mdp.state_index(name)]), **side)
    except ProblemError:
        if _is_formula(problem, name):
            return _on_formula(problem, name, side)
        quotas = [*(other for other in problem.names if other not in added), *added]
        known = there_are(list(dict.fromkeys([*quotas, *(mdp.states or ()), *mdp.reward_names])), name)
        if mdp.states is None:
            known += f"; states are called 0 to {mdp.n_states - 1}"
        raise ProblemError(f"there is no quota or state called {name!r}{known}") from None


def states_matching(problem: Problem, text: str) -> Bools:
    """Mask of the states that a formula chooses or whose names have a text in them, (S,); none may.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> problem = scenarios.three_state()
    >>> states_matching(problem, "S2"), states_matching(problem, '!"s2"')
    (array([False, False,  True]), array([ True,  True, False]))
    """
    mdp, text = problem.mdp, text.strip()
    wanted, refusal = text.casefold(), None
    if _is_formula(problem, text) or text in problem.names:
        try:
            return _satisfying(problem, text)
        except ProblemError as error:
            refusal = error
    names = (mdp.state_name(s).casefold() for s in range(mdp.n_states))
    found = np.fromiter((wanted in name for name in names), bool, mdp.n_states)
    if refusal is not None and not found.any():
        raise refusal
    return found


def _on_formula(problem: Problem, text: str, side: dict[str, Any]) -> Quota:
    """Bound on the states that satisfy a formula, called like it, without its quotes."""
    mask = _satisfying(problem, text)
    if not mask.any():
        raise ProblemError(f"no state satisfies {text!r}")
    return Quota(" ".join(text.replace('"', "").split()), states=mask, **side)


def _is_formula(problem: Problem, text: str) -> bool:
    return bool(_FORMULA.search(text)) or text in problem.mdp.variables or text in _ALWAYS_KNOWN


def _satisfying(problem: Problem, text: str) -> Bools:
    """Mask of the states that satisfy a formula, (S,)."""
    mdp = problem.mdp

    def label(name: str) -> Bools | None:
        if name in problem.names:
            states = problem.quotas[problem.quota_index(name)].states
            return None if states is None else np.isin(np.arange(mdp.n_states), np.asarray(states))
        try:
            return np.arange(mdp.n_states) == mdp.state_index(name)
        except ProblemError:
            return mdp.initial > 0 if name == "init" and mdp.initial is not None else None

    return states_where(text, mdp.n_states, mdp.variables, label)


def split_quota(text: str) -> Bound:
    """Read a bound, without looking at what is bounded."""
    if not isinstance(text, str):
        raise ProblemError(f"{text!r}: expected text such as 'ward_b>=0.25'")
    said = text.translate(_SIGNS).strip()
    in_every_run = said.casefold().startswith(EVERY_RUN)
    said = re.sub(r"\s+%", "%", said[len(EVERY_RUN) :].strip() if in_every_run else said)
    mean = _MEAN.fullmatch(said)
    theirs = mean or _SHARE.fullmatch(said)
    match = theirs or _OURS.fullmatch(said)
    if match is None or match["side"] not in (">=", "<="):
        if (why := why_unread(said)) is not None:
            raise ProblemError(f"{text!r} {why}")
        raise ProblemError(
            f"{text!r}: expected NAME>=SHARE or NAME<=SHARE, such as 'ward_b>=0.25', "
            f'LRA>=SHARE ["NAME"] or R{{"NAME"}}>=MEAN [LRA]{_meant(said)}'
        )
    if (several := _SEVERAL.fullmatch(said)) is not None:
        raise ProblemError(
            f"{text!r}: expected one bound, there are several\n"
            f"  state each by itself: {several['one']!r}, {several['other']!r}"
        )
    value = match["value"]
    try:
        number = _number(value.removesuffix("%"))
    except ValueError:
        if theirs is None and (why := why_unread(said)) is not None:
            raise ProblemError(f"{text!r} {why}") from None
        advice = f"; write {value.replace(',', '.')}" if value.count(",") == 1 else ""
        raise ProblemError(f"{text!r}: {value!r} is not a number{advice}") from None
    side = "at_least" if match["side"] == ">=" else "at_most"
    quoted = _QUOTED.fullmatch(what := match["what"] or "")
    name = quoted[1] if quoted else what.strip()
    if theirs and not mean and not name:
        raise ProblemError(f"{text!r}: no states are named between [ and ]")
    share = number / 100 if value.endswith("%") else number
    expected = not in_every_run if theirs or in_every_run else None
    return Bound(name, side, share, mean is not None, expected)


def _number(text: str) -> float:
    """A number, or the quotient of two."""
    number, _, divisor = text.partition("/")
    if not divisor:
        return float(text)
    if not float(divisor):
        raise ValueError("nothing is divided by 0")
    return float(number) / float(divisor)


def _meant(said: str) -> str:
    """What somebody may have meant who wrote another sign, ``; did you mean 'home>=0.25'?``."""
    other = _OTHER_SIGN.fullmatch(said)
    if other is None or "[" in said:
        return ""
    side = "<=" if "<" in other["sign"] else ">="
    return f"; did you mean {other['what'] + side + other['value']!r}?"
