"""Random problems of every shape that a solver may meet, each a function of one generator.

Most have a policy planted in them, and quotas near what that policy gives: some just met, some just missed.
"""

import numpy as np

from fairmdp import MDP, Problem, Quota, scenarios
from fairmdp.chains.chain import Chain


def ragged(rng):
    """Ragged actions, overlapping sets of states and pairs, caps, rewards of any size and sign."""
    return planted(rng, model(rng, int(rng.integers(2, 60))))


def sparse(rng):
    """Few successors, hundreds of states."""
    return planted(rng, model(rng, int(rng.integers(100, 400)), successors=4))


def tiny(rng):
    """One to three states."""
    return planted(rng, model(rng, int(rng.integers(1, 4))))


def one_action(rng):
    """A chain: there is nothing to choose, the quotas are met or not."""
    return planted(rng, model(rng, int(rng.integers(1, 30)), most_actions=1))


def cycles(rng):
    """Deterministic moves: periodic chains, and policies whose chains fall apart."""
    S = int(rng.integers(2, 25))
    counts = rng.integers(1, 4, S)
    s_of = np.repeat(np.arange(S), counts)
    P = np.zeros((s_of.size, S))
    P[np.arange(s_of.size), rng.integers(0, S, s_of.size)] = 1.0
    first = np.cumsum(counts) - counts
    P[first] = np.eye(S)[(np.arange(S) + 1) % S]  # the first actions make a ring, so all states communicate
    return planted(rng, MDP(P, rewards(rng, s_of.size), s_of))


def islands(rng):
    """Groups of states that are hardly connected: 1e-2 to 1e-7."""
    S, groups = int(rng.integers(4, 30)), int(rng.integers(2, 4))
    mdp = model(rng, S)
    home = np.arange(S) % groups
    P = mdp.P.toarray() * (home[mdp.s_of][:, None] == home)
    bridge = 10.0 ** -rng.uniform(2, 7)
    P[np.arange(mdp.n_pairs), (mdp.s_of + 1) % S] += bridge
    P /= P.sum(axis=1, keepdims=True)
    return planted(rng, MDP(P, mdp.r, mdp.s_of))


def transient(rng):
    """States that are left for good."""
    mdp = model(rng, int(rng.integers(3, 30)))
    left = int(rng.integers(1, mdp.n_states))
    P = mdp.P.toarray()
    P[mdp.s_of >= left, left:] = P[mdp.s_of >= left, left:] * 0.5
    P[mdp.s_of < left, left:] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    return planted(rng, MDP(P, mdp.r, mdp.s_of))


def every_state(rng):
    """The paper's setting: a quota for every state."""
    mdp = model(rng, int(rng.integers(2, 80)))
    nu = Chain.of(mdp, np.repeat(1 / mdp.n_actions, mdp.n_actions)).shares
    rho = nu * rng.uniform(0, 1.02) * (rng.random(nu.size) < rng.uniform(0.2, 1))
    return Problem(mdp, rho=rho / max(1.0, rho.sum()))


def ties(rng):
    """Rewards from two or three values and twin actions: optima are anything but unique."""
    mdp = model(rng, int(rng.integers(2, 40)))
    r = rng.choice(rewards(rng, int(rng.integers(1, 4))), mdp.n_pairs)
    twin = np.sort(np.concatenate([np.arange(mdp.n_pairs)] * 2))
    return planted(rng, MDP(mdp.P[twin], r[twin], mdp.s_of[twin]))


def only_fair(rng):
    """No rewards: any fair policy will do."""
    mdp = model(rng, int(rng.integers(2, 40)))
    return planted(rng, MDP(mdp.P, np.zeros(mdp.n_pairs), mdp.s_of))


def exact_share(rng):
    """A quota from both sides with nothing between."""
    problem = planted(rng, model(rng, int(rng.integers(2, 30))))
    middle = (problem.at_least + problem.at_most) / 2
    middle /= max(1.0, middle.sum())  # more than all of the time is refused at once
    return problem.with_bounds(middle, middle)


def worlds(rng):
    """A ready-made world with its own quotas scaled."""
    makers = [
        lambda: scenarios.three_state(rho=rng.dirichlet(np.ones(4))[:3] * 0.9),
        lambda: scenarios.jobs(),
        lambda: scenarios.hiring(),
        lambda: scenarios.taxi(),
        lambda: scenarios.postal(),
        lambda: scenarios.bandit(),
    ]
    problem = makers[rng.integers(len(makers))]()
    return problem.with_bounds(problem.at_least * rng.uniform(0.3, 1.0))


SHAPES = (
    ragged, sparse, tiny, one_action, cycles, islands, transient, every_state, ties, only_fair, exact_share,
    worlds,
)  # fmt: skip


def draw(seed):
    """The problem of a seed: its shape's name, and the problem."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    return shape.__name__, shape(rng)


def model(rng, S, *, successors=None, most_actions=4):
    """An ergodic model: random rows, a ring and loops."""
    s_of = np.repeat(np.arange(S), rng.integers(1, most_actions + 1, S))
    SA = s_of.size
    P = rng.dirichlet(np.full(S, rng.uniform(0.1, 2)), SA) + 1e-12
    P *= rng.random((SA, S)) < (rng.uniform(0.1, 1) if successors is None else successors / S)
    P[np.arange(SA), (s_of + 1) % S] += 0.05
    P[np.arange(SA), s_of] += 0.05
    return MDP(P / P.sum(axis=1, keepdims=True), rewards(rng, SA), s_of)


def rewards(rng, count):
    """Numbers of one random size, around a random middle."""
    return (rng.normal(size=count) - rng.uniform(-2, 2)) * 10.0 ** rng.uniform(-6, 9)


def planted(rng, mdp):
    """Quotas near the shares of a random policy; about one problem in six asks for more than that."""
    policy = rng.random(mdp.n_pairs) ** 3 + 1e-3
    policy /= np.add.reduceat(policy, mdp.pair_ptr[:-1])[mdp.s_of]
    nu = Chain.of(mdp, policy).shares
    x = policy * nu[mdp.s_of]
    greed = 1.0 if rng.random() < 0.85 else rng.uniform(1.0, 1.5)
    quotas, seen = [], set()
    for k in range(int(rng.integers(0, 9))):
        over = "pairs" if rng.random() < 0.3 else "states"
        shares = x if over == "pairs" else nu
        chosen = np.flatnonzero(rng.random(shares.size) < rng.uniform(0.1, 0.7))
        counted = chosen if over == "pairs" else np.flatnonzero(np.isin(mdp.s_of, chosen))
        if chosen.size == 0 or counted.tobytes() in seen:
            continue
        seen.add(counted.tobytes())
        share = min(1.0, float(shares[chosen].sum()))
        low = min(1.0, share * rng.choice([1.0, rng.uniform(0.5, 1)]) * greed)
        high = min(1.0, max(low, share + (1 - share) * rng.uniform(0, 0.3)))
        sides = [("at_least",), ("at_most",), ("at_least", "at_most")][rng.integers(3)]
        bounds = {side: value for side, value in (("at_least", low), ("at_most", high)) if side in sides}
        quotas.append(Quota(f"q{k}", **{over: chosen}, **bounds))
    while owes_too_much(quotas, mdp):
        quotas.pop()
    return Problem(mdp, quotas)


def owes_too_much(quotas, mdp):
    """Whether disjoint quotas owe more than all of the time, which a problem refuses at once."""
    try:
        Problem(mdp, quotas)
    except ValueError:
        return True
    return False
