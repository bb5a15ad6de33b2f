"""Where tasks are done: in this process, in several that are watched, or on a cluster.

An engine is a callable like the built-in ``map``: a function and tasks in, results in the order of the tasks
out. A chunk's randomness is the seed in its task, so neither the engine nor the number of workers changes a
result; see `learn_plugin`, which takes an engine as ``engine``. Sweeps over quotas or seeds use the same
call with tasks of their own. Behind every engine, and behind the web page, stands one worker pool (`pool`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
