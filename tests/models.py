"""Problems for tests: random ones with a planted fair policy, and the paper's worlds through public doors."""

import itertools
from math import exp, factorial

import numpy as np

from fairmdp import MDP, Problem, Quota


def random_problem(seed, n_max=40, *, caps=True, pairs=True):
    """A random ergodic MDP: ragged actions, overlapping quotas, caps, rewards of any sign and size."""
    rng = np.random.default_rng(seed)
    S = int(rng.integers(2, n_max + 1))
    counts = rng.integers(1, 5, S)
    s_of = np.repeat(np.arange(S), counts)
    SA = s_of.size
    P = rng.dirichlet(np.ones(S), SA) * (rng.random((SA, S)) < rng.uniform(0.1, 1))
    P[np.arange(SA), (s_of + 1) % S] += 0.05  # a ring: irreducible under every policy
    P[np.arange(SA), s_of] += 0.05  # a loop: aperiodic
    P /= P.sum(axis=1, keepdims=True)
    scale = 10.0 ** rng.integers(-3, 4)
    r = (rng.normal(size=SA) - rng.uniform(-1, 2)) * scale
    mdp = MDP(P, r, s_of)
    policy = rng.random(SA) ** 3
    policy /= np.add.reduceat(policy, mdp.pair_ptr[:-1])[s_of]
    x = policy * planted_distribution(mdp, policy)[s_of]
    quotas, seen = [], set()
    for k in range(int(rng.integers(0, 7))):
        over_pairs = pairs and rng.random() < 0.3
        chosen = np.flatnonzero(rng.random(SA if over_pairs else S) < rng.uniform(0.1, 0.6))
        members = chosen if over_pairs else np.flatnonzero(np.isin(s_of, chosen))
        if chosen.size == 0 or members.tobytes() in seen:
            continue
        seen.add(members.tobytes())
        share = min(1.0, x[members].sum())
        low = share * rng.uniform(0.7, 0.999)
        high = share + (1 - share) * rng.uniform(0.001, 0.3)
        kind = rng.integers(0, 3) if caps else 0
        bounds = [{"at_least": low}, {"at_most": high}, {"at_least": low, "at_most": high}][kind]
        quotas.append(Quota(f"q{k}", **{"pairs" if over_pairs else "states": chosen}, **bounds))
    return Problem(mdp, quotas)


def planted_distribution(mdp, policy):
    """Stationary distribution of an aperiodic irreducible chain by brute force."""
    Q = np.zeros((mdp.n_states, mdp.n_states))
    np.add.at(Q, mdp.s_of, policy[:, None] * mdp.P.toarray())
    nu = np.linalg.matrix_power(Q, 2**20)[0]
    return nu / nu.sum()


def jobs(capacities, servers, arrivals, withdraw, pay, limits):
    """The paper's job scheduling: serve, withdraw, arrive; quotas "client c has at most k jobs waiting"."""
    states = list(itertools.product(*(range(b + 1) for b in capacities)))
    number = {s: i for i, s in enumerate(states)}
    rows, rewards, s_of, labels = [], [], [], []
    for s in states:
        for m in itertools.product(*(range(n + 1) for n in s)):
            if sum(m) > servers:
                continue
            row = np.zeros(len(states))
            parts = [
                _queue_distribution(n - k, b, a, withdraw)
                for n, k, b, a in zip(s, m, capacities, arrivals, strict=True)
            ]
            for target in states:
                row[number[target]] = np.prod([part[t] for part, t in zip(parts, target, strict=True)])
            rows.append(row)
            rewards.append(np.dot(pay, m) / (servers * max(pay)))
            s_of.append(number[s])
            labels.append("serve " + ",".join(map(str, m)))
    mdp = MDP(rows, rewards, s_of, states=[",".join(map(str, s)) for s in states], actions=labels)
    quotas = [
        Quota(f"client{c}", states=[number[s] for s in states if s[c] <= k], at_least=share)
        for c, k, share in limits
    ]
    return Problem(mdp, quotas)


def _queue_distribution(left, capacity, arrival, withdraw):
    """Distribution of min(capacity, Binomial(left, 1 - withdraw) + Poisson(arrival))."""
    chances = np.zeros(capacity + 1)
    for stay in range(left + 1):
        ways = factorial(left) / factorial(stay) / factorial(left - stay)
        p = ways * (1 - withdraw) ** stay * withdraw ** (left - stay)
        for new in range(capacity - stay):
            chances[stay + new] += p * exp(-arrival) * arrival**new / factorial(new)
        chances[capacity] += p * (
            1 - sum(exp(-arrival) * arrival**j / factorial(j) for j in range(capacity - stay))
        )
    return chances


def hiring(K, leave, p_a, accept, outside, worth, tau, quota):
    """The paper's hiring world: (a, b) employees of two groups; quota on the diverse states."""
    states = [(a, b) for a in range(K + 1) for b in range(K + 1 - a)]
    number = {s: i for i, s in enumerate(states)}
    rows, rewards, s_of, labels = [], [], [], []
    for a, b in states:
        for label, takes in (("none", ()), ("A", "A"), ("B", "B"), ("both", "AB")):
            row = np.zeros(len(states))
            for i in range(a + 1):
                for j in range(b + 1):
                    p = _binomial(a, i, 1 - leave) * _binomial(b, j, 1 - leave)
                    if i + j == K:
                        row[number[i, j]] += p
                        continue
                    for group, q in (("A", p_a), ("B", 1 - p_a)):
                        hired = accept * (1.0 if group in takes else outside)
                        after = (i + 1, j) if group == "A" else (i, j + 1)
                        row[number[after]] += p * q * hired
                        row[number[i, j]] += p * q * (1 - hired)
            rows.append(row)
            rewards.append((worth[0] * a + worth[1] * b) / (K * max(worth)))
            s_of.append(number[a, b])
            labels.append(label)
    mdp = MDP(rows, rewards, s_of, states=[f"{a}A{b}B" for a, b in states], actions=labels)
    diverse = [number[a, b] for a, b in states if a + b and min(a, b) / (a + b) >= tau]
    return Problem(mdp, [] if quota is None else [Quota("diverse", states=diverse, at_least=quota)])


def _binomial(n, k, p):
    return factorial(n) / factorial(k) / factorial(n - k) * p**k * (1 - p) ** (n - k)


def lattice_queue(room, arrival=0.4):
    """Three queues of limited room in overload, one server: the action is whom to serve. Mixes slowly."""
    sizes = (room + 1,) * 3
    n = (room + 1) ** 3
    lengths = np.stack(np.unravel_index(np.arange(n), sizes), axis=1)
    P, r = np.zeros((3 * n, n)), np.zeros(3 * n)
    for a in range(3):
        r[a::3] = (1.0, 0.6, 0.3)[a] * (lengths[:, a] > 0)
        after = lengths - (np.arange(3) == a) * (lengths > 0)
        for bits in np.ndindex(2, 2, 2):
            to = np.ravel_multi_index(np.minimum(after + bits, room).T, sizes)
            np.add.at(P, (np.arange(n) * 3 + a, to), np.prod(np.where(bits, arrival, 1 - arrival)))
    return MDP(P, r, np.repeat(np.arange(n), 3))
