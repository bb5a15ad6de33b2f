"""Long-run fair policies for average-reward Markov decision processes, with proofs.

The public names are listed in ``__init__.pyi`` and imported at their first use, so that the command line
answers ``--help`` at once.
"""

import sys

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

if "IPython" in sys.modules or "marimo" in sys.modules:
    from fairmdp.views import notebook as _notebook  # noqa: F401  (shows results as tables and pictures)
