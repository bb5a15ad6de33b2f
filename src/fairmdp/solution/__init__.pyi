from . import ends_file, file, welfare_file
from .ends import End, Ends
from .solution import Check, Infeasibility, Note, QuotaRow, Remark, Solution, Status

__all__ = [
    "Check",
    "End",
    "Ends",
    "Infeasibility",
    "Note",
    "QuotaRow",
    "Remark",
    "Solution",
    "Status",
    "ends_file",
    "file",
    "welfare_file",
]
