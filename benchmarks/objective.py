"""The one judge of all solvers: what a result is worth, from the problem's data alone.

A result is a dict with ``x`` (an occupancy) or ``policy``, and the duals ``h`` and ``mu``. The gain is that
of the policy's own chain, the ceiling is recomputed from the duals, both with the certificate's outward
rounding; what a solver says of itself is not looked at.
"""

import numpy as np

from fairmdp import verify
from fairmdp.certificate.claim import certify_policy
from fairmdp.chains.policy import policy_of
from fairmdp.solvers.prices import dual_feasible


def score(problem, result):
    """Proven gain, ceiling, gap (relative to the span of the rewards) and slack of the worst quota."""
    policy = result["policy"] if "policy" in result else policy_of(problem.mdp, np.maximum(result["x"], 0.0))
    solution = certify_policy(
        problem,
        policy,
        result["h"],
        dual_feasible(problem, result["mu"]),
        tol=1e-6,
        method="benchmark",
        counters={},
    )
    verdict = verify(problem, solution)
    assert verdict.ok, verdict.messages
    span = float(np.ptp(problem.mdp.r))
    return {
        "status": verdict.status.value,
        "gain": solution.gain,
        "upper": verdict.upper,
        "gap": (verdict.upper - verdict.gain[0]) / span,
        "worst_slack": solution.worst_slack,
    }
