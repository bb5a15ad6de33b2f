"""Policies of worlds: capacity at every step, shares over time, the same for the same seed."""

from fractions import Fraction

import numpy as np
import pytest
from worlds import random_world

import fairmdp as fm
from fairmdp.dispatch.simulation import moves_of

KINDS = ("fair", "fair_id", "index", "id", "greedy")


def jobs(clients=40, **how):
    world = fm.scenarios.job_server(clients, **how)
    return world, fm.solve_world(world)


def used_exactly(world, states, actions):
    """What all clients use together, in rationals, from the statements alone."""
    used, c = [Fraction(0)] * len(world.resources), 0
    for rows in world.blocks:
        for i, n in enumerate(rows.number):
            for _ in range(n):
                pair = rows.pair_ptr[states[c]] + actions[c]
                assert 0 <= actions[c] < rows.pair_ptr[states[c] + 1] - rows.pair_ptr[states[c]]
                for k, amount in enumerate(rows.uses[i % len(rows.uses), pair]):
                    used[k] += Fraction(float(amount))
                c += 1
    return used


@pytest.mark.parametrize("seed", range(40))
def test_no_step_uses_more_than_there_is(seed):
    """Whatever the states are, and however large the arrears have become."""
    world, rng = random_world(seed, quotas=seed % 3, caps=seed % 2), np.random.default_rng(seed)
    plan = fm.solve_world(world)
    if plan.status == "infeasible":
        with pytest.raises(fm.ProblemError, match="there is no plan to follow"):
            fm.dispatch_policy(world, plan)
        return
    policy = fm.dispatch_policy(world, plan, KINDS[seed % 5], window=1 + seed % 7)
    for _ in range(30):
        states = rng.integers(0, world.blocks[0].n_states, policy.n_clients)
        used = used_exactly(world, states, policy.act(states, rng))
        assert all(u <= Fraction(c) for u, c in zip(used, world.capacity.tolist(), strict=True))


def test_uses_that_are_no_binary_fractions_fit_as_far_as_they_fit():
    """Three times the double 0.1 is more than the double 0.3, and ten thousand times too."""
    names = ["wait", "serve"]
    mdp = fm.MDP([[1.0], [1.0]], [0, 1.0], [0, 0], actions=names)
    for n, capacity in ((3, 0.3), (10_001, 1000.0)):
        world = fm.World([fm.Components("c", mdp, count=n)], [fm.Resource("cpu", capacity, {"serve": 0.1})])
        policy = fm.dispatch_policy(world, fm.solve_world(world), "index")
        served = int(policy.act(np.zeros(n, int), np.random.default_rng(0)).sum())
        assert served * Fraction(0.1) <= Fraction(capacity) < (served + 1) * Fraction(0.1)


@pytest.mark.parametrize("kind", ["fair", "fair_id", "auto"])
def test_everybody_has_what_it_is_owed(kind):
    world, plan = jobs()
    seen = fm.simulate_world(world, fm.dispatch_policy(world, plan, kind, margin=0.01), 20_000, 3)
    assert seen.met == 1.0 and seen.worst_slack >= 0
    assert (seen.most_used <= world.capacity).all() and seen.most_used[0] == world.capacity[0]
    assert seen.gain + 3 * seen.gain_se <= plan.upper and seen.gap(plan.upper) < 0.06
    assert seen.arrears.max() < 4 * 20
    bare = fm.simulate_world(world, fm.dispatch_policy(world, plan, "index"), 4_000, 3)
    assert bare.met < 0.9 and bare.worst_slack < -0.05


def test_who_makes_a_little_more_comes_first():
    """Rewards that differ by a tenth of a percent, around the price of what is used."""
    n = 301
    rewards = np.random.default_rng(0).permutation(1 + 0.001 * np.arange(n))
    mdp = fm.MDP([[1.0], [1.0]], [0, 1.0], [0, 0], actions=["wait", "serve"])
    clients = fm.Components("c", mdp, r=np.stack([np.zeros(n), rewards], axis=1))
    world = fm.World([clients], [fm.Resource("slots", 100, {"serve": 1})])
    policy = fm.dispatch_policy(world, fm.solve_world(world), "index")
    served = policy.act(np.zeros(n, int), np.random.default_rng(0)) == 1
    assert rewards[served].min() > rewards[~served].max() and served.sum() == 100


def test_clients_change_their_policy_where_that_is_cheap():
    """Who is given up for a while is taken back at once from a short queue, and late from a long one."""
    world, plan = jobs(100)
    policy = fm.dispatch_policy(world, plan, "fair")
    (tables,) = policy.tables
    mixed = tables.columns > 1
    better = tables.shares[mixed, :2, 0].argmax(axis=1)
    leads = tables.lead[mixed, :2]
    ahead = leads[np.arange(len(leads)), better] - leads[np.arange(len(leads)), 1 - better]
    ahead = ahead[ahead.any(axis=1)]  # the others change for nothing
    assert len(ahead) > 20 and (np.diff(ahead, axis=1) <= 1e-4).all()
    assert (ahead[:, 0] > 1).all() and (ahead[:, -1] < -1).all()
    seen = fm.simulate_world(world, policy, 20_000, 1)
    assert seen.met == 1 and seen.gap(plan.upper) < 0.0075 and seen.arrears.max() < 3.25 * 20


@pytest.mark.parametrize("seed", [0, 1])
def test_what_needs_more_than_there_is_keeps_nobody_waiting(seed):
    """Two clients and one slot, where the plan in the mean now and then does two jobs in a step."""
    world = fm.scenarios.job_server(2, queue=6, seed=seed)
    best = fm.solve(world.joint())
    policy = fm.dispatch_policy(world, fm.solve_world(world), "fair", margin=0.0)
    seen = fm.simulate_world(world, policy, 50_000, 1)
    assert world.capacity == [1] and seen.met == 1 and seen.arrears.max() < 100
    assert seen.gain > 0.96 * best.gain


def test_a_reserve_makes_room_for_who_is_behind():
    """Quotas that take nearly all there is: who is given up costs more to take back than the plan knows."""
    world = fm.scenarios.gpu_tenants(100, capacity=54)
    plan = fm.solve_world(world)
    seen = [
        fm.simulate_world(world, fm.dispatch_policy(world, plan, "fair", reserve=part), 4000, 1)
        for part in (0.0, 0.08)
    ]
    assert seen[1].gain > seen[0].gain + 0.01 * plan.upper and seen[1].met > seen[0].met
    assert (seen[1].group_shares >= seen[1].group_owed).all()
    assert (seen[1].most_used <= world.capacity).all()  # the whole of it, not what prices were found for
    assert (seen[1].most_used > 0.95 * world.capacity).all()


def circling(n):
    """Gast, Gaujal and Yan's three states: arms that an index policy drives round in a circle."""
    rest = [[0.0223, 0.1023, 0.8754], [0.0343, 0.1718, 0.7939], [0.5233, 0.4552, 0.0215]]
    pull = [[0.1487, 0.3044, 0.5469], [0.5685, 0.4112, 0.0203], [0.2527, 0.2731, 0.4742]]
    P, r = np.empty((6, 3)), np.zeros(6)
    P[0::2], P[1::2], r[1::2] = rest, pull, [0.374, 0.1174, 0.0787]
    arm = fm.MDP(P, r, [0, 0, 1, 1, 2, 2], actions=["rest", "pull"] * 3)
    return [fm.Components("arm", arm, count=n)], [fm.Resource("pulls", 0.4 * n, {"pull": 1})]


def test_who_is_alike_does_not_change_its_policy_all_at_once():
    """Or all are served together, and then nobody: a third of what there is was left in the first steps."""
    world = fm.World(*circling(400), [fm.LocalQuota("pulled", 0.38, pairs=np.arange(6) % 2 == 1)])
    plan = fm.solve_world(world)
    seen = fm.simulate_world(world, fm.dispatch_policy(world, plan, "fair_id"), 300, burn_in=0.0)
    assert seen.used[0] > 0.9 * world.capacity[0]


def test_auto_tries_for_as_long_as_clients_still_fall_behind():
    """Both keep the quota, and the index goes round in circles: no start that is seen too soon hides it."""
    world = fm.World(*circling(300), [fm.LocalQuota("pulled", 0.38, pairs=np.arange(6) % 2 == 1)])
    plan = fm.solve_world(world)
    assert fm.dispatch_policy(world, plan, "auto").kind == "fair_id"


def test_components_that_are_alike_use_what_there_is():
    """One policy for all of them would use too much or too little: the plan mixes, and so does the order."""
    world = fm.World(*circling(2000))
    plan = fm.solve_world(world)
    assert plan.blocks[0].split.tolist() == [0]
    gaps = {
        kind: fm.simulate_world(world, fm.dispatch_policy(world, plan, kind), 2000).gap(plan.upper)
        for kind in ("fair", "fair_id", "id")
    }
    assert gaps["fair"] > 0.06 and gaps["fair_id"] < 0.02 and gaps["id"] < 0.02
    assert fm.dispatch_policy(world, plan, "auto").kind == "fair_id"


def test_what_is_mixed_for_all_is_found_at_the_prices_of_columns():
    """With many rows the whole program is not there to be read: the same chances from a mixture of columns."""
    (arms,), resources = circling(1)
    alike = fm.Components("arm", arms.mdp, r=np.repeat(arms.r, 300, axis=0))
    world = fm.World([alike], [fm.Resource("pulls", 120, resources[0].uses)])
    plan, whole = fm.solve_world(world), fm.solve_world(fm.World(*circling(300)))
    assert plan.method == "price decomposition" and plan.blocks[0].split.size == 300
    (block,), (one,) = plan.blocks, whole.blocks
    used = block.outcomes[:, 1]
    assert used.sum() == pytest.approx(120) and np.ptp(used) < 1e-9
    assert block.chances == pytest.approx(np.repeat(one.chances, 300, axis=0), abs=1e-5)


def test_auto_takes_no_policy_under_which_clients_fall_behind():
    """Tenants whose quotas take all there is: an index policy ends in a queue in which nobody is served well."""
    world = fm.scenarios.gpu_tenants(120)
    plan = fm.solve_world(world)
    policy = fm.dispatch_policy(world, plan, "auto")
    seen = fm.simulate_world(world, policy, 4000)
    assert policy.reserve > 0 and seen.gap(plan.upper) < 0.12 and seen.worst_slack > -0.03
    assert (seen.group_shares > 0.99 * seen.group_owed).all()
    bare = fm.simulate_world(world, fm.dispatch_policy(world, plan, "fair"), 4000)
    assert bare.gap(plan.upper) > 0.15 and (bare.group_shares < 0.96 * bare.group_owed).all()


def test_shares_are_what_accounts_say():
    """By the accounts alone: over a run a share is what is owed, plus the margin, less what arrears grew."""
    world, plan = jobs(30)
    policy = fm.dispatch_policy(world, plan, "fair", margin=0.02)
    rng, rows = np.random.default_rng(5), world.blocks[0]
    states, had, T = np.full(30, 12), np.zeros(30), 3000
    cumulative = np.cumsum
    for _ in range(T):
        pairs = rows.pair_ptr[states] + policy.act(states, rng)
        had += rows.counts[0, pairs, 0]
        for c in range(30):
            entries = slice(rows.row_ptr[pairs[c]], rows.row_ptr[pairs[c] + 1])
            step = np.searchsorted(cumulative(rows.P[c, entries]), rng.random())
            states[c] = rows.cols[entries][min(step, entries.stop - entries.start - 1)]
    owing = policy.owing[:, 0]
    grown = policy.accounts[owing, 0]
    assert (had[owing] / T >= rows.owed[owing, 0] + 0.02 - grown / T - 1e-9).all()
    assert np.isnan(policy.accounts[~owing]).all() and grown.max() < 100


def test_the_same_seed_gives_the_same_bytes():
    world, plan = jobs()
    policy = fm.dispatch_policy(world, plan, "fair")
    one, two = (fm.simulate_world(world, policy, 500, 7) for _ in range(2))
    other = fm.simulate_world(world, policy, 500, 8)
    for name in ("shares", "earned", "arrears", "used"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    assert one.gain == two.gain != other.gain
    assert (policy.accounts[policy.owing] == 0).all()  # a simulation leaves the policy as it was


def test_histories_and_progress():
    world, plan = jobs()
    told = []
    seen = fm.simulate_world(world, fm.dispatch_policy(world, plan, "fair"), 1000, progress=told.append)
    history = seen.history
    assert history.steps[-1] == 1000 == told[-1]["steps"] and len(told) == history.steps.size
    late = history.steps > seen.burn_in
    lengths = np.diff(history.steps, prepend=0)[late]
    assert lengths @ history.rewards[late] / lengths.sum() == pytest.approx(seen.gain)
    assert lengths @ history.used[late] / lengths.sum() == pytest.approx(seen.used)
    assert (np.diff(history.arrears, axis=1) >= 0).all()
    assert history.arrears.max() <= seen.arrears.max()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w, p: fm.dispatch_policy(w, p, "fare"), "kind is 'fare'; did you mean 'fair'"),
        (lambda w, p: fm.dispatch_policy(w, p, window=0.5), "window is 0.5, expected at least 1 step"),
        (lambda w, p: fm.dispatch_policy(w, p, margin=-0.1), "margin is -0.1"),
        (lambda w, p: fm.dispatch_policy(w, p, reserve=1.0), "reserve is 1.0, expected a part of the capacity"),
        (lambda w, p: fm.dispatch_policy(w, p, "fair", reserve=0.9), "with a reserve of 0.9 no policy meets the quotas"),
        (lambda w, p: fm.dispatch_policy(w, fm.solve_world(fm.scenarios.gpu_tenants(10))), "of another world"),
        (lambda w, p: fm.simulate_world(w, fm.dispatch_policy(w, p, "fair"), 30), "steps is 30, expected at least 40"),
        (lambda w, p: fm.simulate_world(fm.scenarios.job_server(41), fm.dispatch_policy(w, p, "fair"), 100), "of another world"),
        (lambda w, p: fm.dispatch_policy(w, p, "fair").act(np.zeros(3, int), np.random.default_rng(0)), r"shape \(3,\) of int64, expected \(40,\) numbers"),
        (lambda w, p: fm.dispatch_policy(w, p, "fair").act(np.full(40, 13), np.random.default_rng(0)), r"states\[0\] is 13, expected 0 to 12"),
        (lambda w, p: fm.dispatch_policy(w, p, "fair").act(np.zeros(40, int), 7), "rng is a int"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_named(call, message):
    with pytest.raises(fm.ProblemError, match=message):
        call(*jobs())


def forged(path, **changed):
    with np.load(path) as file:
        arrays = dict(file)
    for name, change in changed.items():
        name = name.replace("__", ".")
        arrays[name] = change(arrays[name].copy())
    np.savez(path, **arrays)


def put(at, value):
    def change(array):
        array.flat[at] = value
        return array

    return change


def test_a_saved_policy_goes_on_where_it_was(tmp_path):
    """With its accounts, to the byte; and what is saved again is the same file."""
    world = fm.scenarios.gpu_tenants(30, capacity=18)
    policy = fm.dispatch_policy(world, fm.solve_world(world), "fair")
    rng, states = np.random.default_rng(2), np.random.default_rng(3).integers(0, 20, (200, 30))
    for row in states[:100]:
        policy.act(row, rng)
    policy.save(tmp_path / "a.npz")
    again = fm.DispatchPolicy.load(tmp_path / "a.npz")
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert again.kind == "fair" and again.window == 20 and np.abs(policy.group_accounts).max() > 0
    one, two = np.random.default_rng(4), np.random.default_rng(4)
    for row in states[100:]:
        assert policy.act(row, one).tobytes() == again.act(row, two).tobytes()
    np.testing.assert_array_equal(policy.accounts, again.accounts)
    runs = [fm.simulate_world(world, each, 100, 1) for each in (policy, again)]
    assert runs[0].shares.tobytes() == runs[1].shares.tobytes() and runs[0].gain == runs[1].gain


def test_tables_are_of_one_type_for_the_kernels_however_they_came_about(tmp_path):
    """What may be written to is another type: half of the kernels would be compiled again, for seconds."""
    worlds = [fm.scenarios.gpu_tenants(6, capacity=4), random_world(1, quotas=1, caps=1)]
    seen = set()
    for world in worlds:
        policy = fm.dispatch_policy(world, fm.solve_world(world), "fair")
        policy.save(tmp_path / "p.npz")
        for each in (policy, fm.DispatchPolicy.load(tmp_path / "p.npz")):
            arrays = (*each.flat, *moves_of(world))
            seen.add(tuple((a.dtype, a.ndim, a.flags.writeable, a.flags.c_contiguous) for a in arrays))
    assert len(seen) == 1


def test_absurd_arrears_do_no_harm(tmp_path):
    """Accounts that somebody wrote into a file: finite is all that is asked of them."""
    world, plan = jobs()
    for kind in ("fair", "fair_id"):
        fm.dispatch_policy(world, plan, kind).save(tmp_path / "p.npz")
        forged(
            tmp_path / "p.npz", account=lambda a: np.where(np.arange(40)[:, None] % 2, 1e300, -1e300).ravel()
        )
        policy = fm.DispatchPolicy.load(tmp_path / "p.npz")
        used = used_exactly(world, np.full(40, 5), policy.act(np.full(40, 5), np.random.default_rng(0)))
        assert 0 < used[0] <= world.capacity[0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_saved(tmp_path, kind):
    for seed in (1, 3, 14):
        world = random_world(seed, quotas=2)
        plan = fm.solve_world(world)
        if plan.has_policy:
            policy = fm.dispatch_policy(world, plan, kind)
            policy.save(tmp_path / "p.npz")
            again = fm.DispatchPolicy.load(tmp_path / "p.npz")
            runs = [fm.simulate_world(world, each, 60, 1) for each in (policy, again)]
            assert runs[0].shares.tobytes() == runs[1].shares.tobytes()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"account": put(0, np.nan)}, "account: entry 0 is not finite"),
        ({"column": put(3, 7)}, "column: entry 3 is not the number of a policy"),
        ({"column": put(3, -1)}, "column: entry 3 is not the number of a policy"),
        ({"group_account": put(1, np.inf)}, "group_account: entry 1 is not finite"),
        ({"account": lambda a: a[:-1]}, "account has 29 entries, expected 30 x 1"),
        ({"kind": lambda a: np.frombuffer(b"unfair", np.uint8)}, "kind: 'unfair' is none of fair"),
        ({"numbers": put(0, 0.0)}, "window 0.0"),
        ({"numbers": put(2, 1.0)}, "reserve 1.0"),
        ({"lead__0": put(0, np.inf)}, "lead.0: entry 0 is not finite"),
        ({"capacity": put(0, np.inf)}, "capacity: entry 0 is not finite"),
        ({"row_of__0": put(0, 30)}, "row_of.0: entry 0 is not the number of a row"),
        ({"pair_ptr__0": put(1, 0)}, "pair_ptr.0: entry 0 leaves a state without an action"),
        ({"pair_ptr__0": put(1, 10**9)}, "pair_ptr.0 does not rise from 0"),
        ({"follow__0": put(0, 4)}, "follow.0: entry 0 is not an action of its state"),
        ({"most__0": put(0, -1)}, "most.0: entry 0 is not an action of its state"),
        ({"columns__0": put(0, 3)}, "columns.0: entry 0 is not a number of policies"),
        ({"group_of__0": put(0, 3)}, "group_of.0: entry 0 is not the number of a group"),
        ({"uses__0": put(3, -1.0)}, "uses.0: entry 3 is not at least 0"),
        ({"cost__0": lambda a: a * 0}, "cost.0: entry 3 is 0 where something is used"),
        ({"cost__0": put(0, 1.0)}, "cost.0: entry 0 leaves a state without a free action"),
        ({"value__0": put(0, np.nan)}, "value.0: entry 0 is not finite"),
        ({"size__0": put(2, 10**6)}, "pair_ptr.0 has 21 entries, expected 1000001"),
        ({"size__0": put(5, 2)}, "size.0 has 2 resources, expected 3"),
        ({"fairmdp_dispatch": put(0, 2)}, "this is format 2, expected 1"),
    ],
)  # fmt: skip
def test_a_forged_state_is_refused(tmp_path, changed, message):
    world = fm.scenarios.gpu_tenants(30, capacity=18)
    policy = fm.dispatch_policy(world, fm.solve_world(world), "fair")
    policy.save(tmp_path / "p.npz")
    forged(tmp_path / "p.npz", **changed)
    with pytest.raises(fm.FormatError, match="p.npz: .*" + message):
        fm.DispatchPolicy.load(tmp_path / "p.npz")
