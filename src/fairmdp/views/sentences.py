"""What a solution says of itself, in sentences: its fields are data, and here are their words."""

from __future__ import annotations

from fairmdp.deadline import Stop
from fairmdp.solution.solution import Check, Note, Remark, Solution
from fairmdp.solvers.registry import REASONS, summary

_STOPS = {
    Stop.INTERRUPTED: "interrupted: this is the best of what was found by then",
    Stop.OUT_OF_TIME: "out of time: this is the best of what was found by then",
    Stop.OUT_OF_STEPS: "stopped before all steps were made",
}

_REMARKS = {
    Remark.CONNECTED: "about {0:.0e} of the gain was given up so that the policy's chain is connected",
    Remark.SLOWEST_PASSAGE: (
        "the policy passes between parts that are best kept apart, on its rarest passage once in {0:,.0f} "
        "{1}: its shares take many times that to show, and patience=N passes once in N"
    ),
    Remark.PATIENCE_TOO_SHORT: (
        "no policy was found that meets the quotas and makes each passage between its parts once in "
        "{0:,.0f} {1}"
    ),
    Remark.RAISED: "quotas were raised by {0:.0e} so that the policy's own chain meets them",
    Remark.MIXED_WITH_UNIFORM: "{0:.0%} of the time is the uniform policy's, so that the quotas are met",
    Remark.NEARLY_REDUCIBLE: (
        "the policy's chain is nearly reducible (deviation {0:.1e}): small errors in the model "
        "move its long-run shares a lot, and they take long to show"
    ),
    Remark.SHARES_UNPROVED: "the policy's chain is so nearly reducible that its shares cannot be proved",
    Remark.SEVERAL_CLASSES: (
        "the policy's chain has {0:.0f} closed classes: its long-run shares depend on the start"
    ),
    Remark.CONFLICT_MAY_SHRINK: "the conflict is large, and a part of it may be enough",
    Remark.AT_THE_EDGE: (
        "the quotas lie within rounding of what can be met: neither a fair policy nor its absence is proved"
    ),
    Remark.BEST_LEAST_SHARE: "no policy gives every group more than {0:.9g}",
    Remark.IMPOSSIBLE: "bias and prices prove that no policy meets the quotas",
    Remark.UNREACHABLE: "states that cannot be reached from the start do not count: {0:.0f}",
    Remark.ONLY_IN_THE_LIMIT: (
        "met only in the limit: runs may come as near to the quotas as one likes, and no policy was found "
        "whose runs meet them; the mean over runs may meet them (expected=True)"
    ),
    Remark.CERTIFICATES_DIFFER: "the GPU's certificate proved another status; the CPU's counts",
}


def method_text(solution: Solution) -> str:
    """Which solver answered, what it does, why it was chosen, and who stalled before or after it."""
    words = f"{solution.method}: {summary(solution.method)}".removesuffix(": ")
    if "kernel" in solution.provenance:
        words += f", {solution.provenance['kernel']} kernel"
    if solution.device == "cuda":
        words += ", on the GPU"
    if solution.reason in REASONS:
        words += f"; {REASONS[solution.reason]}"
    tried = list(solution.tried)
    if solution.method in tried:
        later = tried[tried.index(solution.method) + 1 :]
        return f"{words}; it stalled, and {' and '.join(later)} did no better"
    return f"{', then '.join(tried)}, which stalled, then {words}" if tried else words


def stop_text(stop: Stop) -> str:
    """Why a search ended early; nothing where it did not."""
    return _STOPS.get(stop, "")


_EITHER = "steps (units of time)"


def note_text(note: Note, units: str = _EITHER) -> str:
    """A remark with its number, and what that counts where it is time."""
    return _REMARKS[note.remark].format(note.value, units)


def check_text(solution: Solution) -> str:
    """Where the certificate was evaluated, if a GPU had a part in the answer."""
    if solution.device == "cpu" or Remark.CERTIFICATES_DIFFER in (note.remark for note in solution.notes):
        return ""
    return {
        Check.CPU: "solved on the GPU, certified on the CPU",
        Check.CUDA: "certified on the GPU",
        Check.BOTH: "certified on the GPU and again on the CPU",
    }[solution.check]


def note_texts(solution: Solution, units: str = _EITHER) -> tuple[str, ...]:
    """What a careful reader should know, one sentence each; time is in these units."""
    notes = (note_text(note, units) for note in solution.notes)
    texts = (stop_text(solution.stopped), *notes, check_text(solution))
    return tuple(text for text in texts if text)
