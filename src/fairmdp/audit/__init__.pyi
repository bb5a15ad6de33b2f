from .behaviour import LogAudit, audit_log
from .evaluation import Evaluation, Finding, evaluate
from .mending import Change, Mended, mend
from .outcomes import Outcome, outcomes

__all__ = [
    "Change",
    "Evaluation",
    "Finding",
    "LogAudit",
    "Mended",
    "Outcome",
    "audit_log",
    "evaluate",
    "mend",
    "outcomes",
]
