from . import file, welfare_file
from .solution import Check, Infeasibility, Note, QuotaRow, Remark, Solution, Status

__all__ = [
    "Check",
    "Infeasibility",
    "Note",
    "QuotaRow",
    "Remark",
    "Solution",
    "Status",
    "file",
    "welfare_file",
]
