"""A sweep: many quotas times many seeds, spread over processes.

An engine is called like the built-in map, so whatever is a function of one case can be swept: here, how much
gain a growing quota costs when the policy is learned from 3,000 samples, with the spread over five seeds.
"""

from itertools import product

import numpy as np

import fairmdp as fm

OWED = (0.2, 0.25, 0.3)
SEEDS = range(5)


def learned_gain(case):
    """True gain and share of the policy that one case learns."""
    owed, seed = case
    mdp = fm.scenarios.three_state().mdp
    quotas = [fm.Quota("s2", states=[2], at_least=owed)]
    policy = fm.learn_plugin(mdp.simulator(), quotas, samples=3000, seed=seed).policy
    nu = fm.Chain.of(mdp, policy).shares
    return mdp.r @ (policy * nu[mdp.s_of]), nu[2]


def main():
    """Run all cases and print a table."""
    with fm.ProcessPool(2) as engine:  # or fm.RayCluster(address="host:port"): the results are the same
        results = list(engine(learned_gain, product(OWED, SEEDS)))
    gains, shares = np.array(results).reshape(len(OWED), len(SEEDS), 2).transpose(2, 0, 1)
    print("s2 is owed   true gain, mean over seeds   least true share")
    for owed, gain, share in zip(OWED, gains, shares, strict=True):
        print(f"{owed:<10.2f}   {gain.mean():.4f} +- {gain.std(ddof=1):.4f}             {share.min():.4f}")


if __name__ == "__main__":
    main()
