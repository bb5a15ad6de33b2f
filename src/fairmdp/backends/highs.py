"""A linear program in HiGHS: how it is asked, asked again where it errs, and stopped in time.

Of a small program on which HiGHS has no verdict whichever way it is asked, whole numbers have one.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, sparray

from fairmdp import backends
from fairmdp.deadline import Deadline, OutOfTimeError
from fairmdp.errors import SolverError
from fairmdp.model.checks import Floats

Algorithm = Literal["simplex", "ipm", "pdlp"]
Basis = NDArray[np.int8]
"""Where simplex stands: the status of each column, then of each row."""
INFINITE = float(highspy.kHighsInf)

_TOL = 1e-9
_SOLVED = highspy.HighsModelStatus.kOptimal
_OTHER_WAYS: tuple[dict[str, Any], ...] = (
    # Presolve and a warm basis can both mislead on badly scaled chains: that there is no point is said twice.
    {"presolve": "off"},
    {"simplex_scale_strategy": 0},
    {"simplex_scale_strategy": 0, "presolve": "off"},
    {"solver": "ipm", "run_crossover": "on"},
    {"solver": "ipm", "run_crossover": "on", "presolve": "off"},
)
_WAYS_OUT_OF_THE_INTERIOR: tuple[dict[str, Any], ...] = (  # interior points end badly where there is none
    {"solver": "simplex"},
    {"solver": "simplex", "presolve": "off"},
    {"solver": "simplex", "simplex_scale_strategy": 0},
)
_SMALL = 2_000  # entries of a program that is solved in whole numbers within a second
_NO_POINT = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)


class Point(NamedTuple):
    """A point of a program: its columns, multipliers of its rows, its cost, and how much work it was."""

    columns: Floats
    row_duals: Floats
    cost: float
    iterations: int


def _refused(said: list[highspy.HighsModelStatus]) -> int:
    """How often HiGHS has said that there is no point."""
    return sum(status in _NO_POINT for status in said)


def quiet(**options: Any) -> highspy.Highs:
    """HiGHS on one thread, without a word, that answers the same each time."""
    highs = highspy.Highs()
    set_options(highs, output_flag=False, threads=1, random_seed=0, **options)
    return highs


def set_options(highs: highspy.Highs, **options: Any) -> None:
    """Set options by name."""
    for option, value in options.items():
        highs.setOptionValue(option, value)


def linear_program(
    cost: Floats, matrix: sparray | Floats, low: Floats, high: Floats, least: Floats | float = 0.0
) -> highspy.HighsLp:
    """Minimise cost @ x over x of at least `least` with ``low <= matrix @ x <= high``.

    To minimise is what HiGHS does best: its PDLP may flip the duals when it maximises.
    """
    columns = csc_array(matrix)
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = columns.shape
    lp.sense_ = highspy.ObjSense.kMinimize
    lp.col_cost_ = cost
    lp.col_lower_ = np.broadcast_to(least, cost.shape)
    lp.col_upper_ = np.full(cost.size, INFINITE)
    lp.row_lower_, lp.row_upper_ = low, high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = columns.indptr
    lp.a_matrix_.index_ = columns.indices
    lp.a_matrix_.value_ = columns.data
    return lp


class Program:
    """One linear program, whose bounds may be changed between runs; the next starts from the last basis.

    The first rows may be `conserving`: they sum to 0 in every column, but for rounding errors.
    """

    def __init__(
        self, lp: highspy.HighsLp, algorithm: Algorithm, deadline: Deadline, conserving: int = 0
    ) -> None:
        self.algorithm, self._deadline, self._conserving = algorithm, deadline, conserving
        self._whole: Point | None = None  # where whole numbers had to decide
        self.highs = quiet(
            solver=algorithm, run_crossover="off", primal_feasibility_tolerance=_TOL,
            dual_feasibility_tolerance=_TOL,
        )  # fmt: skip
        self.highs.passModel(lp)

    def solve(self) -> bool:
        """Solve; False means that HiGHS found no point within the bounds (which proves nothing yet)."""
        self._whole = None
        self._run_in_time()
        said = [self.highs.getModelStatus()]
        for way in _OTHER_WAYS if self.algorithm == "simplex" else _WAYS_OUT_OF_THE_INTERIOR:
            if said[-1] == _SOLVED or _refused(said) > 1:
                break
            self._run_afresh(**way)
            said.append(self.highs.getModelStatus())
        if said[-1] == _SOLVED:
            return True
        if _refused(said) > 1:
            return False
        if self.highs.getNumRow() * self.highs.getNumCol() <= _SMALL:
            self._whole = self._in_whole_numbers()
            return self._whole is not None
        if _refused(said) == 0:
            raise SolverError(f"HiGHS stopped with {self.highs.modelStatusToString(said[-1])}")
        return False

    @property
    def point(self) -> Point:
        """The optimum after a run, something on the way to it after one that was cut off."""
        if self._whole is not None:
            return self._whole
        solution, info = self.highs.getSolution(), self.highs.getInfo()
        return Point(
            np.array(solution.col_value),
            np.array(solution.row_dual),
            info.objective_function_value,
            int(info.simplex_iteration_count + info.ipm_iteration_count + info.pdlp_iteration_count),
        )

    @property
    def basis(self) -> Basis:
        """Basis of the last run."""
        found = self.highs.getBasis()
        return np.array([int(status) for status in (*found.col_status, *found.row_status)], np.int8)

    def start_from(self, basis: Basis) -> None:
        """Begin the next run with a basis."""
        statuses = [highspy.HighsBasisStatus(status) for status in basis.tolist()]
        columns, given = self.highs.getNumCol(), highspy.HighsBasis()
        given.col_status, given.row_status, given.valid = statuses[:columns], statuses[columns:], True
        self.highs.setBasis(given)

    def _in_whole_numbers(self) -> Point | None:
        lp = self.highs.getLp()
        columns = lp.a_matrix_.value_, lp.a_matrix_.index_, lp.a_matrix_.start_
        matrix = csc_array(columns, shape=(lp.num_row_, lp.num_col_)).toarray()
        return backends.small_lp.least_cost(
            np.array(lp.col_cost_), matrix, np.array(lp.row_lower_), np.array(lp.row_upper_),
            conserving=self._conserving, room=_TOL, check=self._deadline.check,
        )  # fmt: skip

    def _run_afresh(self, **options: Any) -> None:
        """Solve without what is known, with some options changed for this time."""
        usual = {option: self.highs.getOptionValue(option)[1] for option in options}
        self.highs.clearSolver()
        set_options(self.highs, **options)
        self._run_in_time()
        set_options(self.highs, **usual)

    def _run_in_time(self) -> None:
        if math.isfinite(self._deadline.left):  # HiGHS counts the time of all runs together
            self.highs.setOptionValue("time_limit", self.highs.getRunTime() + self._deadline.left)
        self.highs.run()
        if self.highs.getModelStatus() == highspy.HighsModelStatus.kTimeLimit:
            raise OutOfTimeError
        if self.highs.getModelStatus() == highspy.HighsModelStatus.kNotset:  # it had no time to begin
            self._deadline.check()
