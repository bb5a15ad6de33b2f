from .behaviour import LogAudit, audit_log
from .evaluation import Evaluation, Finding, evaluate
from .inspection import EndComponent, Inspection, inspect
from .mending import Change, Mended, mend
from .outcomes import Outcome, outcomes

__all__ = [
    "Change",
    "EndComponent",
    "Evaluation",
    "Finding",
    "Inspection",
    "LogAudit",
    "Mended",
    "Outcome",
    "audit_log",
    "evaluate",
    "inspect",
    "mend",
    "outcomes",
]
