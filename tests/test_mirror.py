"""Algorithm 1 as a user runs it: what it reaches, what it refuses, and that nothing is lost."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from checks import long_run

from fairmdp import (
    FormatError,
    Problem,
    ProblemError,
    Quota,
    SimulatorError,
    Status,
    learn,
    learn_mirror,
    scenarios,
    solve,
    solve_lp,
    solve_mirror,
    verify,
)
from fairmdp.deadline import Stop
from fairmdp.mirror.polytope import QuotaPolytope
from fairmdp.mirror.solve import Options
from fairmdp.mirror.steps import PUBLISHED, Steps, theory
from fairmdp.views.sentences import method_text

THREE = scenarios.three_state()
GARNET = scenarios.garnet(20, 4, 4, n_quotas=6, tightness=0.9)
QUICK = Steps(eta_x=0.002, eta_lam=0.002, radius=1.0)


def many(problem, *, runs, workers=None, seed=0, **how):
    """Independent runs of `solve_mirror` in threads."""
    with ThreadPoolExecutor(workers or 2) as pool:
        seeds = np.random.SeedSequence(seed).spawn(runs)
        return list(pool.map(lambda each: solve_mirror(problem, seed=each, **how), seeds))


@pytest.mark.slow
def test_default_settings_come_within_two_thousandths():
    """38 of 40 seeds, at most 1e6 samples each: gain and every quota within 0.002."""
    solutions = many(THREE, runs=40, steps=499_700)
    assert max(s.counters["samples"] for s in solutions) <= 1e6
    good = [abs(s.gain - 337 / 760) <= 0.002 and s.worst_slack >= -0.002 for s in solutions]
    assert sum(good) >= 38


def test_the_published_steps_stop_at_their_bias_floor():
    """Constant steps over-serve s2 for ever; the same budget with shrinking steps does not."""
    floor = solve_mirror(THREE, steps=1_000_000, settings=PUBLISHED, options=Options(average="full"))
    ours = solve_mirror(THREE, steps=1_000_000)
    assert floor.shares[2] - 0.25 > 0.01 and floor.gain < 337 / 760 - 0.005
    assert abs(ours.shares[2] - 0.25) < 0.002 and abs(ours.gain - 337 / 760) < 0.002


@pytest.mark.parametrize("problem", [THREE, GARNET], ids=["dense", "lazy"])
def test_solutions_are_certified(problem):
    solution = solve_mirror(problem, steps=300_000)
    best = solve_lp(problem)
    assert verify(problem, solution).ok
    assert solution.upper >= best.gain - 1e-9
    assert solution.gain == pytest.approx(best.gain, abs=0.02)
    assert solution.status in (Status.FEASIBLE, Status.UNDECIDED)
    assert f"{'dense' if problem is THREE else 'lazy'} kernel" in method_text(solution)


@pytest.mark.parametrize(
    "quotas, kind",
    [
        ([Quota("a", states=range(8), at_least=0.45), Quota("b", states=[1, 2], at_least=0.1)], "nested"),
        (
            [Quota("a", states=range(8), at_least=0.4), Quota("b", states=range(5, 14), at_least=0.5)],
            "crossing",
        ),
        ([Quota("a", pairs=[0, 5, 9], at_least=0.05), Quota("b", pairs=[17], at_least=0.02)], "disjoint"),
        ([], "disjoint"),
    ],
    ids=["nested", "crossing", "pairs", "nothing owed"],
)
def test_every_kind_of_quota(quotas, kind):
    problem = Problem(GARNET.mdp, quotas)
    assert QuotaPolytope.of(problem).kind == kind
    best = solve(problem).gain
    solution = solve_mirror(problem, steps=200_000)
    assert solution.gain == pytest.approx(best, abs=0.02) and solution.upper >= best - 1e-9
    assert solution.worst_slack >= -0.01
    learned = learn_mirror(GARNET.mdp.simulator(), quotas, samples=200_000)
    x = learned.policy * long_run(problem, learned.policy)[GARNET.mdp.s_of]
    assert GARNET.mdp.r @ x == pytest.approx(best, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 16])
def test_a_simulator_gives_what_the_model_gives(batch):
    learned = learn_mirror(THREE.mdp.simulator(), THREE.quotas, samples=300_000, batch=batch)
    x = learned.policy * long_run(THREE, learned.policy)[THREE.mdp.s_of]
    assert THREE.mdp.r @ x == pytest.approx(337 / 760, abs=0.01)
    assert x[4:].sum() >= 0.24 and learned.samples <= 300_000 and learned.finished


def test_learn_takes_the_method_by_name():
    quotas, budget = THREE.quotas, dict(samples=20_000, seed=3)
    named = learn(THREE.mdp.simulator(), quotas, method="mirror", **budget)
    assert np.array_equal(named.policy, learn_mirror(THREE.mdp.simulator(), quotas, **budget).policy)


def test_batches_of_a_known_model():
    solution = solve_mirror(GARNET, steps=20_000, batch=16)
    assert solution.gain == pytest.approx(solve(GARNET).gain, abs=0.02)
    assert solution.counters["samples"] <= 2 * 16 * 20_000 + 100 * GARNET.mdp.n_pairs
    crossing = [Quota("a", states=range(8), at_least=0.4), Quota("b", states=range(5, 14), at_least=0.4)]
    crossed = solve_mirror(Problem(GARNET.mdp, crossing), steps=5000, batch=4)
    assert crossed.worst_slack > -0.05 and crossed.method == "mirror"


def test_rewards_of_any_scale_give_the_same_policy():
    scaled = Problem(
        type(THREE.mdp)(THREE.mdp.P, THREE.mdp.r * 1e6 - 5e7, THREE.mdp.s_of), rho=THREE.at_least
    )
    plain, large = (solve_mirror(p, steps=20_000, settings=QUICK) for p in (THREE, scaled))
    assert plain.policy == pytest.approx(large.policy, abs=1e-6)


def test_estimators_are_unbiased():
    """Mean of many sampled slopes against (P - Ihat) lam - r and (Ihat - P)^T x."""
    mdp = GARNET.mdp
    rng = np.random.default_rng(0)
    lam, x = rng.normal(size=mdp.n_states), rng.dirichlet(np.ones(mdp.n_pairs))
    simulator, n = mdp.simulator(), 400_000
    i = rng.integers(0, mdp.n_pairs, n)
    s_next, reward = simulator.sample(mdp.s_of[i], i - mdp.pair_ptr[mdp.s_of[i]], rng)
    slope = np.bincount(i, mdp.n_pairs * (lam[s_next] - lam[mdp.s_of[i]] - reward), mdp.n_pairs) / n
    assert slope == pytest.approx(mdp.P @ lam - lam[mdp.s_of] - mdp.r, abs=0.2)
    j = rng.choice(mdp.n_pairs, n, p=x)
    s_next, _ = simulator.sample(mdp.s_of[j], j - mdp.pair_ptr[mdp.s_of[j]], rng)
    slope = (
        np.bincount(mdp.s_of[j], minlength=mdp.n_states) - np.bincount(s_next, minlength=mdp.n_states)
    ) / n
    assert slope == pytest.approx(np.bincount(mdp.s_of, x) - mdp.P.T @ x, abs=0.005)


@pytest.mark.parametrize("problem", [THREE, GARNET], ids=["dense", "lazy"])
def test_workers_and_repetition_change_nothing(problem):
    one, two = (many(problem, runs=4, workers=w, steps=5000, seed=3) for w in (1, 2))
    assert all(np.array_equal(a.policy, b.policy) for a, b in zip(one, two, strict=True))
    assert len({s.policy.tobytes() for s in one}) == 4
    seed = np.random.SeedSequence(5)
    assert np.array_equal(*(solve_mirror(problem, steps=5000, seed=seed).policy for _ in range(2)))


class StopAfter:
    """A progress function that interrupts after so many pieces, as a user does."""

    def __init__(self, pieces):
        self.left = pieces

    def __call__(self, done, of, learned):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("how", ["dense", "lazy", "batch", "simulator"])
def test_an_interrupted_run_goes_on_to_the_same_bytes(how, tmp_path):
    path = tmp_path / "run.npz"
    problem = THREE if how == "dense" else GARNET
    if how == "simulator":

        def run(**k):
            simulator = problem.mdp.simulator()
            return learn_mirror(simulator, problem.quotas, samples=40_000, options=Options(**k)).details

    else:
        batch = 16 if how == "batch" else 1
        run = lambda **k: solve_mirror(problem, steps=6400, batch=batch, settings=QUICK, options=Options(**k))  # noqa: E731
    whole = run()
    stopped = run(checkpoint=path, progress=StopAfter(20))
    resumed = run(checkpoint=path)
    assert np.array_equal(resumed.policy, whole.policy) and not np.array_equal(stopped.policy, whole.policy)
    assert np.array_equal(resumed.occupancy, whole.occupancy)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    options = Options(checkpoint=path)
    solve_mirror(THREE, steps=1000, settings=QUICK, options=options)
    for other in (
        {"seed": 1},
        {"steps": 2000},
        {"settings": PUBLISHED},
        {"options": Options("full", checkpoint=path)},
    ):
        with pytest.raises(FormatError, match="belongs to a run with another model, seed or options"):
            solve_mirror(THREE, **({"steps": 1000, "settings": QUICK, "options": options} | other))
    with pytest.raises(FormatError, match="another model"):
        solve_mirror(THREE.with_bounds([0.1, 0.1, 0.3]), steps=1000, settings=QUICK, options=options)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(FormatError, match="this is not a whole checkpoint"):
        solve_mirror(THREE, steps=1000, settings=QUICK, options=options)


def test_an_interrupt_keeps_what_was_computed():
    solution = solve_mirror(THREE, steps=640_000, options=Options(progress=StopAfter(10)))
    assert solution.counters["steps"] == 100_000
    assert solution.stopped is Stop.OUT_OF_STEPS
    assert solution.gain == pytest.approx(337 / 760, abs=0.03)


def test_the_clock_ends_a_run():
    solution = solve_mirror(THREE, steps=10**12, settings=QUICK, options=Options(seconds=0.2))
    assert 0 < solution.counters["steps"] < 10**12  # these would take days


class Broken:
    """The three-state simulator until call `when`, then wrong."""

    n_states, n_actions = 3, np.array([2, 2, 2])

    def __init__(self, damage, when=300):
        self.calls, self.when, self.damage, self.inner = 0, when, damage, THREE.mdp.simulator()

    def sample(self, states, actions, rng):
        self.calls += 1
        answer = self.inner.sample(states, actions, rng)
        return self.damage(*answer) if self.calls == self.when else answer


def put(array, value):
    array = array.copy()
    array[3] = value
    return array


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda s, r: (s, put(r, np.nan)), r"answered state \d, action \d with reward nan\n  in call 300; 1 of 32 answers are wrong"),
        (lambda s, r: (put(s, 7), r), r"answered state \d, action \d with next state 7\n.*\n  next states lie between 0 and 2"),
        (lambda s, r: (put(s, -1), r), "with next state -1"),
        (lambda s, r: (s[:-1], r), r"call 300 returned next_states of shape \(31,\), expected \(32,\)"),
        (lambda s, r: (s.astype(float), r), "call 300 returned next_states of float64"),
        (lambda s, r: (s, r.astype(str)), "call 300 returned rewards of <U"),
        (lambda s, r: s, "call 300 returned a ndarray, expected"),
    ],
)  # fmt: skip
def test_wrong_answers_are_named_and_nothing_is_lost(damage, words):
    with pytest.raises(SimulatorError, match=words) as caught:
        learn_mirror(Broken(damage), THREE.quotas, samples=40_000)
    partial = caught.value.partial
    assert partial.details.steps > 200 and not partial.finished
    assert np.add.reduceat(partial.policy, [0, 2, 4]) == pytest.approx([1, 1, 1])


def without(member):
    class Partial:
        n_states, n_actions = 3, np.array([2, 2, 2])

        def sample(self, states, actions, rng): ...

    delattr(Partial, member)
    return Partial()


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: solve_mirror(THREE, settings=Steps(0.0, 0.01, 1.0)), "eta_x is 0.0, expected a positive number"),
        (lambda: solve_mirror(THREE, settings=Steps(0.01, -1.0, 1.0)), "eta_lam is -1.0, expected a positive"),
        (lambda: solve_mirror(THREE, settings=Steps(0.01, 0.01, 0.0)), "radius is 0.0, expected a positive number"),
        (lambda: solve_mirror(THREE, settings=Steps(0.01, 0.01, float("nan"))), "radius is nan"),
        (lambda: solve_mirror(THREE, settings=Steps(1.0, 0.01, 100.0)), r"change a weight by exp\(2\.41e\+03\)"),
        (lambda: solve_mirror(THREE, steps=0), "steps is 0, expected a whole number of at least 1"),
        (lambda: solve_mirror(THREE, steps=1.5), "steps is 1.5"),
        (lambda: solve_mirror(THREE, batch=0), "batch is 0"),
        (lambda: solve_mirror(THREE, steps=5), "10 samples are too few to find step sizes"),
        (lambda: solve_mirror(THREE, options=Options("median")), "there is no average 'median'"),
        (lambda: solve_mirror(scenarios.garnet(2000, n_quotas=0)), "pilot takes models of up to 5000 pairs"),
        (
            lambda: solve_mirror(THREE.with_quotas([Quota("cap", states=[0], at_most=0.5)])),
            "quota cap is a cap; mirror descent takes at_least only\n  use method 'lp'",
        ),
        (
            lambda: solve_mirror(
                Problem(GARNET.mdp, [Quota("a", states=[0, 1], at_least=0.9), Quota("b", states=[1, 2], at_least=0.1), Quota("c", states=[2, 3], at_least=0.5)])
            ),
            "no distribution of time meets the 3 quotas with room to spare",
        ),
        (lambda: learn(THREE.mdp.simulator(), [], samples=100, method="magic"), "there is no method 'magic'; there are plugin and mirror"),
        (lambda: learn(THREE.mdp.simulator(), [], eps=0.1, method="mirror"), "mirror descent takes a budget: give samples, not eps"),
        (lambda: learn(THREE.mdp.simulator(), [], samples=9, eps=0.1, method="mirror"), "give samples, not eps"),
        (lambda: learn_mirror(without("sample"), []), "Partial is not a simulator: it has no sample"),
        (lambda: learn_mirror(without("n_actions"), []), "it has no n_actions"),
        (lambda: learn_mirror(THREE.mdp.simulator(), [Quota("x", states=[9], at_least=0.1)]), "there is no state 9"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, words):
    with pytest.raises(ProblemError, match=words):
        call()


# What the theorem asks for (rewards of this instance lie in [0, 1] as they are after rescaling).


@pytest.mark.parametrize(
    "rho_2, radius, steps",
    [(0.1, 84.5714, 4.724e8), (0.15, 103.2727, 7.045e8), (0.2, 136, 1.222e9), (0.25, 208, 2.8577e9), (0.3, 496, 1.625e10)],
)  # fmt: skip
def test_printed_constants_are_those_of_the_paper(rho_2, radius, steps):
    found = theory(scenarios.three_state([0.1, 0.1, rho_2]), 0.5)
    assert found.t_mix == 8
    assert found.paper_radius == pytest.approx(radius, rel=1e-5)
    assert found.paper_steps == pytest.approx(steps, rel=1e-3)
    assert found.steps < found.paper_steps / 4


def test_corrected_constants_follow_a_strictly_fair_policy():
    found = theory(THREE, 0.1, policy=np.full(6, 0.5))
    gain = (0.25 - 0.1) / 0.9
    assert found.d == pytest.approx((1 - gain) / (1 / 3 - 0.25))
    assert found.radius == pytest.approx(8 * (1 + found.d))
    assert found.steps == pytest.approx(8 * np.log(6) * 8 * 6 * (4 * found.radius + 1) ** 2 / 0.1**2)
    assert found.shortfall == pytest.approx(0.1 / (1 + found.d))
    strict = theory(THREE, 0.1, guarantee="multiplicative")
    assert strict.radius >= 8 / 0.1 and strict.shortfall == 0.1
    assert theory(scenarios.three_state([0, 0, 0]), 0.1).d == 0


def test_theory_says_what_is_out_of_reach():
    assert re.search(r"out of reach: \S+ hours at 1e7 steps a second", str(theory(THREE, 0.01)))
    assert "within reach" in str(theory(THREE, 0.5))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: theory(THREE, 0), "eps is 0, expected an accuracy between 0 and 1"),
        (lambda: theory(THREE, 0.1, t_mix=0), "t_mix is 0.0"),
        (lambda: theory(THREE, 0.1, guarantee="hope"), "there is no guarantee 'hope'"),
        (lambda: theory(scenarios.three_state([0.1, 0.1, 9 / 19]), 0.1), "no policy meets the quotas with room to spare"),
        (lambda: theory(scenarios.three_state([0.1, 0.1, 0.5]), 0.1), "no policy meets these quotas"),
    ],
)  # fmt: skip
def test_theory_refuses(call, words):
    with pytest.raises(ProblemError, match=words):
        call()


def test_the_radius_counterexample():
    """Without a fair action the paper's M is too small (docs/paper.md); ours is computed from a fair policy."""
    P = [[0.995, 0.005], [0.98, 0.02], [0.995, 0.005], [0.98, 0.02]]
    from fairmdp import MDP

    problem = Problem(MDP(P, [1.0, 0.0, 1.0, 0.0], [0, 0, 1, 1]), rho=[0.01, 0.01])
    found = theory(problem, 0.1, t_mix=1)
    need = np.ptp(solve(problem).bias) / 2
    assert found.paper_radius * 2 < need <= found.radius * 2


def test_only_the_kernel_that_is_used_is_compiled():
    """The three-state problem must not wait for the lazy kernel: it is not even imported."""
    import subprocess
    import sys

    script = "import sys, fairmdp as fm; fm.solve_mirror(fm.scenarios.three_state(), steps=1000); sys.exit('fairmdp.mirror.lazy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_a_models_simulator_refuses_pairs_that_there_are_not():
    simulator, rng = scenarios.three_state().mdp.simulator(), np.random.default_rng(1)
    for action in (99, -99):
        with pytest.raises(IndexError):
            simulator.sample(np.array([0]), np.array([action]), rng)


@pytest.mark.parametrize("state", [np.array([-1]), np.array([3]), np.array([2**64 - 1], np.uint64)])
def test_next_states_that_there_are_not_are_refused_whatever_their_type(state):
    class Strange:
        n_states, n_actions = 3, np.ones(3, int)

        def sample(self, states, actions, rng):
            return np.repeat(state, states.size), np.zeros(states.size)

    with pytest.raises(SimulatorError, match=f"next state {state[0]}\n.*\n  next states lie between 0 and 2"):
        learn_mirror(Strange(), [], samples=1000)
