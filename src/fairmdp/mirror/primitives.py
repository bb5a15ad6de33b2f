# mypy: disable-error-code="untyped-decorator,no-any-return"
"""What every kernel is made of: random numbers, alias draws, and numbers below the smallest double.

**Random numbers.** Draw n of a stream is ``mix(key[0] + n key[1])``: SplitMix64 with a stream's own odd
increment (Steele, Lea and Flood, OOPSLA 2014), addressed by n. A run cut into chunks is thus the same
run, and a checkpoint is the arrays and the number of draws consumed.

**Numbers that underflow.** On the three-state problem log x of a bad action is -5e6 after 1e9 steps.
A weight or mass below `DEEP` is therefore stored as its negative logarithm in the same slot ("deep");
it counts as zero in sums and returns to the linear scale when it grows. Exact zeros are ``-inf``.

The loops of `kernels` and `lazy` compile these functions into themselves, and numba's disk cache does not
notice a change here. They are settled: the bytes that belong to a seed hang on every line. Loops that call
each other live in one file.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
I4 = NDArray[np.int32]
U8 = NDArray[np.uint64]

# No kernel allocates, so reference counts of the arrays are left out: their atomic updates on every call
# cost 40 % of a step. Divisions follow IEEE: no branch, and no exception out of a running kernel.
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}

DEEP = 1e-150  # below this a weight is kept as its logarithm
LOG_DEEP = float(np.log(DEEP))
DRAWS_PER_STEP = 8  # counters set aside for one step; five are used
TINY = 2.0**-53


def stream(seed: np.random.SeedSequence | int) -> U8:
    """Key of a SplitMix64 stream: a start and an odd increment with enough bit changes."""
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence(seed)
    start, gamma = (int(v) for v in seed.generate_state(2, np.uint64))
    gamma |= 1
    if (gamma ^ (gamma >> 1)).bit_count() < 24:  # the paper's guard against weak increments
        gamma ^= 0xAAAAAAAAAAAAAAAA
    return np.array([start, gamma], dtype=np.uint64)


@njit(**OPTIONS, forceinline=True)
def mix(z: np.uint64) -> np.uint64:
    """SplitMix64's output function."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(**OPTIONS, forceinline=True)
def unit(bits: np.uint64) -> float:
    """Uniform in [0, 1) with 53 bits; ``int(unit * L) < L`` for every L < 2**53."""
    return np.float64(np.int64(bits >> np.uint64(11))) * TINY


@njit(**OPTIONS, forceinline=True)
def uniform(key: U8, n: int) -> float:
    """Draw n of the stream, in [0, 1)."""
    return unit(mix(key[0] + np.uint64(n) * key[1]))


@njit(**OPTIONS, forceinline=True)
def alias_entry(row: int, row_end: int, u: float) -> tuple[int, float]:
    """Entry of an alias row and the fraction to compare with its threshold."""
    v = u * (row_end - row)
    k = int(v)
    return row + k, v - k


@njit(**OPTIONS, forceinline=True)
def alias_state(alias: F8, alias_i: I4, e: int, fraction: float) -> int:
    """Successor of an alias draw."""
    return int(alias_i[e, 2]) if fraction < alias[e, 0] else int(alias_i[e, 3])


@njit(**OPTIONS, forceinline=True)
def next_state(row: I8, alias: F8, alias_i: I4, p: int, u: float) -> int:
    """Successor of position p, from one uniform."""
    e, fraction = alias_entry(row[p], row[p + 1], u)
    return alias_state(alias, alias_i, e, fraction)


def deepen(v: F8) -> F8:
    """Weights in the mixed scale: logarithms below DEEP."""
    with np.errstate(divide="ignore"):
        return np.where(v >= DEEP, v, np.log(v))


@njit(**OPTIONS)
def shifted(v: float, d: float) -> float:
    """``v exp(-d)`` in the mixed scale."""
    if v > 0.0:
        y = v * np.exp(-d)
        return y if y >= DEEP else np.log(v) - d
    return np.exp(v - d) if v - d >= LOG_DEEP else v - d


@njit(**OPTIONS)
def rescale(w: F8, a: int, b: int) -> float:
    """Divide ``w[a:b]`` by its maximum, in logarithms; returns the log of the divisor."""
    top = -np.inf
    for p in range(a, b):
        top = max(top, np.log(w[p]) if w[p] > 0.0 else w[p])
    for p in range(a, b):
        w[p] = shifted(w[p], top) if w[p] != -np.inf else w[p]
    return top
