"""Only a simulator: learn a fair policy from samples, then certify it with fresh ones.

A clinic has one doctor and two queues of up to 3 patients; the second pays less. A step serves one queue,
then patients arrive. The clinic owes the second queue to be short (at most one patient) half of the time.
"""

import numpy as np

import fairmdp as fm


class Clinic:
    """State ``4 * first + second``; action 0 serves the first queue, action 1 the second."""

    n_states = 16
    n_actions = np.full(16, 2)

    def sample(self, states, actions, rng):
        queues = np.stack(np.divmod(states, 4))
        served = queues[actions, np.arange(states.size)] > 0
        rewards = served * np.where(actions == 0, 1.0, 0.3)
        queues[actions, np.arange(states.size)] -= served
        arrivals = rng.random(queues.shape) < [[0.7], [0.4]]
        first, second = np.minimum(queues + arrivals, 3)
        return 4 * first + second, rewards


clinic = Clinic()
short = [s for s in range(16) if s % 4 <= 1]
quotas = [fm.Quota("second is short", states=short, at_least=0.5)]

learned = fm.learn(clinic, quotas, samples=100_000, seed=7)
print(f"learned from {learned.samples:,} samples: gain {learned.gain:.3f} +- {learned.gain_se:.3f}")
print(f"  {learned.claim}")

proof = fm.certify(clinic, learned.policy, quotas, samples=1_000_000, seed=7, training=learned.counts)
print(f"certified from {proof.samples:,} fresh samples: {proof.verdict}")
print(
    f"  share of time that the second queue is short: {proof.share_low[0]:.3f} to {proof.share_high[0]:.3f}"
)
print(f"  gain {proof.gain_low:.3f} to {proof.gain_high:.3f}; no fair policy exceeds {proof.upper:.3f}")
