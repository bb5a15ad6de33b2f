"""Figures in the size of a paper's column. Each function draws on the axes it is given, or on its own.

matplotlib is imported when the first figure is drawn, and pyplot never: figures belong to their caller,
and no window system is needed. The names are listed in ``__init__.pyi``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
