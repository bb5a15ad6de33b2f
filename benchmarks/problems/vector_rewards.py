"""Environments with a reward for each group that others have published, built from their definitions.

`fishwood` and `resource_gathering` are those of MO-Gymnasium, where an episode that ends begins anew at home;
`fair_taxi` is the one of Fan et al. (AAMAS 2023) at its defaults, without the end of the fuel. Each row is a
`Utility`: the long-run mean of one component of the reward per step.
"""

from itertools import product

import numpy as np
from scipy.sparse import csr_array

from fairmdp import MDP, Problem, Utility

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def fishwood(fish=0.1, wood=0.9):
    """A step at the river catches a fish with 0.1, one in the woods finds wood with 0.9."""
    mdp = MDP([[1, 0], [0, 1]] * 2, np.zeros(4), [0, 0, 1, 1], states=["river", "woods"])
    rows = [Utility("fish", weights={"river": fish}), Utility("wood", weights={"woods": wood})]
    return Problem(mdp, rows)


def resource_gathering(killed=0.1):
    """Gold and a gem are to be brought home past two enemies, each of which kills one visit in ten."""
    size, home, gold_at, gem_at, enemies = 5, (4, 2), (0, 2), (1, 4), {(0, 3), (1, 2)}
    states = list(product(product(range(size), repeat=2), (0, 1), (0, 1)))
    number = {state: s for s, state in enumerate(states)}
    start = number[home, 0, 0]
    rows, earned = [], {"gold": [], "gem": [], "death": []}
    for (place, gold, gem), step in product(states, MOVES.values()):
        there = tuple(np.clip(np.add(place, step), 0, size - 1).tolist())
        has_gold, has_gem = int(gold or there == gold_at), int(gem or there == gem_at)
        dies = killed if there in enemies else 0.0
        row = np.zeros(len(states))
        row[start] += dies
        row[start if there == home else number[there, has_gold, has_gem]] += 1 - dies
        rows.append(row)
        earned["gold"].append(float(there == home) * has_gold)
        earned["gem"].append(float(there == home) * has_gem)
        earned["death"].append(dies)
    return _problem(rows, len(states), list(MOVES), earned)


def fair_taxi(
    size=6, origins=((0, 0), (0, 5), (3, 2)), destinations=((0, 4), (5, 0), (3, 3)), fare=30.0, penalty=10.0
):
    """One taxi and a queue without end at each of three places; a delivery pays the place that it came from.

    An invalid pick or drop costs every place the penalty, and a passenger who is dropped anywhere is gone.
    """
    aboard = [None, *range(len(origins))]
    states = list(product(product(range(size), repeat=2), aboard))
    number = {state: s for s, state in enumerate(states)}
    rows, earned = [], {f"place {k}": [] for k in range(len(origins))}
    for (place, client), act in product(states, [*MOVES, "pick", "drop"]):
        there, then, pays = place, client, np.zeros(len(origins))
        if act in MOVES:
            there = tuple(np.clip(np.add(place, MOVES[act]), 0, size - 1).tolist())
        elif act == "pick" and client is None and place in origins:
            then = origins.index(place)
        elif act == "pick":
            pays -= penalty
        else:
            then = None
            if client is not None and place == destinations[client]:
                pays[client] = fare
            else:
                pays -= penalty
        row = np.zeros(len(states))
        row[number[there, then]] = 1.0
        rows.append(row)
        for name, pay in zip(earned, pays.tolist(), strict=True):
            earned[name].append(pay)
    return _problem(rows, len(states), [*MOVES, "pick", "drop"], earned)


def _problem(rows, n_states, actions, earned):
    mdp = MDP(
        csr_array(np.array(rows)),
        np.zeros(len(rows)),
        np.repeat(np.arange(n_states), len(actions)),
        actions=actions * n_states,
    )
    return Problem(mdp, [Utility(name, weights=np.array(pays)) for name, pays in earned.items()])
