"""A solution as one HTML file that needs nothing else: problem, policy, shares, prices, frontier, proof.

What it draws of a solution and of a frontier the page draws too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from fairmdp.certificate import verify
from fairmdp.certificate.exact import QUICK_TRANSITIONS
from fairmdp.errors import ProblemError
from fairmdp.frontiers import Frontier
from fairmdp.frontiers.drawn import best_curve
from fairmdp.frontiers.meanings import other_meaning
from fairmdp.model.problem import Problem
from fairmdp.solution.file import plain
from fairmdp.solution.solution import Solution, Status
from fairmdp.solvers.auto import solve
from fairmdp.views.briefing import Occasion, briefing
from fairmdp.views.data import Json, frontier_data, problem_data, solution_data, verdict_data
from fairmdp.views.sentences import method_text

MOST_CURVES = 3
"""Frontiers in a report of which nobody has said which quotas they are about."""

CURVE_PAIRS = 5000
"""Size up to which frontiers are drawn unasked; beyond, they may take minutes."""

MOST_ROWS = 500
"""Quotas of a report, the tightest."""

_PLAIN = Occasion()

_CURVE = (
    "quota", "bound", "unit", "exact", "concave", "values", "gains", "slopes", "worst_slacks",
    "last_feasible", "limit", "own_limit",
)  # fmt: skip

_MODULES = ("dom", "format", "plot", "figures", "graph", "sections", "report")


def report_html(
    problem: Problem,
    solution: Solution,
    name: str,
    quotas: Sequence[str] | None = None,
    occasion: Occasion = _PLAIN,
) -> str:
    """Return a report on a solution, which is verified on the way.

    Parameters
    ----------
    problem, solution
        A problem and what was found for it.
    name
        What the report calls the problem.
    quotas
        Quotas whose frontiers are drawn; by default those with the highest prices, unless the model is large.
    occasion
        Date, author and units.
    """
    verdict = verify(problem, solution, exact=problem.mdp.P.nnz <= QUICK_TRANSITIONS)
    if solution.provenance.get("problem") != problem.digest:
        raise ProblemError(f"{verdict.messages[0]}\n  name the problem as you did when it was solved")
    asked = plain(problem_data(problem, name))
    free = solve(problem.without_quotas())
    answer = solution_view(problem, solution, free, other_meaning(problem, solution))
    if problem.n_quotas > MOST_ROWS:
        tight = np.argsort(solution.slacks, kind="stable")[:MOST_ROWS]
        answer["quotas"] = [answer["quotas"][k] for k in tight]
        kept = {row["name"] for row in answer["quotas"]}
        asked["quotas"] = [quota for quota in asked["quotas"] if quota["name"] in kept]
    curves, missing = _curves(problem, solution, quotas)
    answer["notes"] += missing
    document = {
        "byline": ", ".join(filter(None, (occasion.author, occasion.date))),
        "unit": occasion.gain_unit(problem),
        "briefing": briefing(problem, solution, free, verdict, occasion),
        "problem": asked,
        "answer": answer,
        "verdict": plain(verdict_data(problem, verdict)),
        "curves": curves,
        "provenance": _provenance(solution),
    }
    return _page(document)


def solution_view(
    problem: Problem, solution: Solution, free: Solution, other: Solution | None = None
) -> Json:
    """What was found, beside the solution without quotas; what is not proved is not drawn.

    What the `other` meaning of the quotas would come to stands among the notes, or with what conflicts.
    """
    document = plain(solution_data(problem, solution, free, other))
    if document["other"] is not None:
        conflict = document["infeasible"]
        (document["notes"] if conflict is None else conflict["lines"]).append(document["other"]["text"])
    return document | {"policies": []} if solution.status is Status.UNDECIDED else document


def frontier_view(problem: Problem, curve: Frontier) -> Json:
    """The best gain against what is owed, point by point."""
    document = plain(frontier_data(curve, problem))
    return {name: document[name] for name in _CURVE}


def _curves(
    problem: Problem, solution: Solution, quotas: Sequence[str] | None
) -> tuple[list[Json], list[str]]:
    """Frontiers, and of those that nobody asked for and that are not proved a word."""
    curves, missing = [], []
    for k in _moving(problem, solution, quotas):
        name = problem.names[k]
        try:
            curves.append(frontier_view(problem, best_curve(problem, name, _bound(problem, solution, k))))
        except ProblemError as error:
            if quotas:
                raise
            why = str(error).partition("\n")[0]
            missing.append(f"what the quota {name} costs at other bounds is not drawn: {why}")
    return curves, missing


def _moving(problem: Problem, solution: Solution, quotas: Sequence[str] | None) -> list[int]:
    if quotas:
        return [problem.quota_index(quota) for quota in quotas]
    if not solution.has_policy or problem.mdp.n_pairs > CURVE_PAIRS:
        return []
    dear = np.argsort(-np.abs(solution.prices), kind="stable")[:MOST_CURVES].tolist()
    return [k for k in dear if solution.prices[k] != 0]


def _bound(problem: Problem, solution: Solution, k: int) -> str:
    """The bound of a quota that costs something, or else the one it has."""
    capped = problem.at_most[k] < 1 and (solution.prices[k] < 0 or problem.at_least[k] == 0)
    return "at_most" if capped else "at_least"


def _provenance(solution: Solution) -> Json:
    """What the solution says of where it comes from, in words."""
    seconds = solution.counters.get("seconds")
    return {
        "method": method_text(solution),
        "tolerance": f"{solution.tol:g}",
        **({} if seconds is None else {"seconds": f"{seconds:.3g}"}),
        **{key: str(value) for key, value in solution.provenance.items()},
    }


def _page(document: Json) -> str:
    style = _static("app.css")
    script = "".join(_unwrapped(_static(f"{module}.js")) for module in _MODULES)
    # Inside a script element only "<" could end it, and in JSON it stands in strings alone.
    data = json.dumps(document, allow_nan=False).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {"policy": policy, "style": style, "document": data, "script": script}
    return re.sub(r"\{(\w+)\}", lambda match: parts[match[1]], _static("report.html"))


def _unwrapped(module: str) -> str:
    """A module as a part of one script: what it imports is there already."""
    return re.sub(r"^import [^;]*;\n|^export ", "", module, flags=re.M)


def _static(name: str) -> str:
    text = files("fairmdp.web").joinpath("static", name).read_text(encoding="utf-8")
    assert "</script" not in text or name.endswith(".html"), f"{name} would end the script that holds it"
    return text


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
