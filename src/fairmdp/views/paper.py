"""The paper's experiments in words and as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairmdp import mirror

if TYPE_CHECKING:
    from fairmdp.mirror.experiments import Curve

_SAYINGS = {
    "reward": "approaches the fair optimal value",
    "nu2": "approaches the required value (25%)",
}
"""What the paper says of its runs; it prints numbers for the optimum without quotas only."""


def curve_end(curve: Curve) -> dict[str, Any]:
    """Where a curve ends."""
    t = int(curve.t[-1])
    ends = {quantity: curve.at(t, quantity) for quantity in mirror.experiments.QUANTITIES}
    return {
        "t": t,
        "runs": curve.runs,
        "rho": list(curve.rho),
        "optimum": curve.optimum,
        **{quantity: {"mean": mean, "std": std} for quantity, (mean, std) in ends.items()},
        "runs_below_quota": int((curve.samples["nu2"][:, -1] < curve.rho[2]).sum()),
    }


def reproduction_text(summary: dict[str, Any]) -> str:
    """The summary of `fairmdp reproduce`, beside what the paper says."""
    free, end = summary["without_quotas"], summary["convergence"]
    shares = ", ".join(f"{100 * share:.1f}" for share in free["shares"])
    lines = [
        f"three-state, variant {summary['variant']}: M = 100, eta = 0.01, mean +- std over the runs",
        "",
        f"  without quotas: reward {free['reward']:.4f}, shares {shares} %",
        "       the paper: reward 0.526, shares 47.4, 43.5, 9.1 %",
        "",
        f"  convergence: {_runs(end)}, owed {', '.join(map(str, end['rho']))}",
        "                                             optimum   the paper",
    ]
    for quantity, name, due in (
        ("reward", "reward of the policy", f"{end['optimum']:.4f}"),
        ("reward_avg", "reward of the average", f"{end['optimum']:.4f}"),
        ("nu2", "share of s2, owed 0.25", "0.2500"),
        ("gap", "gap", "0"),
    ):
        said = _SAYINGS.get(quantity, "")
        lines.append(f"  {name:<22}  {_pm(end[quantity])}   {due:<7}   {said}".rstrip())
    first = summary["quotas"][0]
    lines += [
        "",
        f"  quotas: {_runs(first)} each",
        "  owed s2   reward             optimum   share of s2        runs below",
    ]
    lines += [
        f"  {row['rho'][2]:<7.2f}   {_pm(row['reward'])}   {row['optimum']:<7.4f}   {_pm(row['nu2'])}"
        f"   {row['runs_below_quota']}"
        for row in summary["quotas"]
    ]
    lines += [
        "",
        f"  bias floor, which the paper does not show: {_runs(summary['floor'][0])}, variant definition",
        "  steps                    reward             from the optimum",
    ]
    names = ("0.01, whole run", "0.01, later half", "our default")
    lines += [
        f"  {name:<22}   {_pm(row['reward'])}   {row['reward']['mean'] - row['optimum']:+.4f}"
        for name, row in zip(names, summary["floor"], strict=True)
    ]
    lines += ["", f"  saved   3 tables and 6 figures in {summary['out']}   ({summary['seconds']:.1f} s)"]
    return "\n".join(lines)


def _runs(row: dict[str, Any]) -> str:
    return f"{row['runs']} runs of {row['t']:,} steps"


def _pm(value: dict[str, float]) -> str:
    return f"{value['mean']:.4f} +- {value['std']:.4f}"
