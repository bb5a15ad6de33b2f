"""How the documentation is built: ``uv run --group docs sphinx-build -W -n docs build/docs``.

Nothing is fetched: names of other packages are not linked, and figures are drawn by `figures.py`.
"""

import inspect
import sys
from pathlib import Path

from sphinx.util.inspect import TypeAliasForwardRef

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
    "numpydoc",
    "sphinx_click",
]
exclude_patterns = ["figures"]
default_role = "autolink"  # `solve` in a docstring is a link where there is such a name, else plain
autosummary_generate = False

highlight_language = "text"  # output is not code
smartquotes = False  # --option stays --option

html_theme = "furo"
html_title = f"fairmdp {release}"
html_copy_source = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["wide.css"]

myst_enable_extensions = ["attrs_inline", "deflist"]
myst_heading_anchors = 3

autodoc_default_options = {"members": True}
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("ArrayLike", "Floats", "Ints", "Bools")}
numpydoc_show_class_members = False  # autodoc lists them
numpydoc_class_members_toctree = False

# Types of other packages, and short names for them, have no page here that could be linked.
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|np|scipy|collections|os)\..*"),
    ("py:class", "ArrayLike|Axes|Floats|Ints|Bools|NDArray|Progress"),
]


def setup(app):
    """Give public names the address that users import them from, and draw the figures."""
    for name in fairmdp.__all__:
        thing = getattr(fairmdp, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            thing.__module__ = "fairmdp"
    TypeAliasForwardRef.__repr__ = lambda alias: alias.name  # Sphinx 9.0 shows its own name where types nest
    app.connect("builder-inited", lambda app: figures.draw(Path(app.srcdir) / "figures"))
