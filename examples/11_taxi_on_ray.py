"""The taxi fleet again, on a Ray cluster: a private one of two workers here, any other by its address.

What is learned is the same to the last byte as in one process, whatever happens to the workers. Needs the
extras gym and ray, which `uv run` has. The same on the command line: fairmdp learn ... --engine ray
"""

import runpy
from pathlib import Path

import fairmdp as fm

fleet = runpy.run_path(str(Path(__file__).with_name("10_taxi_fleet.py")))["fleet"]


def main():
    """Learn in this process, then on the cluster; certify there."""
    mdp, quotas = fleet()
    how = {"samples": 600_000, "seed": 1}
    here = fm.learn_plugin(mdp.simulator(), quotas, **how)
    with fm.RayCluster(2, timeout=60) as cluster:
        there = fm.learn_plugin(mdp.simulator(), quotas, engine=cluster, **how)
        proof = fm.certify(mdp.simulator(), there.policy, quotas, samples=600_000, engine=cluster)
    print(f"learned on the cluster: gain {there.gain:.3f} +- {there.gain_se:.3f}")
    print(
        f"the same policy as in one process, byte by byte: {here.policy.tobytes() == there.policy.tobytes()}"
    )
    print(f"certified from {proof.samples:,} fresh samples: {proof.verdict}")


if __name__ == "__main__":
    main()
