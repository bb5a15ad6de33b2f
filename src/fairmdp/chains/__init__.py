"""One policy's Markov chain: closed classes, stationary distribution, bias, hitting times, mixing.

`Chain` is the interface. Behind it stand direct ways for small chains (`dense`, `factors`) and iterative ones
(`iterative`, `slow`: multigrid and GMRES); `sweeps` holds the compiled sweeps of the solvers, which ask many
chains for a few sweeps each. A transition matrix is a scipy CSR matrix, and `ChainRows` where it goes into
kernels.
Modules load at their first use, so that a chain of three states waits for no compiler.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
