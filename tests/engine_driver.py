"""A run of a learner as a process of its own, for `test_engine.py`."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
from engine_simulators import QUOTAS, AtChunk, Plain, digest_of

from fairmdp.learning.counts import CHUNK
from fairmdp.learning.plugin import learn_plugin
from fairmdp.workers import ProcessPool, RayCluster


def drive(folder, log, chunks, killed_after, address):
    """A run of its own, which may be killed, or hang in its first chunk; prints a digest of the result.

    It is spread over processes, or over the Ray cluster with that address.
    """
    hanging = AtChunk("hang", np.random.SeedSequence(5, spawn_key=(0, 0)), log)

    def progress(done, planned, estimate):
        if done >= killed_after * CHUNK:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        RayCluster(2, address=address, folder=folder) if address else ProcessPool(2, folder=folder) as engine
    ):
        learned = learn_plugin(
            hanging if killed_after < 0 else Plain(log), QUOTAS, samples=chunks * CHUNK, seed=5, engine=engine,
            progress=progress if killed_after > 0 else None,
        )  # fmt: skip
    print(digest_of(learned))


if __name__ == "__main__":
    drive(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
