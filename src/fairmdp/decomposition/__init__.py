"""The best plan of a world in the mean, by prices: `kernels` answer them row by row, `master` finds them.

Worlds of few rows are one linear program (`whole`). Nothing found here is believed before it is proved.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
