from .evaluation import Evaluation, Finding, evaluate
from .mending import Change, Mended, mend
from .outcomes import Outcome, outcomes

__all__ = ["Change", "Evaluation", "Finding", "Mended", "Outcome", "evaluate", "mend", "outcomes"]
