# mypy: disable-error-code="untyped-decorator,no-any-return"
"""What a dispatch policy does in a step, and many steps of a world, in compiled loops over clients.

Tables of all patterns lie one after the other in flat arrays. Entry (i, k) of a table of pattern b is at
``base[b] + i * stride[b] + k``; a stride of 0 means that all rows of the pattern have the same.

Loops over clients call nothing that takes a table: Numba would count references to all its arrays each time.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairmdp.chains.small import OPTIONS

INDEX, PLAN = 0, 1  # who comes first: who makes most of what it uses, or a fixed order of the clients
FINEST = 2.0**-12  # octaves from an efficiency of 1 within which steps stay the same
PER_OCTAVE = 96  # steps of the efficiencies that are told apart
KEYS = 2 * 22 * PER_OCTAVE
# Windows; see fairmdp.dispatch.policy.DispatchPolicy.
SWITCH, DEEPEST = 2.25, 3.0
LARGEST = (8.0, 3.25)  # by who comes first
_STRENGTH = 4.0  # units of price that a client pays more one window behind SWITCH; grows with the square
NEVER = 1e30  # cost of what uses more than there is
_FAR = 1e3  # windows beyond which arrears are all the same
_ARREARS = 64  # steps of arrears that the fixed order tells apart

# Columns of Flat.base and Flat.stride.
COST, USES, VALUE, SLOPE, FOLLOW, MOST, SHARES, COUNTS, OWED, UNIT, GROUP_COUNTS, GROUP_OF, CHANCE, LEAD = (
    range(14)
)
P, R, M, W, GROUP = range(5)  # and of Moves


class Flat(NamedTuple):
    """Tables of a policy, see `fairmdp.dispatch.tables.Tables`."""

    block_of: NDArray[Any]  # (N,), pattern of each client
    row_of: NDArray[Any]  # (N,), its row there
    visit: NDArray[Any]  # (N,), the fixed order
    first_state: NDArray[Any]  # (patterns,), where its states begin in pair_ptr
    n_states: NDArray[Any]  # (patterns,)
    n_pairs: NDArray[Any]  # (patterns,)
    n_layers: NDArray[Any]  # (patterns,), group quotas that a row can be part of
    pair_ptr: NDArray[Any]  # pairs of states, numbered from 0 in each pattern
    base: NDArray[Any]  # (patterns, 14)
    stride: NDArray[Any]  # (patterns, 14)
    floats: NDArray[np.float32]  # value, slope, cost, chance, lead
    doubles: NDArray[np.float64]  # uses, counts, owed, unit, shares, group counts
    shorts: NDArray[np.int16]  # follow, most
    groups: NDArray[np.int64]
    columns: NDArray[np.int64]  # of each row of all patterns: how many policies it mixes
    first_row: NDArray[np.int64]  # (patterns,)
    capacity: NDArray[np.float64]  # (K,)
    group_owed: NDArray[np.float64]  # (G,)
    group_size: NDArray[np.float64]  # (G,)
    group_unit: NDArray[np.float64]  # (G,)
    group_least: NDArray[np.float64]  # (G,), the lowest that a correction of the price may be


class Moves(NamedTuple):
    """Transitions and rewards of the clients, and what they count for the quotas of a world."""

    row_ptr: NDArray[Any]  # transitions of pairs, from 0 in each pattern
    first_pair: NDArray[Any]  # (patterns,), where its pairs begin in row_ptr
    cols: NDArray[np.int32]
    first_entry: NDArray[Any]  # (patterns,), where its transitions begin in cols
    base: NDArray[Any]  # (patterns, 5)
    stride: NDArray[Any]
    n_layers: NDArray[Any]  # (patterns,)
    P: NDArray[np.float64]
    r: NDArray[np.float64]
    counts: NDArray[np.float64]
    group_counts: NDArray[np.float64]
    group_of: NDArray[np.int64]


class Seen(NamedTuple):
    """Sums over steps."""

    rewards: NDArray[np.float64]  # (T,), of all clients in each step
    earned: NDArray[np.float64]  # (N,)
    had: NDArray[np.float64]  # (N, J)
    group_had: NDArray[np.float64]  # (G,)
    used: NDArray[np.float64]  # (K,)
    most_used: NDArray[np.float64]  # (K,), in one step
    arrears: NDArray[np.float64]  # (N,), the largest in one step


class State(NamedTuple):
    """What a policy remembers."""

    account: NDArray[np.float64]  # (N, J), steps by which a client is behind what it is owed
    column: NDArray[np.int64]  # (N,), policy of its plan that it follows
    group_account: NDArray[np.float64]  # (G,), steps of all members by which a group is behind


class Work(NamedTuple):
    """Room for the offers of one step."""

    client: NDArray[np.int64]
    pair: NDArray[np.int64]
    key: NDArray[np.int64]
    use: NDArray[np.float64]  # (offers, K)
    order: NDArray[np.int64]
    begin: NDArray[np.int64]  # (KEYS + 1,)
    held: NDArray[np.float64]  # (N, K), what clients use
    used: NDArray[np.float64]  # (K,)
    rest: NDArray[np.float64]  # (K,), what rounding has left out of used
    next_used: NDArray[np.float64]  # (K,)
    next_rest: NDArray[np.float64]  # (K,)
    behind: NDArray[np.float64]  # (N,), largest arrears of each client in windows
    had: NDArray[np.float64]  # (G,)
    v: NDArray[np.float64]


@njit(**OPTIONS)
def _random(seed: Any) -> tuple[Any, float]:
    """Next state of a generator (SplitMix64), and a number in [0, 1)."""
    seed = seed + np.uint64(0x9E3779B97F4A7C15)
    z = seed
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return seed, float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(**OPTIONS)
def _key(efficiency: float) -> int:
    """Step of an efficiency, the best first: the closer to 1, where offers stop to pay, the finer."""
    mantissa, exponent = math.frexp(efficiency)
    octaves = exponent - 1 + (2.0 * mantissa - 1.0)  # above 1, a line in each of them
    mantissa, exponent = math.frexp(1.0 + abs(octaves) / FINEST)
    step = min(int((exponent - 1 + (2.0 * mantissa - 1.0)) * PER_OCTAVE), KEYS // 2 - 1)
    return KEYS // 2 - 1 - step if octaves > 0.0 else KEYS // 2 + step


@njit(**OPTIONS)
def _follow(flat: Flat, state: State, work: Work, window: float, states: NDArray[Any]) -> None:
    """Say how far each client is behind, and choose the policy of its plan that it follows.

    Where it is in a state from which all of them can begin alike, it keeps the one that it has until it is
    far behind or ahead.
    """
    J = state.account.shape[1]
    for c in range(work.behind.size):
        b, i = flat.block_of[c], flat.row_of[c]
        owed = flat.base[b, OWED] + i * flat.stride[b, OWED]
        most, outside = -np.inf, False
        for j in range(J):
            if flat.doubles[owed + j] > -np.inf:
                d = state.account[c, j] / window
                most = max(most, min(d, _FAR))
                outside = outside or abs(d) > SWITCH
        work.behind[c] = most
        columns, S = flat.columns[flat.first_row[b] + i], flat.n_states[b]
        if columns > 1:
            shares = flat.base[b, SHARES] + i * flat.stride[b, SHARES]
            lead = flat.base[b, LEAD] + i * flat.stride[b, LEAD] + states[c]
            best, choice = -np.inf, 0
            for column in range(columns):
                value = float(flat.floats[lead + column * S])
                outside = outside or value != 0.0
                for j in range(J):
                    if flat.doubles[owed + j] > -np.inf:
                        value += state.account[c, j] / window * flat.doubles[shares + column * J + j]
                if value > best:
                    best, choice = value, column
            if outside:
                state.column[c] = choice


@njit(**OPTIONS)
def _offers(
    flat: Flat, state: State, work: Work, order: int, accounts: bool, window: float, states: NDArray[Any],
    actions: NDArray[Any], seed: Any,
) -> tuple[int, Any]:  # fmt: skip
    """Give every client its best free action, and list what else it could do; returns how many offers."""
    N, J, K, n = states.size, state.account.shape[1], flat.capacity.size, 0
    seed, u = _random(seed)
    start = min(int(u * N), N - 1)
    v = work.v
    for visited in range(N):
        if order == PLAN:
            c = flat.visit[visited]
        else:
            c = visited + start
            if c >= N:
                c -= N
        b, i = flat.block_of[c], flat.row_of[c]
        s = flat.first_state[b] + states[c]
        p0, p1 = flat.pair_ptr[s], flat.pair_ptr[s + 1]
        for k in range(K):
            work.held[c, k] = 0.0
        behind = work.behind[c] if accounts else -np.inf
        SA = flat.n_pairs[b]
        at = flat.base[b, VALUE] + i * flat.stride[b, VALUE] + state.column[c] * SA
        for pair in range(p0, p1):
            v[pair - p0] = flat.floats[at + pair]
        if accounts:
            slope = flat.base[b, SLOPE] + i * flat.stride[b, SLOPE]
            if behind > SWITCH:
                owed = flat.base[b, OWED] + i * flat.stride[b, OWED]
                for j in range(J):
                    d = min(state.account[c, j] / window, _FAR)
                    if d > SWITCH and flat.doubles[owed + j] > -np.inf:
                        unit = flat.doubles[flat.base[b, UNIT] + i * flat.stride[b, UNIT] + j]
                        more = _STRENGTH * (d - SWITCH) ** 2 * unit
                        for pair in range(p0, p1):
                            v[pair - p0] += more * flat.floats[slope + j * SA + pair]
            for layer in range(flat.n_layers[b]):
                g = flat.groups[flat.base[b, GROUP_OF] + i * flat.stride[b, GROUP_OF] + layer]
                if g >= 0:
                    more = max(flat.group_unit[g] * state.group_account[g] / window, flat.group_least[g])
                    for pair in range(p0, p1):
                        v[pair - p0] += more * flat.floats[slope + (J + layer) * SA + pair]
        cost = flat.base[b, COST] + i * flat.stride[b, COST]
        now = -1
        for pair in range(p0, p1):
            if flat.floats[cost + pair] == 0.0 and (now < 0 or v[pair - p0] > v[now - p0]):
                now = pair
        actions[c] = now - p0
        wanted = -1
        if accounts and behind > LARGEST[order]:
            j = 0
            for other in range(1, J):
                if state.account[c, other] > state.account[c, j]:
                    j = other
            S = flat.n_states[b]
            at = flat.base[b, MOST] + i * flat.stride[b, MOST] + j * S + states[c]
            wanted = p0 + flat.shorts[at]
        elif order == PLAN and (not accounts or flat.columns[flat.first_row[b] + i] == 1):
            seed, u = _random(seed)
            at = flat.base[b, CHANCE] + i * flat.stride[b, CHANCE]
            wanted = p0
            while wanted < p1 - 1 and u >= flat.floats[at + wanted]:
                u -= flat.floats[at + wanted]
                wanted += 1
        elif order == PLAN:
            S = flat.n_states[b]
            at = flat.base[b, FOLLOW] + i * flat.stride[b, FOLLOW] + state.column[c] * S + states[c]
            wanted = p0 + flat.shorts[at]
        if wanted >= 0 and flat.floats[cost + wanted] < NEVER:
            if flat.floats[cost + wanted] == 0.0:
                actions[c] = wanted - p0
                continue
            key = _ARREARS
            if behind > SWITCH:
                key = max(0, _ARREARS - 1 - int(16.0 * (behind - SWITCH)))
            at = flat.base[b, USES] + i * flat.stride[b, USES] + wanted * K
            work.client[n], work.pair[n], work.key[n] = c, wanted, key
            for k in range(K):
                work.use[n, k] = flat.doubles[at + k]
            n += 1
            continue
        paid, worth = 0.0, v[now - p0]
        while True:
            best, choice = 0.0, -1
            for pair in range(p0, p1):
                more = flat.floats[cost + pair] - paid
                if more > 0.0 and v[pair - p0] > worth:
                    efficiency = (v[pair - p0] - worth) / more
                    if efficiency > best:
                        best, choice = efficiency, pair
            if choice < 0:
                break
            at = flat.base[b, USES] + i * flat.stride[b, USES] + choice * K
            work.client[n], work.pair[n], work.key[n] = c, choice, _key(best)
            for k in range(K):
                work.use[n, k] = flat.doubles[at + k]
            n += 1
            paid, worth = flat.floats[cost + choice], v[choice - p0]
    return n, seed


@njit(**OPTIONS)
def _sum(a: float, b: float) -> tuple[float, float]:
    """``a + b`` as a number, and what rounding has left out of it."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@njit(**OPTIONS)
def _fill(flat: Flat, work: Work, n: int, states: NDArray[Any], actions: NDArray[Any]) -> None:
    """Take offers in the order of their keys while they fit."""
    K, begin = flat.capacity.size, work.begin
    begin[:] = 0
    for o in range(n):
        begin[work.key[o] + 1] += 1
    for key in range(KEYS):
        begin[key + 1] += begin[key]
    for o in range(n):
        work.order[begin[work.key[o]]] = o
        begin[work.key[o]] += 1
    work.used[:] = 0.0
    work.rest[:] = 0.0
    for rank in range(n):
        o = work.order[rank]
        c = work.client[o]
        fits = True
        for k in range(K):
            total, rest = _sum(work.used[k], work.use[o, k])
            total, more = _sum(total, -work.held[c, k])
            work.next_used[k], work.next_rest[k] = total, work.rest[k] + rest + more
            fits = fits and (total - flat.capacity[k]) + work.next_rest[k] <= 0.0
        if fits:
            b = flat.block_of[c]
            actions[c] = work.pair[o] - flat.pair_ptr[flat.first_state[b] + states[c]]
            for k in range(K):
                work.held[c, k] = work.use[o, k]
                work.used[k], work.rest[k] = work.next_used[k], work.next_rest[k]


@njit(**OPTIONS)
def _settle(
    flat: Flat, state: State, work: Work, window: float, states: NDArray[Any], actions: NDArray[Any]
) -> None:
    """Book what clients and groups were owed in this step, and what they had."""
    J, G = state.account.shape[1], flat.group_owed.size
    for g in range(G):
        work.had[g] = 0.0
    for c in range(states.size):
        b, i = flat.block_of[c], flat.row_of[c]
        pair = flat.pair_ptr[flat.first_state[b] + states[c]] + actions[c]
        counts = flat.base[b, COUNTS] + i * flat.stride[b, COUNTS] + pair * J
        owed = flat.base[b, OWED] + i * flat.stride[b, OWED]
        for j in range(J):
            if flat.doubles[owed + j] > -np.inf:
                d = state.account[c, j] + flat.doubles[owed + j] - flat.doubles[counts + j]
                state.account[c, j] = max(d, -DEEPEST * window)
        L = flat.n_layers[b]
        for layer in range(L):
            g = flat.groups[flat.base[b, GROUP_OF] + i * flat.stride[b, GROUP_OF] + layer]
            if g >= 0:
                at = flat.base[b, GROUP_COUNTS] + i * flat.stride[b, GROUP_COUNTS] + pair * L + layer
                work.had[g] += flat.doubles[at]
    for g in range(G):
        y = state.group_account[g] + (flat.group_owed[g] - work.had[g]) / flat.group_size[g]
        state.group_account[g] = max(y, -DEEPEST * window)


@njit(**OPTIONS)
def decide(
    flat: Flat, state: State, work: Work, order: int, accounts: bool, window: float, states: NDArray[Any],
    actions: NDArray[Any], seed: Any,
) -> Any:  # fmt: skip
    """Fill in the actions of one step and book them; returns the next state of the generator."""
    if accounts:
        _follow(flat, state, work, window, states)
    n, seed = _offers(flat, state, work, order, accounts, window, states, actions, seed)
    _fill(flat, work, n, states, actions)
    if accounts:
        _settle(flat, state, work, window, states, actions)
    return seed


@njit(**OPTIONS)
def run(
    flat: Flat, moves: Moves, state: State, work: Work, order: int, accounts: bool, window: float,
    states: NDArray[Any], actions: NDArray[Any], seed: Any, seen: Seen,
) -> Any:  # fmt: skip
    """Steps of a world, counted in seen; returns the next state of the generator."""
    J = seen.had.shape[1]
    for step in range(seen.rewards.size):
        seed = decide(flat, state, work, order, accounts, window, states, actions, seed)
        for k in range(seen.used.size):
            used = work.used[k] + work.rest[k]
            seen.used[k] += used
            seen.most_used[k] = max(seen.most_used[k], used)
        total = 0.0
        for c in range(states.size):
            b, i = flat.block_of[c], flat.row_of[c]
            pair = flat.pair_ptr[flat.first_state[b] + states[c]] + actions[c]
            reward = moves.r[moves.base[b, R] + i * moves.stride[b, R] + pair]
            total += reward
            seen.earned[c] += reward
            counts = moves.base[b, M] + i * moves.stride[b, M] + pair * J
            for j in range(J):
                seen.had[c, j] += moves.counts[counts + j]
            for layer in range(moves.n_layers[b]):
                g = moves.group_of[moves.base[b, GROUP] + i * moves.stride[b, GROUP] + layer]
                if g >= 0:
                    at = moves.base[b, W] + i * moves.stride[b, W] + pair * moves.n_layers[b] + layer
                    seen.group_had[g] += moves.group_counts[at]
            for j in range(state.account.shape[1]):
                seen.arrears[c] = max(seen.arrears[c], state.account[c, j])
            seed, u = _random(seed)
            e, last = moves.row_ptr[moves.first_pair[b] + pair], moves.row_ptr[moves.first_pair[b] + pair + 1]
            chances = moves.base[b, P] + i * moves.stride[b, P]
            while e < last - 1 and u >= moves.P[chances + e]:
                u -= moves.P[chances + e]
                e += 1
            states[c] = moves.cols[moves.first_entry[b] + e]
        seen.rewards[step] = total
    return seed
