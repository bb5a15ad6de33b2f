"""Worlds: what is refused, what kernels see, the joint problem, plans, ceilings and proofs of impossibility."""

import dataclasses

import numpy as np
import pytest
from worlds import random_world, whole_optimum

import fairmdp as fm
from fairmdp.certificate.world_ceiling import ceiling_of, exact_ceiling
from fairmdp.decomposition.master import Tuning

BUNDLE = Tuning(few_rows=0)


def queue(pay=1.0):
    """Up to two jobs: one comes in half of the steps; serving one pays."""
    P = [[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0.5, 0], [0, 0, 1], [0, 0.5, 0.5]]
    return fm.MDP(
        P,
        [0, 0, pay, 0, pay],
        [0, 1, 1, 2, 2],
        states=["0", "1", "2"],
        actions=["wait", "wait", "serve", "wait", "serve"],
    )


SLOTS = fm.Resource("slots", 1, {"serve": 1})


def server(clients=2, capacity=1.0, at_least=None):
    pays = np.linspace(1, 2, clients)
    parts = fm.Components.alike("client", [queue(pay) for pay in pays])
    short = [] if at_least is None else [fm.LocalQuota("short", at_least, states=["0", "1"])]
    return fm.World([parts], [fm.Resource("slots", capacity, {"serve": 1})], short)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fm.World([]), "a world needs at least one component"),
        (lambda: fm.World([queue()], [fm.Resource("slots", 1, {"server": 1})]), "no action called 'server'; did you mean 'serve'?"),
        (lambda: fm.World([queue()], [fm.Resource("slots", 1, [0, 1, 1, 0, 1])]), "every action of state 1 uses a resource"),
        (lambda: fm.World([queue()], [fm.Resource("slots", 1, [0, 0, -1, 0, 1])]), "1/serve of component 1 uses -1.0, expected at least 0"),
        (lambda: fm.World([queue()], [SLOTS, SLOTS]), "two of the resources are called 'slots'"),
        (lambda: fm.Resource("slots", float("nan"), {}), "capacity is nan"),
        (lambda: fm.Components("c", queue(), P=[[0.5] * 9]), "chances of a pair sum to"),
        (lambda: fm.Components("c", queue(), P=[[0.5] * 8]), r"P has shape \(1, 8\), expected \(rows, 9\)"),
        (lambda: fm.Components("c", queue(), r=[[0, 0, 1, 0, np.nan]]), "this is 2/serve of c"),
        (lambda: fm.Components("c", queue(), r=np.ones((3, 5)), count=[1, 2]), "count has 2 rows, expected 3"),
        (lambda: fm.Components("c", queue(), count=0), r"count\[0\] is 0, expected at least 1"),
        (lambda: fm.Components.alike("c", [queue(), fm.MDP([[1.0]], [0], [0])]), "MDP 1 has other states or actions"),
        (lambda: fm.LocalQuota("short", 0.3), "give one of states, pairs and weights"),
        (lambda: fm.LocalQuota("short", states=[0]), "give at_least, at_most or both"),
        (lambda: server(at_least=[0.3] * 3), r"at_least has shape \(3,\), client has 2 rows"),
        (lambda: fm.World([queue()], [SLOTS], groups=[fm.GroupQuota("g", 1, states=["0"], members=[3])]), "numbers of rows, 0 to 0, or a mask"),
        (lambda: fm.World([queue()], [SLOTS], groups=[fm.GroupQuota("g", 1, states=["9"])]), "quota g: there is no state '9'|called '9'"),
        (lambda: fm.solve_world(queue()), "world is a MDP, expected a fairmdp.World"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_named(make, message):
    with pytest.raises(fm.ProblemError, match=message):
        make()


def test_rows_of_a_wrong_sum_by_rounding_are_mended():
    P = queue().P.data * (1 + 1e-10)
    world = fm.World([fm.Components("c", queue(), P=P)])
    assert np.add.reduceat(world.blocks[0].P[0], world.blocks[0].row_ptr[:-1]) == pytest.approx(1, abs=1e-15)


def test_layers_keep_groups_apart_that_share_members():
    parts = fm.Components("c", queue(), r=np.ones((3, 5)))
    groups = [
        fm.GroupQuota(n, 0.1, at_most=2.0, states=["0"], members=m)
        for n, m in (("a", [0, 1]), ("b", [2]), ("c", [1]))
    ]
    block = fm.World([parts], [SLOTS], groups=groups).blocks[0]
    pairs = {(i, int(g)) for i, row in enumerate(block.group_of) for g in row if g >= 0}
    assert pairs == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (2, 3), (1, 4), (1, 5)}
    assert block.group_of.shape[1] == 4  # at_least and at_most, twice for the row of two groups


@pytest.mark.parametrize("at_least", [None, 0.75])
def test_two_clients_side_by_side(at_least):
    """The joint optimum, the plan and its ceiling: quotas of the joint problem are those of the world."""
    world = server(at_least=at_least)
    plan, joint = fm.solve_world(world), fm.solve(world.joint())
    assert joint.status == plan.status == "optimal"
    assert joint.gain <= plan.upper + 1e-12
    assert len(world.joint().quotas) == (0 if at_least is None else 2)
    free = [server(1, 1.0, at_least), fm.World([queue(2.0)], [SLOTS])]
    assert plan.upper <= sum(fm.solve_world(w).upper for w in free) + 1e-9


def test_joint_is_exact_where_nothing_is_scarce():
    world = server(capacity=2.0)
    assert fm.solve(world.joint()).gain == pytest.approx(fm.solve_world(world).upper, rel=1e-9)
    assert world.joint().mdp.n_states == 9 and world.joint().mdp.state_name(5) == "1 | 2"


def test_joint_of_groups_and_counts():
    group = fm.GroupQuota("idle", 0.7, states=["0"])
    world = fm.World(
        [fm.Components("c", queue(), count=2)], [fm.Resource("slots", 1, {"serve": 1})], groups=[group]
    )
    solution = fm.solve(world.joint())
    assert (
        world.joint().mdp.n_pairs == 1 + 2 * 4 + 3 * 4
    )  # of 25 pairs of pairs those that take one slot at most
    assert solution.status == "optimal" and solution.quotas[0].share >= 0.7 - 1e-9
    assert solution.gain <= fm.solve_world(world).upper + 1e-12


def test_joint_of_many_is_refused():
    with pytest.raises(fm.ProblemError, match=r"20 components have 3.49e\+09 states together"):
        server(20).joint()


@pytest.mark.parametrize("tuning", [Tuning(), BUNDLE], ids=["whole", "bundle"])
@pytest.mark.parametrize("seed", range(25))
def test_random_worlds_against_the_whole_program(seed, tuning):
    world = random_world(seed, quotas=1 + seed % 3, caps=seed % 2)
    value, plan = whole_optimum(world), fm.solve_world(world, tuning=tuning)
    assert plan.method == (
        "whole program" if tuning.few_rows and value is not None else "price decomposition"
    )
    if value is None:
        assert plan.status == "infeasible"
    else:
        assert plan.status == "optimal", plan
        assert plan.upper >= value - 1e-9 * max(1, abs(value))
        assert plan.value == pytest.approx(value, rel=2e-6, abs=2e-6)
    verdict = fm.verify(world, plan, exact=seed < 6)
    assert verdict.ok and verdict.status == plan.status, verdict.messages


@pytest.mark.parametrize("seed", range(12))
def test_ceilings_hold_at_any_prices_and_exactly(seed):
    """Rounded outward: above the rational bound of the same witness, and hardly; above the optimum, anyhow."""
    world, rng = random_world(seed), np.random.default_rng(seed)
    plan = fm.solve_world(world)
    prices = rng.exponential(size=world.capacity.size + world.group_owed.size)
    witnesses = [(b.witness, rng.exponential(size=b.mu.shape)) for b in plan.blocks]
    upper, exact = ceiling_of(world, prices, witnesses), exact_ceiling(world, prices, witnesses)
    assert exact <= upper <= float(exact) + 1e-7 * (1 + abs(float(exact)))
    value = whole_optimum(world)
    assert value is None or upper >= value - 1e-9


def test_a_plan_that_lies_is_caught():
    world = fm.scenarios.job_server(60)
    plan = fm.solve_world(world)
    block = plan.blocks[0]
    assert fm.verify(world, plan).ok
    assert fm.verify(world, plan).upper == pytest.approx(plan.upper, rel=1e-12)
    forged = {
        "proves": dataclasses.replace(plan, upper=plan.upper * 0.999),
        "gain": dataclasses.replace(plan, value=plan.value * 1.0001),
        "optimal": dataclasses.replace(plan, value=plan.value * 0.9, tol=0.5),
        "in the mean": dataclasses.replace(plan, blocks=(block._replace(outcomes=block.outcomes * 1.01),)),
        "local quotas": dataclasses.replace(
            plan, blocks=(block._replace(outcomes=block.outcomes * [[1, 0.9, 1]]),)
        ),
        "no proof": dataclasses.replace(plan, status=fm.Status.INFEASIBLE),
    }
    for words, lie in forged.items():
        verdict = fm.verify(world, lie)
        assert not verdict.ok and verdict.status == "undecided", words
        assert any(words in message for message in verdict.messages), (words, verdict.messages)
    with pytest.raises(fm.ProblemError, match="the plan is of another world"):
        fm.verify(fm.scenarios.job_server(61), plan)


def test_too_little_capacity_is_proved():
    world = fm.scenarios.job_server(400, capacity=30)
    plan = fm.solve_world(world)
    assert plan.status == "infeasible" and plan.alone is None
    assert plan.shortage.available == 30 and plan.shortage.prices == [1]
    enough = fm.scenarios.job_server(400, capacity=float(np.ceil(plan.shortage.needed)))
    assert fm.solve_world(enough).status == "optimal"
    for exact in (False, True):
        assert fm.verify(world, plan, exact=exact).ok
    lie = dataclasses.replace(
        plan, shortage=dataclasses.replace(plan.shortage, needed=plan.shortage.needed + 1)
    )
    assert "are needed" in fm.verify(world, lie).messages[0]
    assert not fm.verify(enough, plan).ok


def test_clients_that_cannot_be_served_alone_are_named():
    """Half of the time is the most that a queue can be empty."""
    idle = fm.LocalQuota("idle", [0.4, 0.9, 0.6], states=["0"])
    world = fm.World([fm.Components("client", queue(), r=np.ones((3, 5)))], [SLOTS], [idle])
    plan = fm.solve_world(world)
    assert plan.status == "infeasible" and plan.shortage is None
    assert plan.alone.rows.tolist() == [1, 2] and plan.alone.sides.tolist() == [0, 0]
    assert plan.alone.reach == pytest.approx(0.5, abs=1e-8)
    for exact in (False, True):
        assert fm.verify(world, plan, exact=exact).ok
    few = dataclasses.replace(plan, alone=dataclasses.replace(plan.alone, reach=plan.alone.reach - 0.1))
    assert "may reach" in fm.verify(world, few).messages[0]
    more = dataclasses.replace(plan, alone=fm.world.Alone(np.array([0]), np.array([0]), np.array([1.0])))
    assert "it is not proved that client 1 cannot be served" in fm.verify(world, more).messages


@pytest.mark.parametrize("name", fm.scenarios.WORLDS)
def test_ready_made_worlds_by_samples_and_all_at_once(name):
    """The prices warmed up on samples are those of the world."""
    world = fm.scenarios.WORLDS[name](700)
    direct, warmed = fm.solve_world(world), fm.solve_world(world, tuning=Tuning(samples=(100, 200)))
    for plan in (direct, warmed):
        assert plan.status == "optimal" and fm.verify(world, plan).ok
    assert direct.upper == pytest.approx(warmed.upper, rel=2e-6)
    bare = fm.solve_world(world.without_quotas())
    assert bare.upper > direct.upper


def test_counts_are_as_good_as_rows():
    """A row of five is five rows; a plan for one is a plan for the other."""
    one = fm.World([fm.Components("c", queue(), count=5)], [fm.Resource("slots", 2, {"serve": 1})])
    many = fm.World(
        [fm.Components("c", queue(), r=np.tile(queue().r, (5, 1)))], [fm.Resource("slots", 2, {"serve": 1})]
    )
    assert fm.solve_world(one).upper == pytest.approx(fm.solve_world(many).upper, rel=1e-12)


def test_kinds_of_components_side_by_side():
    """Two patterns in one world: the sum of both where nothing is shared, less where something is."""
    other = fm.MDP(
        [[0.5, 0.5], [1, 0], [0.3, 0.7]], [0, 1.0, 0], [0, 1, 1], actions=["wait", "serve", "wait"]
    )
    parts = [fm.Components("a", queue(), count=30), fm.Components("b", other, count=20)]
    slots = {"a": {"serve": 1}, "b": {"serve": 2}}
    apart = [fm.solve_world(fm.World([p])).upper for p in parts]
    plenty = fm.solve_world(fm.World(parts, [fm.Resource("slots", 100, slots)]))
    scarce = fm.solve_world(fm.World(parts, [fm.Resource("slots", 10, slots)]), tuning=BUNDLE)
    assert plenty.upper == pytest.approx(sum(apart), rel=1e-9)
    assert scarce.upper == pytest.approx(10.0, rel=1e-6)  # clients of a earn 1 for a slot


def test_out_of_time_is_a_ceiling_all_the_same():
    world = fm.scenarios.job_server(600)
    plan = fm.solve_world(world, seconds=1e-9)
    assert plan.stopped == fm.Stop.OUT_OF_TIME and plan.status == "undecided"
    assert plan.upper >= fm.solve_world(world).value


def test_table_of_clients():
    world = fm.scenarios.job_server(50)
    table = fm.solve_world(world).clients(world)
    assert table["name"][:2] == ["client 1", "client 2"]
    assert sum(table["use"]) <= world.capacity[0] + 1e-6
    owed = [
        (share, asked) for share, asked in zip(table["share"], table["asked"], strict=True) if asked == asked
    ]
    assert 10 < len(owed) < 50 and all(share >= asked - 1e-6 for share, asked in owed)
