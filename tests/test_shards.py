"""Worlds in parts: the same answer wherever the parts are, and that of the world in one piece."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from shards import Mortal, cluster, server

import fairmdp as fm


def numbers(plan):
    return np.r_[plan.upper, plan.value, plan.prices, plan.group_prices].tobytes()


def joined(make, shards):
    """All parts as one world, by what they state."""
    parts = [make(k) for k in range(shards)]
    components = [
        fm.Components(f"part {k}", of.mdp, P=of.P, r=of.r, count=of.count)
        for k, part in enumerate(parts) for of in part.components
    ]  # fmt: skip
    starts = np.cumsum([0, *(part.n_rows for part in parts)])
    resources = [
        fm.Resource(
            each.name, sum(part.resources[n].capacity for part in parts),
            {f"part {k}": part.blocks[0].uses[:, :, n] for k, part in enumerate(parts)},
        )
        for n, each in enumerate(parts[0].resources)
    ]  # fmt: skip
    asked = {
        f"part {k}": np.where(np.isfinite(p.blocks[0].owed[:, 0]), p.blocks[0].owed[:, 0], np.nan)
        for k, p in enumerate(parts)
    }
    local = fm.LocalQuota("local", asked, weights=dict.fromkeys(asked, parts[0].blocks[0].counts[0, :, 0]))
    groups = [
        fm.GroupQuota(
            each.name, sum(part.groups[g].at_least for part in parts), weights=each.weights.astype(float),
            members=np.concatenate([starts[k] + np.flatnonzero(p.group_members[g]) for k, p in enumerate(parts)]),
        )
        for g, each in enumerate(parts[0].groups)
    ]  # fmt: skip
    return fm.World(components, resources, [local], groups)


@pytest.mark.parametrize(("make", "shards"), [(server, 3), (cluster, 2)])
def test_parts_are_worth_what_the_whole_is(make, shards):
    plan, whole = fm.solve_shards(make, shards), fm.solve_world(joined(make, shards))
    assert plan.status == whole.status == "optimal" and plan.gap <= 1e-6
    assert plan.upper == pytest.approx(whole.upper, rel=2e-6)
    assert plan.prices == pytest.approx(whole.prices, rel=0.02)
    assert (plan.n_rows, plan.n_components) == (
        whole.blocks[0].mu.shape[0] + sum(b.mu.shape[0] for b in whole.blocks[1:]),
    ) * 2


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(tmp_path):
    """One process, threads, two workers, and workers of whom one dies with its parts: the same bytes."""
    here = fm.solve_shards(server, 3)
    with ThreadPoolExecutor(2) as threads:
        assert numbers(fm.solve_shards(server, 3, engine=threads.map)) == numbers(here)
    with fm.ProcessPool(2, timeout=300) as engine:
        assert numbers(fm.solve_shards(server, 3, engine=engine)) == numbers(here)
    with fm.ProcessPool(2, timeout=300) as engine:
        assert numbers(fm.solve_shards(Mortal(tmp_path), 3, engine=engine)) == numbers(here)
    assert (tmp_path / "died").exists()


def test_large_parts_begin_with_samples():
    seen = []
    plan = fm.solve_shards(
        lambda k: fm.scenarios.job_server(4000, seed=k), 2, progress=lambda row: seen.append(row["rows"])
    )
    assert plan.status == "optimal" and {2000.0, 8000.0} <= set(seen)


def test_what_parts_cannot_have_together():
    """Each could, with half of what there is; all could not."""
    plan = fm.solve_shards(lambda k: fm.scenarios.job_server(200, capacity=20, seed=k), 2)
    parts = [fm.solve_world(fm.scenarios.job_server(200, capacity=1, seed=k)).shortage for k in range(2)]
    assert plan.status == "infeasible" and plan.available == 40 < plan.needed
    assert plan.needed == pytest.approx(sum(part.needed for part in parts), rel=1e-6)


def test_what_a_part_cannot_have_alone():
    def hard(k):
        world = server(k)
        if k == 0:
            return world
        ask = fm.LocalQuota("short queue", np.where(np.arange(world.n_rows) == 7, 1.0, 0.0), states=[0])
        return fm.World(world.components, world.resources, [ask])

    plan = fm.solve_shards(hard, 2)
    ((part, rows),) = plan.alone
    assert plan.status == "infeasible" and (part, rows.tolist()) == (1, [7])


def test_a_search_that_is_stopped_has_a_ceiling():
    plan = fm.solve_shards(server, 2, seconds=1e-9)
    best = fm.solve_shards(server, 2)
    assert plan.stopped == "out of time" and plan.status == "undecided" and plan.upper > best.value


@pytest.mark.parametrize(
    ("make", "shards", "message"),
    [
        (server, 0, "shards is 0"),
        (lambda k: k, 2, "part 0 is a int, expected a fairmdp.World"),
        (lambda k: (server, cluster)[k](k), 2, "part 1 has resources and groups"),
    ],
)
def test_what_makes_no_sense_is_named(make, shards, message):
    with pytest.raises(fm.ProblemError, match=message):
        fm.solve_shards(make, shards)
