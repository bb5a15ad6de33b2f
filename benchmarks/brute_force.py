"""Multichain models by brute force: every deterministic policy, every class, every way to stay or go.

Nothing here knows a component worklist, a quotient or a dual: end components are grown from closed classes
of deterministic policies, and one linear program over their shares and over deterministic ways of moving says
what can be had. For models of up to about twelve states and a few thousand deterministic policies.
"""

from itertools import product

import numpy as np
from scipy.optimize import linprog

TOL = 1e-12


def best_gain(problem, most=1500):
    """Best gain from the start under quotas of every run and of the mean, None where none is fair.

    Raises `OverflowError` where there is too much to enumerate.
    """
    mdp = problem.mdp
    P, start = mdp.P.toarray(), mdp.start
    states = reached(P, mdp.pair_ptr, start > 0)
    ways = [range(mdp.pair_ptr[s], mdp.pair_ptr[s + 1]) for s in states]
    if np.prod([float(len(way)) for way in ways]) > most:
        raise OverflowError
    classes = {}  # from pairs used to shares of the pairs
    for pairs in product(*ways):
        choice = dict(zip(states, pairs, strict=True))
        for members in closed_classes(P, choice):
            used = tuple(sorted(choice[s] for s in members))
            if used not in classes:
                classes[used] = stationary(P, [choice[s] for s in sorted(members)], sorted(members))
    parts = components(P, mdp, classes)
    return program(problem, P, states, classes, parts)


def reached(P, pair_ptr, begun):
    seen = set(np.flatnonzero(begun).tolist())
    new = list(seen)
    while new:
        s = new.pop()
        after = set(np.flatnonzero(P[pair_ptr[s] : pair_ptr[s + 1]].max(axis=0) > 0).tolist()) - seen
        seen |= after
        new += after
    return sorted(seen)


def closed_classes(P, choice):
    """Closed classes of a deterministic policy, by what every state reaches."""
    after = {}
    for s in choice:
        seen, new = {s}, [s]
        while new:
            for t in np.flatnonzero(P[choice[new.pop()]] > 0).tolist():
                if t not in seen:
                    seen.add(t)
                    new.append(t)
        after[s] = frozenset(seen)
    return {after[s] for s in choice if all(after[t] == after[s] for t in after[s])}


def stationary(P, pairs, members):
    Q = P[pairs][:, members]
    n = len(members)
    equations = np.vstack([Q.T - np.eye(n), np.ones(n)])
    nu = np.linalg.lstsq(equations, np.append(np.zeros(n), 1.0), rcond=None)[0]
    return dict(zip(pairs, nu, strict=True))


def components(P, mdp, classes):
    """Maximal end components as (states, pairs): unions of end components that meet, until none do."""
    parts = []
    for used in classes:
        parts.append(({int(mdp.s_of[i]) for i in used}, set(used)))
    merged = True
    while merged:
        merged = False
        for a in range(len(parts)):
            for b in range(a + 1, len(parts)):
                if parts[a][0] & parts[b][0]:
                    parts[a] = (parts[a][0] | parts[b][0], parts[a][1] | parts[b][1])
                    del parts[b]
                    merged = True
                    break
            if merged:
                break
    return [
        (states, {i for s in states for i in range(mdp.pair_ptr[s], mdp.pair_ptr[s + 1])
                  if set(np.flatnonzero(P[i] > 0).tolist()) <= states})
        for states, _ in parts
    ]  # fmt: skip


def program(problem, P, states, classes, parts):
    """Linear program over ways of moving, and over classes for staying in each component."""
    mdp, G = problem.mdp, problem.members.toarray()
    node = {}
    for c, (members, _) in enumerate(parts):
        node |= dict.fromkeys(members, c)
    loose = [s for s in states if s not in node]
    node |= {s: len(parts) + j for j, s in enumerate(loose)}
    N = len(parts) + len(loose)
    inner = set().union(*(pairs for _, pairs in parts))
    options = [[None] if n < len(parts) else [] for n in range(N)]
    for s in states:
        for i in range(mdp.pair_ptr[s], mdp.pair_ptr[s + 1]):
            if i not in inner:
                options[node[s]].append(i)
    if np.prod([float(len(o)) for o in options]) > 300:
        raise OverflowError
    together = np.zeros((mdp.n_pairs, N))
    for s in states:
        together[:, node[s]] += P[:, s]
    begin = np.bincount([node[s] for s in states], [mdp.start[s] for s in states], N)
    visits = []
    for way in product(*options):
        go = [n for n in range(N) if way[n] is not None]
        move = np.zeros((N, N))
        for n in go:
            move[n] = together[way[n]]
        u = np.linalg.solve(np.eye(N) - move.T, begin)
        stays = np.where([w is None for w in way], u, 0.0)[: len(parts)]
        visits.append(stays)
    visits = np.unique(np.round(np.array(visits), 14), axis=0)
    columns = [
        (c, shares)
        for used, shares in classes.items()
        for c, (_, pairs) in enumerate(parts)
        if set(used) <= pairs
    ]
    W, K = len(visits), len(columns)
    counts = np.array(
        [[sum(G[k, i] * p for i, p in shares.items()) for k in range(len(G))] for _, shares in columns]
    )
    gains = np.array([sum(mdp.r[i] * p for i, p in shares.items()) for _, shares in columns])
    of = np.array([c for c, _ in columns])
    equal = np.zeros((1 + len(parts), W + K))
    equal[0, :W] = 1.0
    for c in range(len(parts)):
        equal[1 + c, :W] = -visits[:, c]
        equal[1 + c, W:] = of == c
    rows = []
    for k in range(problem.n_quotas):
        low, high = problem.at_least[k], problem.at_most[k]
        if problem.expected[k]:
            share = np.append(np.zeros(W), counts[:, k])
            rows += [(-share, -low)] if low > 0 else []
            rows += [(share, high)] if high < 1 else []
        else:
            for c in range(len(parts)):
                here = (of == c).astype(float)
                least = np.append(np.zeros(W), -(counts[:, k] - low) * here)
                most = np.append(np.zeros(W), (counts[:, k] - high) * here)
                rows += [(least, 0.0)] if low > 0 else []
                rows += [(most, 0.0)] if high < 1 else []
    found = linprog(
        -np.append(np.zeros(W), gains),
        np.array([row for row, _ in rows]) if rows else None,
        [bound for _, bound in rows] if rows else None,
        equal, np.append(1.0, np.zeros(len(parts))), method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    return -found.fun if found.status == 0 else None
