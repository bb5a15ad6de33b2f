"""The solvers: each has a name, settings, a reason to skip a problem, and an untimed preparation.

They are imported one at a time: OR-tools and HiGHS bring two versions of one library, which do not get along
in one process.
"""

import importlib

SOLVERS = {  # name: (module, class, its arguments)
    **{
        name: ("ours", "Ours", name)
        for name in ("auto", "dual", "colgen", "proximal", "lp", "ipm", "interior")
    },
    **{f"highs_{name}": ("highs", "Highs", name) for name in ("simplex", "ipm", "hipo", "pdlp")},
    "highs_pdlp_polished": ("highs", "PolishedPdlp"),
    "ortools_pdlp": ("ortools_pdlp", "OrtoolsPdlp"),
    "clarabel": ("clarabel_lp", "Clarabel"),
}


def solver(name):
    """Return a solver by its name."""
    module, kind, *arguments = SOLVERS[name]
    return getattr(importlib.import_module(f"benchmarks.solvers.{module}"), kind)(*arguments)
