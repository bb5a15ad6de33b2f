"""What was done and what followed: logs of records, and whether they can be believed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
