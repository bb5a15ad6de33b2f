"""Whether a simulator takes its random numbers from the generator that it is given."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairmdp.errors import SimulatorError
from fairmdp.learning.counts import Counts, ask
from fairmdp.model.simulator import Simulator

NOT_REPEATABLE = (
    "two calls with equal generators were answered differently: the simulator has random numbers or a memory "
    "of its own, so this result cannot be repeated from its seed, and a claim holds only if its answers are "
    "independent of each other"
)
DEPENDENT = (
    "calls with different generators were answered alike although answers are random: the simulator has "
    "random numbers of its own and starts them anew, so its answers are not independent"
)

_ASKED = 64  # answers per call
_CHANCE = 1e-9  # below which equal answers are no accident


def probe(simulator: Simulator, counts: Counts, seeds: Iterator[np.random.SeedSequence]) -> str | None:
    """Ask twice with equal generators and once with another one; say what does not fit, if anything.

    Examples
    --------
    >>> from fairmdp import FunctionSimulator, scenarios
    >>> from fairmdp.learning.counts import sample_chunk, seed_stream
    >>> own = np.random.default_rng()
    >>> simulator = FunctionSimulator(lambda state, action, rng: (int(own.random() < 0.5), 0.0), 2, 1)
    >>> counts = sample_chunk(simulator, np.arange(1000) % 2, np.random.SeedSequence(0))
    >>> probe(simulator, counts, seed_stream(0, 3)) == NOT_REPEATABLE
    True
    """
    pairs = np.resize(np.flatnonzero(counts.per_pair), _ASKED)
    seed, other = next(seeds), next(seeds)
    try:
        first, again, elsewhere = (ask(simulator, pairs, each) for each in (seed, seed, other))
    except SimulatorError:  # now and then it fails; of the samples that were drawn this says nothing
        return None
    if not all(np.array_equal(a, b) for a, b in zip(first, again, strict=True)):
        return NOT_REPEATABLE
    alike = np.asarray(counts.frequencies.power(2).sum(axis=1)).ravel()  # that two successors are the same
    if np.array_equal(first[0], elsewhere[0]) and np.log(alike[pairs]).sum() < np.log(_CHANCE):
        return DEPENDENT
    return None
