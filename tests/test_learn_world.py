"""Worlds learned from records: what is counted, what the ceiling claims of the true world, what is refused."""

import numpy as np
import pytest
from worlds import random_world

import fairmdp as fm
from fairmdp.certificate.world_confidence import confident_ceiling


def drawn(world, rng, often):
    """Counts of so many transitions of every pair of every row, from the true chances."""
    found = []
    for rows in world.blocks:
        counts = np.zeros((rows.size, rows.cols.size))
        for i in range(rows.size):
            for a, b in zip(rows.row_ptr[:-1], rows.row_ptr[1:], strict=True):
                counts[i, a:b] = rng.multinomial(often, rows.P[i % len(rows.P), a:b])
        found.append(counts)
    return found


def worlds():
    """Small worlds that can be served, without slack everywhere."""
    found = (random_world(seed, rows=3) for seed in range(60))
    return [world for world in found if fm.solve_world(world).status == "optimal"][:6]


@pytest.mark.parametrize("often", [20, 300])
def test_no_ceiling_is_below_the_true_optimum(often):
    """With probability 0.6 or more each; Hoeffding's bound is far from tight, so that none is."""
    rng, below, runs = np.random.default_rng(5), 0, 0
    for world in worlds():
        true = fm.solve_world(world)
        for _ in range(5):
            seen = fm.learn_world(world, drawn(world, rng, often), drawn(world, rng, often), delta=0.4)
            runs += 1
            below += seen.upper < true.value - 1e-9
            assert seen.confidence == 0.6 and seen.unseen == 0 and seen.least_seen == 2 * often
            estimate = seen.world.blocks[0].P
            assert np.add.reduceat(estimate, world.blocks[0].row_ptr[:-1], axis=1) == pytest.approx(1)
    assert below == 0 and runs == 30


def test_estimates_alone_are_often_below(often=20):
    """Without the radius the same ceilings are wrong every other time: the test above can fail."""
    rng, below = np.random.default_rng(5), 0
    for world in worlds():
        true = fm.solve_world(world)
        for _ in range(5):
            plan = fm.learn_world(world, drawn(world, rng, often), drawn(world, rng, often)).plan
            below += plan.upper < true.value - 1e-9
    assert below >= 5


def test_the_more_records_the_closer():
    rng, world = np.random.default_rng(0), fm.scenarios.job_server(5)
    true, gaps = fm.solve_world(world), []
    for often in (10**3, 10**5, 10**7):
        seen = fm.learn_world(world, drawn(world, rng, often), drawn(world, rng, often))
        gaps.append(seen.upper / true.upper - 1)
        assert seen.plan.status == "optimal" and fm.verify(seen.world, seen.plan).ok
    assert gaps[0] > gaps[1] > gaps[2] > 0 and gaps[2] < 0.02
    assert seen.plan.upper == pytest.approx(true.upper, rel=0.01)


def test_nothing_seen_is_bounded_by_what_could_be():
    """Of pairs without records the best next state counts; the ceiling holds for every world of the pattern."""
    world = fm.scenarios.job_server(4)
    none = [np.zeros((4, rows.cols.size)) for rows in world.blocks]
    seen = fm.learn_world(world, none, none)
    assert seen.unseen == 4 * 36 and seen.least_seen == 0
    assert seen.upper >= max(fm.solve_world(fm.scenarios.job_server(4, seed=s)).upper for s in (0,))
    assert np.isfinite(seen.upper)


def test_groups_caps_and_counts_enter_as_in_the_exact_ceiling():
    """With endless records the confident ceiling is that of the certificate."""
    for seed in range(30):
        world = random_world(seed, quotas=2, caps=True)
        plan = fm.solve_world(world)
        if plan.status != "optimal":
            continue
        endless = [1e15 * np.broadcast_to(rows.P, (rows.size, rows.cols.size)) for rows in world.blocks]
        prices = np.concatenate([plan.prices, plan.group_prices])
        witnesses = [(block.witness, block.mu) for block in plan.blocks]
        found = confident_ceiling(world, prices, witnesses, endless, 0.1)
        assert found == pytest.approx(plan.upper, rel=1e-5, abs=1e-5) and found > plan.upper - 1e-9


def test_records_are_counted_by_name(tmp_path):
    world = fm.scenarios.job_server(2)
    (tmp_path / "r.csv").write_text(
        "type,state,action,next,count\nclient 1,0,serve 0,1,3\nclient 2,12,serve 2,10,2\nclient 1,0,serve 0,1,4\n"
    )
    counts = fm.count_transitions(world, tmp_path / "r.csv")
    assert counts[0].sum() == 9 and counts[0][0].max() == 7 and counts[0][1].max() == 2
    rows = world.blocks[0]
    pair = int(np.searchsorted(rows.row_ptr, counts[0][1].argmax(), side="right")) - 1
    assert world.components[0].mdp.pair_name(pair) == "12/serve 2" and rows.cols[counts[0][1].argmax()] == 10
    once = {"type": ["client 1"], "state": [0], "action": ["serve 0"], "next": [0]}
    assert fm.count_transitions(world, once)[0].sum() == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": ["client 3"]}, r"row 0 \(from 0\): there is no type called 'client 3'; did you mean"),
        ({"next": [9]}, "client 1 cannot go from 0 by serve 0 to 9"),
        ({"count": [-1]}, "count is -1, expected at least 0"),
        ({"state": [None]}, "state is missing"),
    ],
)
def test_records_that_make_no_sense_are_named(change, message):
    good = {"type": ["client 1"], "state": [0], "action": ["serve 0"], "next": [0]}
    with pytest.raises(fm.ProblemError, match=message):
        fm.count_transitions(fm.scenarios.job_server(2), good | change)


def test_counts_of_another_world_and_no_probability_are_refused():
    world = fm.scenarios.job_server(3)
    counts = [np.ones((3, rows.cols.size)) for rows in world.blocks]
    with pytest.raises(fm.ProblemError, match=r"later has shapes \[\(2, 104\)\], expected \[\(3, 104\)\]"):
        fm.learn_world(world, counts, [counts[0][:2]])
    with pytest.raises(fm.ProblemError, match="earlier holds numbers that are no counts"):
        fm.learn_world(world, [-counts[0]], counts)
    with pytest.raises(fm.ProblemError, match="delta is 1, expected a probability between 0 and 1"):
        fm.learn_world(world, counts, counts, delta=1)
