"""A fleet of taxis that owes every quarter of the town its share, learned from samples alone.

Gymnasium's Taxi: one fare after another on a grid of 5 by 5, so that the share of time that one cab spends in
a quarter is the share of a large fleet that is there. Left alone, cabs are seldom in the north west.
"""

import gymnasium

import fairmdp as fm


def fleet(owed=0.2):
    """Return the model and a quota for each quarter; the middle belongs to the south and to the east."""
    taxi = gymnasium.make("Taxi-v4").unwrapped
    mdp = fm.from_gymnasium(taxi, on_terminate="restart")
    cabs = {}
    for state in range(mdp.n_states):
        row, column, _passenger, _destination = taxi.decode(state)
        quarter = f"{'north' if row < 2 else 'south'} {'west' if column < 2 else 'east'}"
        cabs.setdefault(quarter, []).append(state)
    return mdp, [fm.Quota(quarter, states=where, at_least=owed) for quarter, where in cabs.items()]


def main():
    """Compare the exact answer, what is learned, and what is then seen."""
    mdp, quotas = fleet()
    problem = fm.Problem(mdp, quotas)
    free, exact = fm.solve(problem.without_quotas()), fm.solve(problem)
    learned = fm.learn_plugin(mdp.simulator(), quotas, samples=600_000, seed=1)
    print(f"reward per step: {free.gain:.4f} without quotas, {exact.gain:.4f} with them")
    print(f"learned from {learned.samples:,} samples: {learned.gain:.4f} +- {learned.gain_se:.4f}")
    print(f"  {learned.claim}")
    alone = problem.members @ free.occupancy
    seen = fm.simulate(mdp, learned.policy, steps=2000, runs=200, quotas=quotas, seed=1)
    for k, quota in enumerate(quotas):
        runs = f"{seen.shares[k]:.4f} +- {seen.share_se[k]:.4f}"
        print(f"{quota.name}: {alone[k]:.3f} if left alone; owed {quota.at_least}, seen {runs}")


if __name__ == "__main__":
    main()
