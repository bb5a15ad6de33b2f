"""Simulators that misbehave, for `test_engine.py`; in a module of their own, so that workers can import it."""

import hashlib
import os
import signal
import time

import numpy as np

from fairmdp import FunctionSimulator, Quota, scenarios
from fairmdp.workers import report

QUOTAS = [Quota("s2", states=[2], at_least=0.25)]


class Plain:
    """The paper's instance with random rewards; each call adds a line with its process id to a log."""

    def __init__(self, log=None, scale=1.0):
        self.mdp, self.log, self.scale = scenarios.three_state().mdp, log, scale
        self.n_states, self.n_actions = self.mdp.n_states, self.mdp.n_actions

    def sample(self, states, actions, rng):
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(f"{os.getpid()}\n")
        self.misbehave(rng)
        pairs = self.mdp.pair_ptr[states] + actions
        ends = np.cumsum(self.mdp.P.toarray(), axis=1)[pairs]
        s_next = np.minimum((rng.random((states.size, 1)) >= ends).sum(axis=1), self.n_states - 1)
        return s_next, self.scale * self.mdp.r[pairs] + rng.standard_normal(states.size)

    def misbehave(self, rng):
        pass


class Once(Plain):
    """Misbehaves the first time that it is asked, wherever that is: by ``kill``, ``exit``, ``raise``, ``hang``."""

    def __init__(self, how, marker):
        super().__init__()
        self.how, self.marker = how, marker

    def misbehave(self, rng):
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        misbehave(self.how)


class OnceAtChunk(Once):
    """Misbehaves the first time that it is asked for one chunk of a seed."""

    def __init__(self, how, marker, seed):
        super().__init__(how, marker)
        self.word = seed.generate_state(1)[0]

    def misbehave(self, rng):
        if rng.bit_generator.seed_seq.generate_state(1)[0] == self.word:
            super().misbehave(rng)


class AtChunk(Plain):
    """Misbehaves whenever it is asked for one chunk of a seed, known by its first random number."""

    def __init__(self, how, seed, log=None):
        super().__init__(log)
        self.how, self.word = how, seed.generate_state(1)[0]

    def misbehave(self, rng):
        if rng.bit_generator.seed_seq.generate_state(1)[0] == self.word:
            misbehave(self.how)


def misbehave(how):
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "exit":
        os._exit(3)
    elif how == "raise":
        raise ValueError("the machine is out of paper")
    elif how == "hang":
        time.sleep(600)


class Flaky(Plain):
    """Answers one pair at a time by a function that fails once in 10,000 calls, and logs that."""

    def __init__(self, log):
        super().__init__()
        self.failures, self.calls = log, 0
        self.ends = np.cumsum(self.mdp.P.toarray(), axis=1)
        self.inner = FunctionSimulator(self.step, self.n_states, self.n_actions)

    def sample(self, states, actions, rng):
        return self.inner.sample(states, actions, rng)

    def step(self, state, action, rng):
        self.calls += 1
        uniform = rng.random()
        if self.failures is not None and self.calls % 10_000 == 0:
            with open(self.failures, "a") as file:
                file.write("failed\n")
            raise ConnectionError("the line is dead")
        pair = self.mdp.pair_ptr[state] + action
        return int((uniform >= self.ends[pair, :-1]).sum()), self.mdp.r[pair]


class Unloadable(Plain):
    """Survives pickling, but not the way back."""

    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise LookupError("no such licence")


def slow_square(seconds_and_number):
    seconds, number = seconds_and_number
    time.sleep(seconds)
    return number**2


def nap(seconds):
    """Report the process, sleep, and return it; end it at once where there is less than no time."""
    report(os.getpid())
    if seconds < 0:
        os._exit(4)
    time.sleep(seconds)
    return os.getpid()


def digest_of(learned):
    counts = learned.counts
    arrays = (counts.keys, counts.times, counts.mean, counts.spread, learned.policy, learned.bias)
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
