"""`learn`: one result whatever the method, seeds of all kinds, and counts in files."""

import tracemalloc

import numpy as np
import pytest

from fairmdp import (
    Chain,
    FormatError,
    ProblemError,
    ProcessPool,
    Quota,
    SimulatorError,
    certify,
    learn,
    scenarios,
)
from fairmdp.learning.counts import CHUNK, Counts, Tally, counts_from_arrays, counts_to_arrays
from fairmdp.learning.mirror import learn_mirror
from fairmdp.mirror.polytope import QuotaPolytope
from fairmdp.mirror.runs import BatchRun
from fairmdp.mirror.solve import Options, drive, split_seed
from fairmdp.mirror.steps import Steps
from fairmdp.model.problem import Problem
from fairmdp.model.simulator import CheckedSimulator, shell_model
from fairmdp.workers.engine import _content_digest

pytestmark = pytest.mark.slow

PAPER = scenarios.three_state()
SIMULATOR = PAPER.mdp.simulator()
S2 = [Quota("s2", states=[2], at_least=0.25)]
METHODS = ("plugin", "mirror")
GENTLE = Steps(eta_x=0.001, eta_lam=0.001, radius=2.0)


def true_values(problem, policy):
    x = policy * Chain.of(problem.mdp, policy).shares[problem.mdp.s_of]
    return float(problem.mdp.r @ x), problem.members @ x


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_same_fields(method):
    learned = learn(SIMULATOR, PAPER.quotas, samples=40_000, seed=1, method=method)
    gain, shares = true_values(PAPER, learned.policy)
    assert learned.method == method and learned.finished and learned.delta == 0.05
    assert abs(learned.gain - gain) < 5 * learned.gain_se
    assert (np.abs(learned.shares - shares) < 5 * learned.share_se).all()
    assert 39_900 < learned.samples == learned.counts.total <= 40_000
    assert learned.min_samples == learned.counts.per_pair.min() > 0
    assert learned.claim.startswith("no claim: mirror descent makes none") == (method == "mirror")
    assert learned.guaranteed == (method == "plugin")
    proof = certify(SIMULATOR, learned.policy, PAPER.quotas, samples=20_000, training=learned.counts)
    assert 0.4434 <= proof.upper < 0.5


@pytest.mark.parametrize("method", METHODS)
def test_history_has_a_row_per_round(method):
    learned = learn(SIMULATOR, PAPER.quotas, samples=40_000, method=method)
    drawn = [row.samples for row in learned.history]
    assert drawn == sorted(set(drawn)) and len(drawn) >= 3
    last = learned.history[-1]
    assert (last.samples, last.gain, last.claim) == (learned.samples, learned.gain, learned.claim)
    assert np.array_equal(last.shares, learned.shares) and np.array_equal(last.margins, learned.margins)
    short = learn(SIMULATOR, PAPER.quotas, samples=40_000, method=method).history[0]
    assert short.gain == learned.history[0].gain != last.gain


def test_mirror_descent_keeps_its_iterates():
    details = learn(SIMULATOR, PAPER.quotas, samples=20_000, method="mirror", settings=GENTLE).details
    assert details.occupancy.sum() == pytest.approx(1) and details.lam.shape == (3,)
    assert details.settings == GENTLE.for_batch(16) and details.steps == 20_000 // 32
    assert learn(SIMULATOR, PAPER.quotas, samples=6000).details is None


@pytest.mark.parametrize("method", METHODS)
def test_a_seed_is_a_number_a_sequence_or_a_generator(method):
    def policy(seed):
        return learn(SIMULATOR, S2, samples=3000, method=method, seed=seed).policy.tobytes()

    assert policy(7) == policy(np.int64(7)) == policy(np.random.SeedSequence(7)) != policy(8)
    assert policy(np.random.default_rng(7)) == policy(np.random.default_rng(7)) != policy(7)
    rng = np.random.default_rng(7)
    assert policy(rng) != policy(rng)  # a generator moves on


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ProblemError, match="seed is .*, expected a whole number of at least 0"):
        learn(SIMULATOR, S2, samples=1000, seed=seed)


@pytest.mark.parametrize("method", METHODS)
def test_progress_is_told_in_samples(method):
    seen = []
    learned = learn(
        SIMULATOR,
        S2,
        samples=4 * CHUNK,
        method=method,
        progress=lambda done, of, now: seen.append((done, of, now())),
    )
    assert seen[-1][0] == seen[-1][1] == learned.samples
    assert all(0 < done <= of and now.samples == done and not now.finished for done, of, now in seen)


def test_engines_are_for_what_can_be_spread():
    with ProcessPool(1) as engine:
        spread = learn(SIMULATOR, S2, samples=2 * CHUNK, engine=engine)
        assert np.array_equal(spread.policy, learn(SIMULATOR, S2, samples=2 * CHUNK).policy)
        with pytest.raises(ProblemError, match="it takes no engine"):
            learn(SIMULATOR, S2, samples=1000, method="mirror", engine=engine)


@pytest.mark.parametrize("how", [{"settings": Steps(0.01, 0.01, 1.0)}, {"options": Options()}])
def test_options_of_mirror_descent_are_not_for_the_plugin(how):
    with pytest.raises(ProblemError, match="settings and options are for method 'mirror'"):
        learn(SIMULATOR, S2, samples=1000, **how)


class Halting:
    """Fails, or is interrupted, after so many calls."""

    n_states, n_actions = 3, np.array([2, 2, 2])

    def __init__(self, calls, error):
        self.left, self.error = calls, error

    def sample(self, states, actions, rng):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return SIMULATOR.sample(states, actions, rng)


def test_mirror_descent_that_is_stopped_returns_an_estimate():
    stopped = learn(Halting(500, KeyboardInterrupt()), PAPER.quotas, samples=40_000, method="mirror")
    assert not stopped.finished and "stopped before the end" in stopped.notes
    assert 0.3 < stopped.gain < 0.6 and stopped.samples <= 500 * 32
    with pytest.raises(SimulatorError) as caught:
        learn(Halting(500, SimulatorError("gone")), PAPER.quotas, samples=40_000, method="mirror")
    assert caught.value.partial.gain == stopped.gain
    early = learn(
        Halting(0, KeyboardInterrupt()), PAPER.quotas, samples=40_000, method="mirror", settings=GENTLE
    )
    assert np.isnan(early.gain) and early.counts.total == 0 and early.samples == 0


def stop_after(pieces):
    left = iter(range(pieces - 1))

    def progress(done, of, learned):
        if next(left, None) is None:
            raise KeyboardInterrupt

    return progress


def test_a_checkpoint_keeps_the_counts(tmp_path):
    how = {"samples": 40_000, "seed": 2}
    whole = learn_mirror(SIMULATOR, PAPER.quotas, **how)
    path = tmp_path / "run.npz"
    options = Options(checkpoint=path)
    assert not learn_mirror(SIMULATOR, PAPER.quotas, **how, options=options, progress=stop_after(30)).finished
    resumed = learn_mirror(SIMULATOR, PAPER.quotas, **how, options=options)
    assert resumed.finished and resumed.counts.total == resumed.samples == whole.samples
    assert np.array_equal(resumed.policy, whole.policy)
    for name in ("gain", "gain_se", "shares", "share_se"):  # counts are merged at other places: rounding
        assert getattr(resumed, name) == pytest.approx(getattr(whole, name), rel=1e-12)


def test_a_checkpoint_without_counts_goes_on(tmp_path):
    """Version 0.1 wrote such files."""
    path = tmp_path / "run.npz"
    settings, steps = GENTLE.for_batch(16), 640
    checked = CheckedSimulator(SIMULATOR)
    shell = shell_model(checked)
    polytope = QuotaPolytope.of(Problem(shell, PAPER.quotas))
    _, seed = split_seed(5)
    run = BatchRun(checked, shell, polytope, 16, 0.0, 1.0, seed)
    drive(
        run, shell, polytope, settings, steps, 1.0, 0, 0.0, Options(checkpoint=path, progress=stop_after(30))
    )
    how = {"samples": 32 * steps, "seed": 5, "settings": GENTLE}
    resumed = learn_mirror(SIMULATOR, PAPER.quotas, **how, options=Options(checkpoint=path))
    assert np.array_equal(resumed.policy, learn_mirror(SIMULATOR, PAPER.quotas, **how).policy)
    assert resumed.finished and resumed.counts.total == 34 * 10 * 32


def some_counts(n=50):
    rng = np.random.default_rng(0)
    return Counts.of(rng.integers(0, 6, n), rng.integers(0, 3, n), rng.random(n), 6, 3)


def test_counts_survive_a_file(tmp_path):
    counts = some_counts()
    np.savez(tmp_path / "counts.npz", **counts_to_arrays(counts))
    with np.load(tmp_path / "counts.npz", allow_pickle=False) as file:
        back = counts_from_arrays(file)
    for name in ("keys", "times", "mean", "spread"):
        assert getattr(back, name).tobytes() == getattr(counts, name).tobytes()
        assert not getattr(back, name).flags.writeable
    assert (back.n_pairs, back.n_states) == (6, 3)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda arrays: arrays.pop("times"), "counts without times"),
        (lambda arrays: arrays.update(times=arrays["times"][:-1]), "other types or lengths"),
        (lambda arrays: arrays.update(keys=arrays["keys"].astype(float)), "other types or lengths"),
        (lambda arrays: arrays.update(shape=np.array([6.0, 3.0])), "other types or lengths"),
        (lambda arrays: arrays.update(mean=arrays["mean"][:, None]), "other types or lengths"),
    ],
)
def test_damaged_counts_are_refused(damage, message):
    arrays = counts_to_arrays(some_counts())
    damage(arrays)
    with pytest.raises(FormatError, match=message):
        counts_from_arrays(arrays)


def test_a_tally_stops_where_memory_would_grow():
    rng = np.random.default_rng(1)
    bounded, whole = Tally(1000, 1000, calls=2, most=100), Tally(1000, 1000, calls=2)
    for _ in range(60):
        answers = rng.integers(0, 1000, 1000), rng.integers(0, 1000, 1000), rng.random(1000)
        bounded.note(*answers)
        whole.note(*answers)
    assert whole.counts.total == 60_000 and whole.counts.keys.size > 55_000
    assert 100 <= bounded.counts.keys.size < 2 * CHUNK


def altered(file, **changes):
    with np.load(file) as kept:
        arrays = dict(kept)
    for name, change in changes.items():
        arrays[name] = change(arrays[name])
    return arrays


@pytest.fixture(scope="module")
def engine():
    """One worker process for all tests, each with a folder of its own: starting one takes most of a second."""
    with ProcessPool(1) as pool:
        yield pool


def test_chunks_are_found_again_by_a_simulator_that_was_used(engine, tmp_path):
    """A known model makes its tables when it is sampled from, which changes nothing about its answers."""
    engine.folder = str(tmp_path)
    problem = scenarios.three_state()
    simulator, fresh = problem.mdp.simulator(), []

    def gain():
        return learn(simulator, problem.quotas, samples=3000, engine=engine).gain

    before = gain()
    for file in tmp_path.iterdir():
        fresh.append((file, file.stat().st_mtime_ns, file.stat().st_ino))
    assert problem.mdp.uniform is not None and gain() == before
    assert fresh and [(f, f.stat().st_mtime_ns, f.stat().st_ino) for f, _, _ in fresh] == fresh


@pytest.mark.parametrize("redigested", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {"times": lambda times: -times},
        {"times": lambda times: 1000 * times},
        {"mean": lambda mean: mean + np.nan},
        {"mean": lambda mean: mean + 1e200},
        {"spread": lambda spread: spread - 1},
        {"keys": lambda keys: keys[::-1].copy()},
        {"keys": lambda keys: keys + 10**9},
        {"keys": lambda keys: keys - 1},
        {"shape": lambda shape: shape * 2},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_altered_chunks_are_drawn_anew(engine, tmp_path, changes, redigested):
    """Even with a digest that fits: signs, sums and sizes are looked at before anything is believed."""
    engine.folder = str(tmp_path)
    how = {"samples": 3000, "engine": engine}
    simulator = scenarios.three_state().mdp.simulator()
    quota = [Quota("s2", states=[2], at_least=0.1)]
    before = learn(simulator, quota, **how)
    files = sorted(tmp_path.iterdir())
    whole = [file.read_bytes() for file in files]
    for file in files:
        arrays = altered(file, **changes)
        if redigested:
            data = {name: arrays[name] for name in arrays if name not in ("digest", "content")}
            content = _content_digest(arrays["digest"].tobytes(), data)
            arrays["content"] = np.frombuffer(content, np.uint8)
        np.savez(file, **arrays)
    after = learn(simulator, quota, **how)
    assert after.gain == before.gain and after.counts.times.tolist() == before.counts.times.tolist()
    assert files and [file.read_bytes() for file in files] == whole


def test_chunks_that_inflate_or_have_no_digest_are_drawn_anew(engine, tmp_path):
    """A compressed file may hold a thousand times its size; one of 0.1 cannot show that it is whole."""
    engine.folder = str(tmp_path)
    simulator = scenarios.three_state().mdp.simulator()

    def gain():
        return learn(simulator, [Quota("s2", states=[2], at_least=0.1)], samples=3000, engine=engine).gain

    before = gain()
    files = sorted(tmp_path.iterdir())
    sizes = [file.stat().st_size for file in files]
    for file in files:
        np.savez_compressed(file, **altered(file, keys=lambda keys: np.zeros(10**7, np.int64)))
    tracemalloc.start()
    assert gain() == before and [file.stat().st_size for file in files] == sizes
    assert tracemalloc.get_traced_memory()[1] < 5e7
    tracemalloc.stop()
    for file in files:
        arrays = altered(file)
        del arrays["content"]
        np.savez(file, **arrays)
    with pytest.warns(UserWarning, match="have no digest of their content") as said:
        assert gain() == before
    assert len(said) == 1 and [file.stat().st_size for file in files] == sizes
