"""Parts of worlds that other processes can make."""

import os
from pathlib import Path

import fairmdp as fm


def server(k):
    return fm.scenarios.job_server(150 + 50 * k, seed=k)


def cluster(k):
    return fm.scenarios.gpu_tenants(60 + 10 * k, seed=k)


class Mortal:
    """Makes the parts of a server; the process that makes part 1 dies of it, the first time."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, k):
        mark = Path(self.folder) / "died"
        if k == 1 and not mark.exists():
            mark.touch()
            os._exit(1)
        return server(k)
