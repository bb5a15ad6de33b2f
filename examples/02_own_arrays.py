"""A model of one's own from plain arrays: a nurse between two wards, with a cap on the break room.

States differ in what can be done there, so pairs are listed one by one, sorted by state.
"""

import numpy as np

import fairmdp as fm

states = ["ward A", "ward B", "break"]
pairs = [  # state, action, where it leads, reward
    ("ward A", "stay", [0.8, 0.1, 0.1], 1.0),
    ("ward A", "go to B", [0.0, 0.9, 0.1], 0.2),
    ("ward A", "rest", [0.0, 0.0, 1.0], 0.3),
    ("ward B", "stay", [0.1, 0.7, 0.2], 0.4),
    ("ward B", "go to A", [0.9, 0.0, 0.1], 0.2),
    ("break", "back to work", [0.6, 0.4, 0.0], 0.0),
]
mdp = fm.MDP(
    P=np.array([row for _, _, row, _ in pairs]),
    r=[reward for *_, reward in pairs],
    s_of=[states.index(state) for state, *_ in pairs],
    states=states,
    actions=[action for _, action, *_ in pairs],
)
problem = fm.Problem(
    mdp,
    [
        fm.Quota("ward B", states=["ward B"], at_least=0.35),
        fm.Quota("pause", states=["break"], at_most=0.13),
        fm.Quota("rest by choice", pairs=[("ward A", "rest")], at_least=0.01),
    ],
)
solution = fm.solve(problem)
print(problem)
print(f"{solution.status.value}: gain {solution.gain:.4f}, worst slack {abs(solution.worst_slack):.4f}")
for row in solution.quotas:
    bounds = f"[{row.at_least:g}, {row.at_most:g}]"
    print(f"  {row.name}: share {row.share:.4f} in {bounds}, price {row.price + 0.0:+.4f}")
for i in np.flatnonzero(solution.policy > 1e-9):
    print(f"  in {mdp.pair_name(i)} with probability {solution.policy[i]:.4f}")
