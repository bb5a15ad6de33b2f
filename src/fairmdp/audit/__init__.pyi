from .behaviour import LogAudit, audit_log
from .evaluation import Evaluation, Finding, evaluate
from .inspection import EndComponent, Inspection, inspect
from .mending import Change, Mended, mend
from .outcomes import Outcome, outcomes
from .starts import GainFrom, gains_by_start

__all__ = [
    "Change",
    "EndComponent",
    "Evaluation",
    "Finding",
    "GainFrom",
    "Inspection",
    "LogAudit",
    "Mended",
    "Outcome",
    "audit_log",
    "evaluate",
    "gains_by_start",
    "inspect",
    "mend",
    "outcomes",
]
