"""Small random worlds, and the whole program of one built from what was stated, without the package's arrays."""

import numpy as np
from scipy.optimize import linprog

import fairmdp as fm


def random_world(seed, rows=None, quotas=1, caps=False):
    """A world of a few rows: ragged actions, up to three resources and two groups."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 12)) if rows is None else rows
    S, K, G = int(rng.integers(2, 7)), int(rng.integers(0, 4)), int(rng.integers(0, 3))
    A = rng.integers(1, 4, S)
    s_of = np.repeat(np.arange(S), A)
    SA = s_of.size
    P = rng.dirichlet(np.full(S, 0.5), (rows, SA)) * (rng.random((rows, SA, S)) < 0.7) + 0.02
    P /= P.sum(axis=2, keepdims=True)
    mdp = fm.MDP(P[0], np.zeros(SA), s_of)
    first = np.r_[True, s_of[1:] != s_of[:-1]]
    count = rng.integers(1, 4, rows)
    clients = fm.Components("client", mdp, P=P, r=rng.normal(size=(rows, SA)), count=count)
    n = int(count.sum())
    resources = [
        fm.Resource(
            f"resource {k}",
            float(np.round(rng.uniform(0.1, 0.9) * n, 1)),
            np.where(first, 0.0, rng.integers(0, 3, (rows, SA))).astype(float),
        )
        for k in range(K)
    ]
    local = []
    for j in range(quotas):
        at_least = np.where(rng.random(rows) < 0.6, rng.uniform(0.0, 0.5, rows), 0.0)
        at_most = rng.uniform(0.5, 1.0, rows) if caps else None
        local.append(
            fm.LocalQuota(f"quota {j}", at_least, at_most, weights=(rng.random(SA) < 0.6).astype(float))
        )
    groups = []
    for g in range(G):
        members = rng.random(rows) < 0.7
        members[rng.integers(rows)] = True
        size = count[members].sum()
        groups.append(
            fm.GroupQuota(
                f"group {g}",
                float(rng.uniform(0.1, 0.5) * size),
                weights=rng.random(SA).round(2),
                members=members,
            )
        )
    return fm.World([clients], resources, local, groups)


def whole_optimum(world):
    """Value of the program over all occupancies, from the statements; None if it has no point."""
    cost, equal, right, above, least = [], [], [], [], []
    offset, total = 0, sum(c.n_rows * c.mdp.n_pairs for c in world.components)
    coupling = [np.zeros(total) for _ in (*world.resources, *world.groups)]
    for c in world.components:
        for i in range(c.n_rows):
            own, n = c.row_mdp(i), c.count[i]
            here = slice(offset, offset + own.n_pairs)
            cost.append(-n * own.r)
            flow = np.zeros((own.n_states + 1, total))
            flow[own.s_of, np.arange(offset, offset + own.n_pairs)] = 1
            flow[:-1, here] -= own.P.toarray().T
            flow[-1, here] = 1
            equal.append(flow)
            right.append(np.r_[np.zeros(own.n_states), 1])
            for quota in world.quotas:
                line = np.zeros(total)
                line[here] = np.broadcast_to(quota.weights, own.n_pairs)
                if quota.at_least is not None:
                    above.append(line)
                    least.append(np.broadcast_to(quota.at_least, c.n_rows)[i])
                if quota.at_most is not None:
                    above.append(-line)
                    least.append(-np.broadcast_to(quota.at_most, c.n_rows)[i])
            for k, resource in enumerate(world.resources):
                coupling[k][here] = -n * np.broadcast_to(resource.uses, (c.n_rows, own.n_pairs))[i]
            for g, group in enumerate(world.groups):
                if group.members[i]:
                    coupling[len(world.resources) + g][here] = n * group.weights
            offset += own.n_pairs
    above += coupling
    least += [-r.capacity for r in world.resources] + [g.at_least for g in world.groups]
    above = {"A_ub": -np.array(above), "b_ub": -np.array(least)} if above else {}
    found = linprog(
        np.concatenate(cost), A_eq=np.vstack(equal), b_eq=np.concatenate(right), **above, bounds=(0, None)
    )
    return -found.fun if found.status == 0 else None
