"""What clients of a world do at every step: policies that never use more than there is, and simulation.

`policy` is used without a solver, in production too; `make` builds one from a world and its plan, and
`simulation` measures what it gains.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
