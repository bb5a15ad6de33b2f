"""A welfare as a conic program over the occupancies, for solvers that know nothing of Markov chains.

::

    maximise    w r @ x + W(u)
    subject to  flow, sum x == 1, quotas, u == M x, x >= 0

where W is a sum of epigraphs over exponential and power cones, or rows of a linear program. Variables are
scaled so that ``sum x`` is the number of states. The rows stand in the order that SCS asks for: equations,
inequalities, exponential cones, power cones; CLARABEL takes the same.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csc_array, csr_array, hstack, identity, vstack

from fairmdp.model.objectives import AlphaFair, Atkinson, Entropy, Gini, group_weights


@dataclass
class _Cones:
    """Rows ``b - A v`` that must be zero, 0 or more, or in a cone, over variables x, u and some more."""

    n: int
    cost: dict[int, float] = field(default_factory=dict)
    equal: list = field(default_factory=list)
    above: list = field(default_factory=list)
    exponential: list = field(default_factory=list)
    power: list = field(default_factory=list)
    exponents: list = field(default_factory=list)

    def variable(self, cost=0.0):
        """Add a variable that is paid so much; its number."""
        self.cost[self.n] = cost
        self.n += 1
        return self.n - 1


def conic_program(problem, objective, reward, over):
    """Cost, rows and cones of ``min cost @ v`` with ``b - A v`` in the cones; v starts with x."""
    mdp, S, SA = problem.mdp, problem.mdp.n_states, problem.mdp.n_pairs
    M = csr_array(problem.weights)[[problem.quota_index(name) for name in over]] / S
    K = M.shape[0]
    flow = (csr_array((np.ones(SA), (np.arange(SA), mdp.s_of)), shape=(SA, S)) - mdp.P).T
    top = csr_array(vstack([flow, np.ones((1, SA)), M]))
    low, high = problem.at_least, problem.at_most
    G = csr_array(problem.members)
    owed = vstack([-G[low > 0], G[high < 1], -identity(SA)])
    cones = _Cones(SA + K)
    u = list(range(SA, SA + K))
    _welfare(cones, objective, group_weights(objective, K), u)
    extra = cones.n - SA - K
    A = [
        hstack([top, vstack([csr_array((S + 1, K)), -identity(K)]), csr_array((S + 1 + K, extra))]),
        _rows(cones.equal, cones.n)[0],
        hstack([owed, csr_array((owed.shape[0], K + extra))]),
    ]
    b = [
        np.concatenate([np.zeros(S), [S], np.zeros(K)]),
        _rows(cones.equal, cones.n)[1],
        np.concatenate([-S * low[low > 0], S * high[high < 1], np.zeros(SA)]),
    ]
    for rows in (cones.above, cones.exponential, cones.power):
        coefficients, constants = _rows(rows, cones.n)
        A.append(coefficients)
        b.append(constants)
    cost = np.concatenate([-reward * mdp.r / S, np.zeros(K + extra)])
    for j, pay in cones.cost.items():
        cost[j] -= pay
    sizes = {
        "zero": S + 1 + K + len(cones.equal), "nonnegative": owed.shape[0] + len(cones.above),
        "exponential": len(cones.exponential) // 3, "power": cones.exponents,
    }  # fmt: skip
    return cost, csc_array(vstack(A)), np.concatenate(b), sizes


def _rows(rows, n):
    """Rows (coefficients by variable, constant) of ``constant + coefficients @ v`` as b and A."""
    A = np.zeros((len(rows), n)) if n * len(rows) < 1e6 else csr_array((len(rows), n)).tolil()
    for i, (coefficients, _) in enumerate(rows):
        for j, value in coefficients.items():
            A[i, j] = -value
    return csr_array(A), np.array([constant for _, constant in rows], float)


def _welfare(cones, objective, w, u):
    """Add W as variables that are paid, and the cones that hold them down."""
    if isinstance(objective, AlphaFair):
        for weight, k in zip(w.tolist(), u, strict=True):
            _power(cones, objective.alpha, weight, ({k: 1.0}, -objective.reference))
    elif isinstance(objective, Entropy):
        for k in u:
            t = cones.variable(1.0)  # u exp(t / u) <= 1
            cones.exponential += [({t: 1.0}, 0.0), ({k: 1.0}, 0.0), ({}, 1.0)]
    elif isinstance(objective, Atkinson):
        _equivalent(cones, objective.aversion, w, u)
    else:
        _ordered(cones, w if isinstance(objective, Gini) else np.eye(len(u))[0], u)


def _power(cones, alpha, weight, v):
    """``weight v^(1 - alpha) / (1 - alpha)`` of an affine expression v; of alpha = 1 the logarithm."""
    if alpha == 0:
        t = cones.variable(weight)
        cones.above.append(({**v[0], t: -1.0}, v[1]))
    elif alpha == 1:
        t = cones.variable(weight)  # exp(t) <= v
        cones.exponential += [({t: 1.0}, 0.0), ({}, 1.0), v]
    elif alpha < 1:
        t = cones.variable(weight / (1 - alpha))  # t <= v^(1 - alpha)
        cones.power += [v, ({}, 1.0), ({t: 1.0}, 0.0)]
        cones.exponents.append(1 - alpha)
    else:
        t = cones.variable(weight / (1 - alpha))  # t v^(alpha - 1) >= 1
        cones.power += [({t: 1.0}, 0.0), v, ({}, 1.0)]
        cones.exponents.append(1 / alpha)


def _equivalent(cones, a, w, u):
    """Atkinson's equivalent t, by cones that grow with t."""
    t = cones.variable(1.0)
    parts = [cones.variable() for _ in u]
    if a == 1:  # t exp(s / t) <= u, sum w s >= 0
        for s, k in zip(parts, u, strict=True):
            cones.exponential += [({s: 1.0}, 0.0), ({t: 1.0}, 0.0), ({k: 1.0}, 0.0)]
        cones.above.append((dict(zip(parts, w.tolist(), strict=True)), 0.0))
        return
    for s, k in zip(parts, u, strict=True):
        if a < 1:  # s <= u^(1 - a) t^a
            cones.power += [({k: 1.0}, 0.0), ({t: 1.0}, 0.0), ({s: 1.0}, 0.0)]
            cones.exponents.append(1 - a)
        else:  # s^(1/a) u^((a - 1)/a) >= t
            cones.power += [({s: 1.0}, 0.0), ({k: 1.0}, 0.0), ({t: 1.0}, 0.0)]
            cones.exponents.append(1 / a)
    sign = 1.0 if a < 1 else -1.0  # sum w s >= t, or at most
    cones.above.append(({**dict(zip(parts, (sign * w).tolist(), strict=True)), t: -sign}, 0.0))


def _ordered(cones, w, u):
    """``sum_j (w_j - w_(j+1))`` times the j smallest together, each a small linear program."""
    for j, step in enumerate(w - np.append(w[1:], 0.0), start=1):
        if step == 0:
            continue
        t = cones.variable(step * j)
        for k in u:
            short = cones.variable(-step)
            cones.above += [({short: 1.0}, 0.0), ({short: 1.0, k: 1.0, t: -1.0}, 0.0)]


def by_clarabel(program, tol=1e-9):
    """Largest welfare by CLARABEL: primal and dual value, and whether it calls itself done."""
    import clarabel

    cost, A, b, sizes = program
    cones = [clarabel.ZeroConeT(sizes["zero"]), clarabel.NonnegativeConeT(sizes["nonnegative"])]
    cones += [clarabel.ExponentialConeT() for _ in range(sizes["exponential"])]
    cones += [clarabel.PowerConeT(a) for a in sizes["power"]]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    n = cost.size
    solution = clarabel.DefaultSolver(csc_array((n, n)), cost, A, b, cones, settings).solve()
    done = str(solution.status) in ("Solved", "AlmostSolved")
    return -solution.obj_val, -solution.obj_val_dual, done, np.array(solution.x)


def by_scs(program, tol=1e-6, seconds=600.0):
    """The same by SCS."""
    import scs

    cost, A, b, sizes = program
    cone = {"z": sizes["zero"], "l": sizes["nonnegative"], "ep": sizes["exponential"], "p": sizes["power"]}
    solver = scs.SCS(
        {"A": A, "b": b, "c": cost}, cone, eps_abs=tol, eps_rel=tol, verbose=False,
        max_iters=10**7, time_limit_secs=seconds,
    )  # fmt: skip
    found = solver.solve()
    info = found["info"]
    return -info["pobj"], -info["dobj"], info["status"] == "solved", found["x"]
