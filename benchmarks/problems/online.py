"""Small models to learn in along one trajectory: a rover among rocks, and a workshop with a tired machine."""

import numpy as np

from fairmdp import MDP, Problem, Quota


def rover(side: int = 4, slip: float = 0.1) -> Problem:
    """Moves slip to either side; the far corner pays 1 and leads home. Two rocks may have 2 % of the time."""
    moves, n = ((0, 1), (1, 0), (0, -1), (-1, 0)), side * side
    P, R = np.zeros((n, 4, n)), np.zeros((n, 4))
    for s in range(n):
        for a in range(4):
            for turn, p in ((0, 1 - 2 * slip), (1, slip), (-1, slip)):
                dy, dx = moves[(a + turn) % 4]
                y, x = np.clip([s // side + dy, s % side + dx], 0, side - 1)
                P[s, a, y * side + x] += p
    P[n - 1], R[n - 1] = np.eye(n)[0], 1.0
    rocks = [side + 1, (side - 1) * side + side // 2]
    return Problem(MDP.from_tensor(P, R), [Quota("rocks", states=rocks, at_most=0.02)])


def workshop() -> Problem:
    """A machine wears in four stages, orders are few, some or many; the apprentice is owed work of their own.

    The master is three times as fast as the apprentice and wears the machine twice as much; to mend it takes
    a step or two. Worn stages may have 30 % of the time, the apprentice is owed 35 % of all steps, and many
    orders are to wait at most 45 % of the time.
    """
    wear = {"master": 0.2, "apprentice": 0.1, "mend": 0.0}
    done = {"master": (0.7, 0.3), "apprentice": (0.3, 0.0), "mend": (0.0, 0.0)}  # one or two orders
    states = [f"{stage} {orders}" for stage in range(4) for orders in ("few", "some", "many")]
    P, r, s_of, actions = [], [], [], []
    for s in range(12):
        stage, orders = divmod(s, 3)
        for who in wear:
            row = np.zeros(12)
            stages = {stage: 1.0}
            if who == "mend":
                stages = {0: 0.6, stage: 0.4} if stage else {0: 1.0}
            elif stage < 3:
                stages = {stage + 1: wear[who], stage: 1 - wear[who]}
            one, two = done[who]
            served = {0: 1 - one, 1: one - two, 2: two} if stage < 3 else {0: 1.0}
            for to, p in stages.items():
                for k, q in served.items():
                    for more, u in ((0, 0.5), (1, 0.4), (2, 0.1)):
                        left = max(orders - k, 0)
                        row[3 * to + min(left + more, 2)] += p * q * u
            P.append(row)
            r.append(sum(q * min(k, orders) for k, q in served.items()) / 2)
            s_of.append(s)
            actions.append(who)
    mdp = MDP(np.array(P), r, s_of, states=states, actions=actions)
    apprentice = [(states[s], "apprentice") for s in range(12)]
    return Problem(
        mdp,
        [
            Quota("worn", states=states[6:], at_most=0.3),
            Quota("apprentice", pairs=apprentice, at_least=0.35),
            Quota("many orders", states=states[2::3], at_most=0.45),
        ],
    )
