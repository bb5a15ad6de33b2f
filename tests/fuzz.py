"""What fuzz tests throw, junk, extreme numbers and damaged bytes, and what must hold of whatever comes back."""

import numpy as np
from hypothesis import strategies as st

from fairmdp import FairMDPError, Problem, Solution, Status, solve, verify

junk = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=3), st.binary(max_size=3),
    st.lists(st.floats(), max_size=4), st.just({}), st.just(np.array(["a"])), st.just(np.array([1j])), st.just(object()),
)  # fmt: skip
numbers = st.one_of(
    st.floats(), st.sampled_from([0.0, -0.0, 0.5, 1.0, 1e-300, 5e-324, 1e-17, 1e12, -1e12, 1e300, 1.7e308])
)
edits = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from("xid"), st.binary(max_size=8)),
    min_size=1,
    max_size=4,
)
cuts = st.sampled_from([1.0, 1.0, 1.0, 0.99, 0.9, 0.5, 0.1])


def mostly(good, bad):
    """Good ones four times out of five: one bad word ends a case early, and several hide each other."""
    return st.integers(0, 4).flatmap(lambda chance: bad if chance == 4 else good)


def damaged(data, changes, cut=1.0):
    """Bytes overwritten (x), inserted (i) or deleted (d) at relative places, then cut short."""
    for place, kind, piece in changes:
        at = int(place * len(data))
        data = data[:at] + (piece if kind != "d" else b"") + data[at + (len(piece) if kind != "i" else 0) :]
    return data[: int(cut * len(data))] if cut < 1 else data


def read(reader, path, data):
    """What a reader makes of a file with these bytes: a problem with an answer, a solution, or a clear refusal."""
    path.write_bytes(data)
    try:
        found = reader(path)
    except FairMDPError as error:
        assert str(error).startswith(str(path.with_suffix("")))
        return None
    if isinstance(found, Problem):
        answers_hold(found)
    else:
        assert isinstance(found, Solution)
    return found


def answers_hold(problem):
    """Whatever `solve` says of a problem, the certificate confirms, in rational arithmetic too."""
    solution = solve(problem)
    for exact in (False, True):
        verdict = verify(problem, solution, exact=exact)
        assert verdict.ok, verdict.messages
    if solution.status in (Status.OPTIMAL, Status.FEASIBLE):
        assert solution.worst_slack >= -1e-9
