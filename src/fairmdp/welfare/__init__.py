"""Beyond quotas: the policy that a principle of fairness prefers, over the same polytope and with a proof.

For any prices of the utilities and any relative values, ``w r @ x + W(u)`` is at most the ceiling of the
priced model plus the conjugate of W. So a welfare needs no new oracle: column generation asks the same one,
and its master program sees W through tangents (`shapes`, `master`). `search` looks for the best mixture,
`answer` turns it into a claim, `leximin` closes one group after the other.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
