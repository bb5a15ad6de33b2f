"""The price of fairness: the best gain against what one quota owes, its cap, two quotas, or a factor on all.

That function is concave and piecewise linear where it is defined, and its slope is the price of the quota.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
