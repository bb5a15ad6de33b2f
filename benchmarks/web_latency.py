"""Milliseconds from a slider to the picture, as the page itself measures them in a headless Chromium.

    python -m benchmarks.web_latency --out benchmarks/results/web_latency.csv

A move is one press of an arrow key on a slider that binds; the clock runs from its event to the frame after
all figures have been drawn (a frontier that must be computed anew follows later). On a busy machine the clock
says more about the others: `answer_cpu_ms` is what the worker computes for one answer, `page_cpu_ms` what the
page's thread draws, follow-ups included, and their sum is what a machine of one's own would show.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

from benchmarks.explored import explored
from benchmarks.table import table

from fairmdp.web.tasks import OpenProblems, Request, Source

_LARGE = ("capacity=1", "max_arrivals=1", "max_withdrawals=1")
_PROBLEMS = {
    "three-state": (Source("three-state"), 2),
    "jobs, 529 states": (Source("jobs", ("queue=22", *_LARGE)), 1),
    "jobs, 5041 states": (Source("jobs", ("queue=70", *_LARGE)), 1),
}
_MEASURED = "performance.getEntriesByName('slider to picture').map((entry) => entry.duration)"
_FIELDS = ("problem", "moves", "median_ms", "p90_ms", "worst_ms", "answer_cpu_ms", "page_cpu_ms", "load")


def clicks(source: Source, k: int, moves: int) -> tuple[list[float], float]:
    """Milliseconds of each move, one after the answer to the other, and CPU milliseconds of the page."""
    with explored(*source.words) as page:
        page.wait_for_timeout(3000)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.focus(f"#at_least-{k}")
        before = _busy(session)
        for done in range(moves):
            page.keyboard.press("ArrowRight")
            while len(page.evaluate(_MEASURED)) <= done:
                page.wait_for_timeout(50)
        return page.evaluate(_MEASURED), 1000 * (_busy(session) - before) / moves


def _busy(session) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def answers(source: Source, k: int, moves: int) -> float:
    """Median CPU milliseconds of a worker's answer."""
    problems = OpenProblems()
    at_least = [
        quota["at_least"] for quota in problems.answer(Request("open", source), print)["problem"]["quotas"]
    ]
    found = []
    for move in range(moves + 1):
        at_least[k] += 0.005
        begin = time.process_time()
        problems.answer(Request("solve", source, tuple(at_least)), lambda row: None)
        found.append(1000 * (time.process_time() - begin))
        found = found if move else []  # the first one also solves without quotas
    return statistics.median(found)


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="milliseconds from a slider to the picture")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--moves", type=int, default=15)
    args = parser.parse_args()
    with table("web_latency", _FIELDS, args.out) as add:
        for name, (source, k) in _PROBLEMS.items():
            found, drawing = clicks(source, k, args.moves)
            found.sort()
            numbers = {
                "median_ms": statistics.median(found),
                "p90_ms": found[int(0.9 * (len(found) - 1))],
                "worst_ms": found[-1],
                "answer_cpu_ms": answers(source, k, args.moves),
                "page_cpu_ms": drawing,
            }
            rounded = {key: round(value) for key, value in numbers.items()}
            add({"problem": name, "moves": len(found), **rounded, "load": f"{os.getloadavg()[0]:.1f}"})


if __name__ == "__main__":
    main()
