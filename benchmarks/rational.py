"""Fair average-reward MDPs in whole numbers, to compare answers with. Shares no code with the package.

A `Twin` reads the data of a problem (probabilities, rewards, weights and bounds, each float at face value,
rows divided by their exact sums) and answers in fractions: the best gain, the largest share, the largest
factor on what is owed, and the long run of a policy. Linear programs are solved by the simplex method of two
phases with Bland's rule, on whole numbers after Bareiss, so that nothing is rounded and every run ends.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any

Row = list[Fraction]
NOTHING = Fraction(0)


def maximum(
    A: Sequence[Sequence[Fraction | int]], b: Sequence[Fraction | int], c: Sequence[Fraction | int]
) -> Fraction | None:
    """Largest ``c @ x`` with ``A @ x == b``, ``x >= 0``, if it is bounded; None if there is no such x."""
    n, m = len(c), len(A)
    # Each variable in a unit of its own: probabilities that were divided by their sums become whole.
    units = [lcm(*(Fraction(v).denominator for v in column)) for column in zip(*A, strict=True)]
    A, c = ([[v * u for v, u in zip(line, units, strict=True)] for line in lines] for lines in (A, [c]))
    # Variables from n on are artificial: basic at first, and without a column, since none comes back.
    table = [
        _whole([*line, right] if right >= 0 else [-v for v in (*line, right)])[0]
        for line, right in zip(A, b, strict=True)
    ]
    goal, unit = _whole([-v for v in c[0]])
    table.append([*goal, 0])
    # The sum of the artificial variables, in terms of the others: what the first phase makes small.
    table.append([-sum(column) for column in zip(*table[:m], strict=True)])
    basis, size = list(range(n, n + m)), 1
    size = _descend(table, basis, size, m, n, m + 1)
    if table.pop()[-1] != 0:
        return None
    for r in range(m):  # artificial variables that are 0 and still basic
        c_in = next((j for j in range(n) if table[r][j]), None) if basis[r] >= n else None
        if c_in is not None:
            if table[r][c_in] < 0:
                table[r] = [-v for v in table[r]]
            size = _pivot(table, basis, r, c_in, size)
    size = _descend(table, basis, size, m, n, m)
    return table[m][-1] / (size * unit)


def _whole(values: Iterable[Fraction | int]) -> tuple[list[int], Fraction]:
    """Values as the smallest whole numbers in the same proportions, and what they were multiplied by."""
    fractions = [Fraction(v) for v in values]
    unit = lcm(*(v.denominator for v in fractions))
    whole = [int(v * unit) for v in fractions]
    common = gcd(*whole) or 1
    return [v // common for v in whole], Fraction(unit, common)


def _descend(table: list[list[int]], basis: list[int], size: int, m: int, n: int, goal: int) -> int:
    """Pivot until no column improves the goal row."""
    while True:
        c = next((j for j in range(n) if table[goal][j] < 0), None)
        if c is None:
            return size
        r = None
        for i in range(m):
            if table[i][c] <= 0:
                continue
            ahead = 0 if r is None else table[i][-1] * table[r][c] - table[r][-1] * table[i][c]
            if r is None or ahead < 0 or (ahead == 0 and basis[i] < basis[r]):
                r = i
        assert r is not None, "the program is not bounded"
        size = _pivot(table, basis, r, c, size)


def _pivot(table: list[list[int]], basis: list[int], r: int, c: int, size: int) -> int:
    """Make column c basic in row r; entries stay whole, as minors of the first table."""
    pivot, row = table[r][c], table[r]
    for i, line in enumerate(table):
        if i != r:
            by = line[c]
            table[i] = [(pivot * v - by * w) // size for v, w in zip(line, row, strict=True)]
    basis[r] = c
    return pivot


def solution_of(A: list[Row], b: Row) -> Row | None:
    """Solution of a square system, None where there is none or more than one."""
    n = len(A)
    A = [[*row, right] for row, right in zip(A, b, strict=True)]
    for c in range(n):
        p = next((r for r in range(c, n) if A[r][c]), None)
        if p is None:
            return None
        A[c], A[p] = A[p], A[c]
        A[c] = [v / A[c][c] for v in A[c]]
        for r in range(n):
            if r != c and A[r][c]:
                A[r] = [a - A[r][c] * v for a, v in zip(A[r], A[c], strict=True)]
    return [row[n] for row in A]


class Twin:
    """A problem in fractions; shares of weighted quotas are means of the weights, scaled to [0, 1]."""

    def __init__(self, problem: Any) -> None:
        mdp = problem.mdp
        self.s_of, self.S, self.n = mdp.s_of.tolist(), mdp.n_states, mdp.n_pairs
        rows = [[Fraction(p) for p in row] for row in mdp.P.toarray().tolist()]
        self.rows = [[p / sum(row) for p in row] for row in rows]
        self.r = [Fraction(value) for value in mdp.r.tolist()]
        self.span = max(self.r) - min(self.r) or max(map(abs, self.r)) or Fraction(1)
        self.counts: list[Row] = []
        self.ends: list[tuple[Fraction, Fraction]] = []  # weights that are shares of 0 and 1
        self.low: Row = []
        self.high: Row = []
        stated = zip(
            problem.weights.toarray().tolist(), problem.weighted, problem.lower, problem.upper, strict=True
        )
        for weights, weighted, lower, upper in stated:
            a = [Fraction(w) for w in weights]
            least, most = (min(a), max(a)) if weighted else (Fraction(0), Fraction(1))
            self.ends.append((least, most))
            self.counts.append([(w - least) / (most - least) for w in a])
            self.low.append((Fraction(float(lower)) - least) / (most - least))
            self.high.append((Fraction(float(upper)) - least) / (most - least))
        self._balance = [
            [(s == t) - row[t] for s, row in zip(self.s_of, self.rows, strict=True)]
            for t in range(self.S - 1)
        ]
        self._found: dict[Any, Fraction | None] = {}

    def share(self, k: int, stated: float) -> Fraction:
        """A bound in the units of a quota as a share."""
        least, most = self.ends[k]
        return (Fraction(stated) - least) / (most - least)

    def best(
        self,
        value: Row | None = None,
        *,
        low: Row | None = None,
        high: Row | None = None,
        quotas: Iterable[int] | None = None,
    ) -> Fraction | None:
        """Largest mean of a value, by default the reward, under bounds, by default those of the problem."""
        low, high = self.low if low is None else low, self.high if high is None else high
        return self._program(self.r if value is None else value, low, high, quotas)

    def largest_factor(self, room: Fraction = NOTHING) -> Fraction | None:
        """Largest factor on everything that is owed such that the quotas can be met, beside the caps."""
        return self._program(None, self.low, self.relaxed(room)[1], None)

    def relaxed(self, room: Fraction) -> tuple[Row, Row]:
        """Bounds that may be missed by so much."""
        return [low - room for low in self.low], [high + room for high in self.high]

    def _program(
        self, value: Row | None, low: Row, high: Row, quotas: Iterable[int] | None
    ) -> Fraction | None:
        """Answer of a program, which methods of the same problem ask for again and again."""
        key = tuple(None if part is None else tuple(part) for part in (value, low, high, quotas))
        if key not in self._found:
            self._found[key] = self._solved(*key)
        return self._found[key]

    def _solved(
        self, value: Row | None, low: Row, high: Row, quotas: Iterable[int] | None
    ) -> Fraction | None:
        """Over occupancies, then the factor if it is what is to be large, then one slack for each bound."""
        factor, n = value is None, self.n
        bounded = []
        for k in range(len(self.counts)) if quotas is None else quotas:
            if low[k] > 0:
                bounded.append((self.counts[k], low[k], -1))
            if high[k] < 1:
                bounded.append((self.counts[k], high[k], 1))
        A: list[list[Any]] = [[*row, *[0] * (factor + len(bounded))] for row in self._balance]
        A.append([1] * n + [0] * (factor + len(bounded)))
        b: list[Any] = [0] * (self.S - 1) + [1]
        for k, (count, bound, sign) in enumerate(bounded):
            scaled = factor and sign < 0
            own = [-bound if scaled else 0] if factor else []
            A.append([*count, *own, *(sign if j == k else 0 for j in range(len(bounded)))])
            b.append(0 if scaled else bound)
        c = [0] * n + [1] if value is None else value
        return maximum(A, b, [*c, *[0] * len(bounded)])

    def long_run(self, policy: Iterable[float]) -> Row | None:
        """Share of each pair under a policy, None where there are several closed classes."""
        weights = [Fraction(p) for p in policy]
        sums = [sum(p for p, s in zip(weights, self.s_of, strict=True) if s == t) for t in range(self.S)]
        pi = [p / sums[s] for p, s in zip(weights, self.s_of, strict=True)]
        Q = [[Fraction(0)] * self.S for _ in range(self.S)]
        for p, s, row in zip(pi, self.s_of, self.rows, strict=True):
            Q[s] = [q + p * move for q, move in zip(Q[s], row, strict=True)]
        A = [[(s == t) - Q[s][t] for s in range(self.S)] for t in range(self.S - 1)]
        nu = solution_of([*A, [Fraction(1)] * self.S], [Fraction(0)] * (self.S - 1) + [Fraction(1)])
        return nu and [nu[s] * p for p, s in zip(pi, self.s_of, strict=True)]

    def shares(self, x: Row) -> Row:
        """Share of every quota."""
        return [sum((w * p for w, p in zip(count, x, strict=True)), Fraction(0)) for count in self.counts]

    def ceiling(self, bias: Iterable[float], prices: Iterable[float]) -> Fraction:
        """What relative values and prices prove: no fair policy earns more."""
        h, mu = [Fraction(v) for v in bias], [Fraction(v) for v in prices]
        raised = [
            r + sum(m * count[i] for m, count in zip(mu, self.counts, strict=True))
            for i, r in enumerate(self.r)
        ]
        top = max(
            raised[i] + sum(p * v for p, v in zip(row, h, strict=True)) - h[s]
            for i, (s, row) in enumerate(zip(self.s_of, self.rows, strict=True))
        )
        return top - sum(m * (self.low[k] if m > 0 else self.high[k]) for k, m in enumerate(mu) if m)
