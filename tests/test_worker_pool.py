"""The worker pool as the page's server uses it: jobs that can be cancelled, and workers ready for the next one."""

import math
import os
from contextlib import contextmanager
from queue import SimpleQueue

import numpy as np
import pytest
from engine_simulators import nap
from test_engine import wait_for_end

from fairmdp.workers import Job, Pool, PoolThread, Processes
from fairmdp.workers.worker import Code

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pool")]

NAP = Code.of(nap)
LONG = 300.0  # seconds that no test may take


class Asked(Job):
    """A job whose messages come one by one."""

    def __init__(self, seconds, **how):
        self.heard = SimpleQueue()
        super().__init__(NAP, seconds, lambda job, message: self.heard.put(message), **how)

    def said(self):
        return self.heard.get(timeout=LONG)


@contextmanager
def served(workers, *, first=0.0, timeout=math.inf):
    pool = Pool(Processes(), workers, timeout=timeout, first=Job(NAP, first, lambda *_: None))
    thread = PoolThread(pool)

    def submit(seconds, **how):
        job = Asked(seconds, **how)
        thread.call(pool.submit, job)
        return job

    try:
        yield lambda job, grace: thread.call(pool.cancel, [job], grace), submit
    finally:
        thread.stop()


@pytest.fixture(scope="module")
def one():
    with served(1) as pool:
        yield pool


@pytest.fixture(scope="module")
def two():
    with served(2) as pool:
        yield pool


def test_a_job_reports_and_is_done(one):
    _, submit = one
    job = submit(0.0)
    kind, pid = job.said()
    assert kind == "progress" and pid != os.getpid()
    assert job.said() == ("done", pid)


def test_a_cancelled_job_holds_nobody_up_and_its_worker_is_replaced(two):
    cancel, submit = two
    old = submit(LONG * 9)
    _, busy = old.said()
    cancel(old, grace=LONG * 9)
    job = submit(0.0)  # while the old one goes on
    _, spare = job.said()
    assert spare != busy and os.path.exists(f"/proc/{busy}")
    cancel(old, grace=0.01)
    wait_for_end({str(busy)})
    jobs = [submit(0.1) for _ in range(4)]
    assert busy not in {job.said()[1] for job in jobs} and {job.said()[0] for job in jobs} == {"done"}
    assert old.heard.empty()


def test_a_cancelled_job_that_finishes_in_time_costs_no_worker(one):
    cancel, submit = one
    old = submit(0.2)
    _, pid = old.said()
    cancel(old, grace=LONG)
    assert submit(0.0).said() == ("progress", pid)
    assert old.heard.empty()


def test_jobs_that_wait_can_be_cancelled(one):
    cancel, submit = one
    first = submit(LONG * 9)
    first.said()
    second, third = submit(0.0), submit(0.0)
    cancel(second, grace=LONG)
    cancel(first, grace=0.0)
    assert [third.said()[0], third.said()[0]] == ["progress", "done"]
    assert second.heard.empty()


def test_a_worker_that_ends_is_heard_of_and_replaced(one):
    _, submit = one
    job = submit(-1.0)
    _, pid = job.said()
    assert job.said() == ("lost", "its process ended with code 4")
    assert submit(0.0).said()[1] != pid


def test_a_job_past_its_time_is_stopped():
    with served(1, timeout=0.3) as (_, submit):
        job = submit(LONG * 9)
        _, pid = job.said()
        assert job.said() == ("late", None)
        wait_for_end({str(pid)})
        assert submit(0.0).said()[1] != pid


def test_what_is_not_urgent_leaves_a_worker_free(two):
    cancel, submit = two
    slow = [submit(LONG * 9, order=1, spare=1) for _ in range(3)]
    slow[0].said()
    assert submit(0.0).said()[0] == "progress"
    assert slow[1].heard.empty() and slow[2].heard.empty()
    for job in slow:
        cancel(job, grace=0.0)


def test_a_job_goes_to_the_worker_that_it_likes(two):
    _, submit = two

    def pids(*jobs):
        return [pid for job in jobs for _, pid in (job.said(), job.said())[1:]]

    for seconds in np.linspace(0.1, 1.0, 20).tolist():  # until each worker has done one of them
        mine, other = seconds, seconds + 0.01
        found = pids(submit(mine, likes=len), submit(other, likes=len))
        if len(set(found)) == 2:
            break
    for _ in range(2):
        assert pids(submit(0.0, likes=lambda done: mine in done)) == found[:1]
        assert pids(submit(0.0, likes=lambda done: other in done)) == found[1:]


def test_workers_that_cannot_start_are_not_started_for_ever():
    with served(2, first=-1.0) as (_, submit):
        said = [submit(0.0).said() for _ in range(2)]
    assert said == [("lost", "its process ended with code 4")] * 2


@pytest.mark.parametrize("seconds", [0.0, LONG * 9])
def test_stopping_ends_the_workers(seconds):
    with served(2) as (_, submit):
        _, pid = submit(seconds).said()
    wait_for_end({str(pid)})
