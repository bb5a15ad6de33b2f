"""How the documentation is built: ``uv run --group docs sphinx-build -W -n docs build/docs``.

Nothing is fetched: names of other packages are not linked, and figures are drawn by `figures.py`.
"""

import inspect
import sys
from pathlib import Path

import fairmdp

sys.path.insert(0, str(Path(__file__).parent))

import figures

project = "fairmdp"
author = "the fairmdp contributors"
release = version = fairmdp.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_click",
]
exclude_patterns = ["figures"]
default_role = "autolink"  # `solve` in a docstring is a link where there is such a name, else plain
autosummary_generate = False

html_theme = "furo"
html_title = f"fairmdp {release}"
html_copy_source = False

myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
napoleon_use_ivar = True
napoleon_preprocess_types = True

# Types of other packages, and our own short names for them, have no page here to link to.
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|np|scipy|matplotlib|collections|os)\..*"),
    ("py:.*", r"(ArrayLike|NDArray|ndarray|csr_array|Floats|Ints|Bools|Axes|array_like|optional|Any|Self)"),
]


def setup(app):
    """Give public names the address that users import them from, and draw the figures."""
    for name in fairmdp.__all__:
        thing = getattr(fairmdp, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            thing.__module__ = "fairmdp"
    app.connect("builder-inited", lambda app: figures.draw(Path(app.srcdir) / "figures"))
