"""The paper's experiments: golden numbers of the protocol, means of 100 runs, tables, figures, screen."""

import csv
import io
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import ttest_ind

from fairmdp import Chain, ProblemError, scenarios
from fairmdp.cli.reproduce import reproduce as command
from fairmdp.mirror import experiments as reproduce
from fairmdp.mirror.polytope import gap
from fairmdp.views import plots

# One worker makes the runs that many tests look at.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reproduce")]

COLUMNS = (
    "variant,rho2,t,reward_mean,reward_std,reward_avg_mean,reward_avg_std,nu0_mean,nu0_std,"
    "nu1_mean,nu1_std,nu2_mean,nu2_std,gap_mean,gap_std"
).split(",")

# Seed 0 after 20,000 steps: averages of x and lam, reward, gap (the protocol of docs/paper.md).
GOLDEN = {
    "definition": (
        [0.3713016997, 0.0020218460, 0.2253589277, 0.1358805731, 0.2628317145, 0.0026052389],
        [-0.1709735, 0.3050625, -0.134089],
        0.437179659,
        4.047374428,
    ),
    "published": (
        [0.3772844977, 0.0019341603, 0.2156315280, 0.1444609510, 0.2578358726, 0.0028529906],
        [-0.1670475, 0.30542875, -0.13838125],
        0.440079198,
        5.09157721,
    ),
}

# Seeds 0..99: mean and standard deviation of reward, reward_avg, nu0, nu1, nu2, gap.
HUNDRED_RUNS = {
    (
        "published",
        1000,
    ): "0.420483 0.013973 0.422303 0.020571 0.394354 0.014143 0.386135 0.007467 0.219511 0.021350 27.969 12.450",
    (
        "published",
        5000,
    ): "0.431415 0.005770 0.438134 0.007807 0.375852 0.006308 0.367616 0.004202 0.256532 0.010486 8.780 4.261",
    (
        "published",
        10000,
    ): "0.434996 0.003718 0.438232 0.005089 0.376065 0.004068 0.366078 0.002831 0.257857 0.006889 5.104 2.714",
    (
        "published",
        20000,
    ): "0.436629 0.002388 0.438151 0.003546 0.375965 0.002632 0.365169 0.001872 0.258866 0.004501 2.952 1.738",
    (
        "definition",
        1000,
    ): "0.413043 0.014218 0.421725 0.015644 0.385153 0.014518 0.381239 0.008275 0.233607 0.022311 24.024 11.663",
    (
        "definition",
        5000,
    ): "0.426075 0.006366 0.429159 0.007718 0.370111 0.006923 0.363164 0.004765 0.266725 0.011629 6.334 3.177",
    (
        "definition",
        10000,
    ): "0.429829 0.003947 0.431631 0.005251 0.370398 0.004340 0.361825 0.003033 0.267777 0.007348 4.123 2.144",
    (
        "definition",
        20000,
    ): "0.432107 0.002697 0.433087 0.003273 0.370973 0.002951 0.361470 0.002135 0.267557 0.005077 2.730 1.591",
}

# Four standard errors around the mean of 100 runs at t = 20,000: reward, nu2, gap.
BARS = {
    "published": {"reward": (0.43567, 0.43758), "nu2": (0.25707, 0.26067), "gap": (2.26, 3.65)},
    "definition": {"reward": (0.43103, 0.43319), "nu2": (0.26553, 0.26959), "gap": (2.09, 3.37)},
}

# Seeds 0..9, T = 10,000: reward and nu2 for some quotas of s2.
TEN_RUNS = {
    ("published", 0.10): (0.512752, 0.002826, 0.110008, 0.004854),
    ("published", 0.20): (0.460980, 0.002667, 0.208804, 0.004978),
    ("published", 0.25): (0.433955, 0.002278, 0.260052, 0.004382),
    ("definition", 0.10): (0.508141, 0.002987, 0.118874, 0.005369),
    ("definition", 0.20): (0.457208, 0.004450, 0.216220, 0.008312),
    ("definition", 0.25): (0.431054, 0.002797, 0.265710, 0.005188),
}


@pytest.fixture(scope="module")
def hundred():
    return {variant: reproduce.convergence(variant=variant) for variant in reproduce.VARIANTS}


@pytest.fixture(scope="module")
def second_hundred():
    return {variant: reproduce.convergence(variant=variant, seed=1000) for variant in reproduce.VARIANTS}


@pytest.fixture(scope="module")
def by_quota():
    return {variant: reproduce.quotas(variant=variant) for variant in reproduce.VARIANTS}


@pytest.fixture(scope="module")
def floor():
    return reproduce.bias_floor(runs=6, steps=400_000)


@pytest.mark.slow
@pytest.mark.parametrize("variant", reproduce.VARIANTS)
def test_seed_0_is_golden(variant, hundred):
    x, lam, reward, value = GOLDEN[variant]
    problem = scenarios.three_state()
    sums = reproduce._protocol_sums(problem, np.array([700, 20_000]), np.random.default_rng(0), variant)
    average = sums[-1] / 20_000
    assert np.abs(average - [*x, *lam]).max() < 1e-8
    policy = average[:6] / np.repeat(average[:6].reshape(3, 2).sum(axis=1), 2)
    shares = Chain.of(problem.mdp, policy).shares
    curve = hundred[variant]
    assert curve.t[-1] == 20_000
    end = {quantity: curve.samples[quantity][0, -1] for quantity in reproduce.QUANTITIES}
    assert end["reward"] == pytest.approx(reward, abs=1e-8)
    assert end["gap"] == pytest.approx(value, abs=1e-8)
    assert end["reward_avg"] == pytest.approx(problem.mdp.r @ x, abs=1e-8)
    assert [end["nu0"], end["nu1"], end["nu2"]] == pytest.approx(shares, abs=1e-12)
    assert gap(problem, x, lam, 100.0) == pytest.approx(value, abs=1e-6)  # ten digits, times 2 M


@pytest.mark.parametrize("variant, t", HUNDRED_RUNS, ids=str)
def test_hundred_runs_have_the_known_means_and_deviations(variant, t, hundred):
    known = [float(word) for word in HUNDRED_RUNS[variant, t].split()]
    found = [value for quantity in reproduce.QUANTITIES for value in hundred[variant].at(t, quantity)]
    assert found[:10] == pytest.approx(known[:10], abs=6e-7)
    assert found[10:] == pytest.approx(known[10:], abs=6e-4)


@pytest.mark.slow
@pytest.mark.parametrize("variant", reproduce.VARIANTS)
def test_other_seeds_lie_within_the_bars(variant, second_hundred):
    """The bars are widened by sqrt 2, as both means vary."""
    curve = second_hundred[variant]
    for quantity, (low, high) in BARS[variant].items():
        middle, half = (low + high) / 2, (high - low) / 2
        assert abs(curve.at(20_000, quantity)[0] - middle) <= np.sqrt(2) * half


def test_the_variants_are_told_apart(hundred, second_hundred):
    """On independent seeds; a second sample of the same variant is the control."""
    for quantity in ("reward", "nu2"):
        ours, again, theirs = (
            curve.samples[quantity][:, -1]
            for curve in (hundred["definition"], second_hundred["definition"], second_hundred["published"])
        )
        assert ttest_ind(ours, theirs, equal_var=False).pvalue < 1e-15
        assert ttest_ind(ours, again, equal_var=False).pvalue > 1e-3


@pytest.mark.parametrize("variant, rho2", TEN_RUNS, ids=str)
def test_ten_runs_for_each_quota(variant, rho2, by_quota):
    (curve,) = (c for c in by_quota[variant] if c.rho[2] == rho2)
    assert (*curve.at(10_000, "reward"), *curve.at(10_000, "nu2")) == pytest.approx(
        TEN_RUNS[variant, rho2], abs=6e-7
    )


def test_optima_are_the_exact_ones(by_quota, hundred):
    optima = [curve.optimum for curve in by_quota["definition"]]
    assert optima == pytest.approx([109 / 190 - 99 / 190 * rho2 for rho2 in reproduce.RHO2], abs=1e-12)
    assert hundred["published"].optimum == pytest.approx(337 / 760, abs=1e-12)


def test_constant_steps_stop_and_our_default_does_not(floor):
    constant, later, default = (
        dict(zip(c.t.tolist(), c.mean("reward") - c.optimum, strict=True)) for c in floor
    )
    assert [c.label for c in floor] == ["constant", "constant-half", "default"]
    for error in (constant, later):
        assert error[400_000] == pytest.approx(-0.0098, abs=0.001)  # known: -0.0099 at 2e5, -0.0097 at 1e6
        assert error[400_000] == pytest.approx(error[100_000], abs=0.0025)
    assert abs(default[400_000]) < 0.001
    spread = ((floor[2].samples["reward"] - floor[2].optimum) ** 2).mean(axis=0) ** 0.5
    assert spread[-1] < spread[-3] < spread[-6] and spread[-1] < 0.002
    nu2 = [c.at(400_000, "nu2")[0] - 0.25 for c in floor]
    assert nu2[0] == pytest.approx(0.0186, abs=0.002) and abs(nu2[2]) < 0.002
    # Steps shrink like 1/sqrt(T); each run's pilot has its own idea of the constant.
    assert floor[2].eta[-1] / floor[2].eta[-5] == pytest.approx(0.25, rel=0.2)


def test_results_do_not_depend_on_the_number_of_threads():
    one, three = (reproduce.convergence(runs=7, steps=800, seed=3, workers=w) for w in (1, 3))
    shifted = reproduce.convergence(runs=4, steps=800, seed=5)
    assert reproduce.curves_csv([one]) == reproduce.curves_csv([three])
    assert np.array_equal(shifted.samples["gap"], one.samples["gap"][2:6])
    one, three = (reproduce.bias_floor(runs=4, steps=40_000, seed=3, workers=w) for w in (1, 3))
    assert reproduce.floor_csv(one) == reproduce.floor_csv(three)
    assert reproduce.floor_csv(one) != reproduce.floor_csv(reproduce.bias_floor(runs=4, steps=40_000, seed=4))


def test_every_run_ticks():
    ticks = []
    reproduce.quotas(runs=3, steps=800, tick=lambda: ticks.append(1))
    assert len(ticks) == 15


@pytest.mark.parametrize("steps", [10_000, 20_000])
def test_recorded_steps(steps):
    t = reproduce.recorded_steps(steps)
    assert (np.diff(t) > 0).all() and t[0] == 10 and t[-1] == steps and 50 <= t.size <= 70
    assert {1000, 5000, 10_000, steps} <= set(t.tolist())


def test_tables(hundred, by_quota, floor):
    rows = list(csv.DictReader(io.StringIO(reproduce.curves_csv([hundred["definition"]]).decode())))
    assert list(rows[0]) == COLUMNS and len(rows) == hundred["definition"].t.size
    last = rows[-1]
    assert (last["variant"], last["rho2"], last["t"]) == ("definition", "0.25", "20000")
    mean, std = hundred["definition"].at(20_000, "nu1")
    assert [float(last["nu1_mean"]), float(last["nu1_std"])] == pytest.approx([mean, std], rel=1e-11)
    rows = list(csv.DictReader(io.StringIO(reproduce.curves_csv(by_quota["published"]).decode())))
    assert list(rows[0]) == COLUMNS and len(rows) == sum(c.t.size for c in by_quota["published"])
    assert {row["rho2"] for row in rows} == {"0.1", "0.15", "0.2", "0.25", "0.3"}
    rows = list(csv.DictReader(io.StringIO(reproduce.floor_csv(floor).decode())))
    assert list(rows[0]) == ["schedule", "eta", *COLUMNS[2:]] and len(rows) == 33


FIGURES = {
    plots.plot_reward: "one",
    plots.plot_visitation: "one",
    plots.plot_gap: "one",
    plots.plot_quota_rewards: "five",
    plots.plot_quota_shares: "five",
    plots.plot_bias_floor: "floor",
}


@pytest.mark.parametrize("plot", FIGURES, ids=lambda plot: plot.__name__)
def test_figures_are_images(plot, hundred, by_quota, floor):
    from matplotlib.figure import Figure
    from matplotlib.image import imread

    data = {"one": hundred["definition"], "five": by_quota["definition"], "floor": floor}[FIGURES[plot]]
    ax = plot(data)
    assert ax.get_xlabel() == "steps $T$" and ax.get_ylabel() and ax.get_legend() is not None
    pixels = imread(io.BytesIO(plots.image(ax, "png")))
    assert pixels.shape[:2] == (750, 1020) and (pixels[..., :3] < 0.5).any(axis=2).mean() > 0.005
    pdf = plots.image(ax, "pdf")
    assert pdf.startswith(b"%PDF") and b"CreationDate" not in pdf
    given = Figure().add_subplot()
    assert plot(data, given) is given


def test_matplotlib_waits_for_the_first_figure():
    check = "import sys, fairmdp.views.plots, fairmdp.cli.reproduce; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_dashed_lines_lie_at_optima_and_quotas(by_quota):
    """Horizontal lines have two points; their level is what the caption says."""
    for plot, due in (
        (plots.plot_quota_rewards, [c.optimum for c in by_quota["definition"]]),
        (plots.plot_quota_shares, reproduce.RHO2),
    ):
        lines = plot(by_quota["definition"]).get_lines()
        dashed = [line for line in lines if list(line.get_xdata()) == [0, 1]]
        assert [line.get_ydata()[0] for line in dashed] == pytest.approx(due)
        assert [line.get_color() for line in dashed] == [
            "#0072B2",
            "#E69F00",
            "#009E73",
            "#D55E00",
            "#CC79A7",
        ]


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: reproduce.convergence(variant="authors"),
            "variant is 'authors', expected definition or published",
        ),
        (lambda: reproduce.convergence(steps=1234), "steps is 1234, expected a multiple of 80"),
        (lambda: reproduce.bias_floor(steps=100), "steps is 100, expected at least 32768"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ProblemError, match=message):
        call()


# --- the command ------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """The command with short experiments."""
    short = {"convergence": (10, 800), "quotas": (3, 800), "bias_floor": (2, 32_768)}
    for name, (runs, steps) in short.items():
        whole = getattr(reproduce, name)
        monkeypatch.setattr(
            reproduce,
            name,
            lambda whole=whole, runs=runs, steps=steps, **o: whole(**o | {"runs": runs, "steps": steps}),
        )


@pytest.mark.slow
def test_command_writes_tables_and_figures(quick, tmp_path):
    out = tmp_path / "new" / "folder"
    ended = CliRunner().invoke(command, ["--out", str(out), "--variant", "published"])
    assert ended.exit_code == 0 and ended.stderr == ""
    figures = {"reward", "visitation", "gap", "quota-reward", "quota-visitation", "bias-floor"}
    expected = {f"{name}.{kind}" for name in figures for kind in ("png", "pdf")}
    assert {path.name for path in out.iterdir()} == expected | {"convergence.csv", "quotas.csv", "floor.csv"}
    assert (out / "convergence.csv").read_text().splitlines()[1].startswith("published,0.25,10,")
    assert "variant published" in ended.stdout and "10 runs of 800 steps" in ended.stdout
    assert "0.4434    approaches the fair optimal value" in ended.stdout
    assert "reward 0.5263, shares 47.4, 43.5, 9.1 %" in ended.stdout
    assert f"3 tables and 6 figures in {out}" in ended.stdout


def test_command_as_json(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "image", lambda ax, kind: b"")
    ended = CliRunner().invoke(command, ["--out", str(tmp_path), "--json", "--seed", "5"])
    answer = json.loads(ended.stdout)
    assert answer["variant"] == "definition" and answer["seed"] == 5
    assert answer["convergence"]["t"] == 800 and answer["convergence"]["runs"] == 10
    mean, std = reproduce.convergence(runs=10, steps=800, seed=5).at(800, "reward")
    assert answer["convergence"]["reward"] == pytest.approx({"mean": mean, "std": std})
    assert [row["rho"][2] for row in answer["quotas"]] == list(reproduce.RHO2)
    assert [row["schedule"] for row in answer["floor"]] == ["constant", "constant-half", "default"]


def test_command_refuses_a_file_as_folder(tmp_path):
    (tmp_path / "file").write_text("")
    assert CliRunner().invoke(command, ["--out", str(tmp_path / "file")]).exit_code == 2
    ended = CliRunner().invoke(command, ["--out", str(tmp_path / "file" / "in")])
    assert ended.exit_code == 2 and "Not a directory" in ended.stderr


@pytest.mark.slow
def test_interruption_keeps_what_is_complete(tmp_path):
    """Ctrl-C once the first table is there: exit code 4, and no file is half written."""
    run = "from fairmdp.cli.reproduce import reproduce; reproduce(standalone_mode=False)"
    process = subprocess.Popen(
        [sys.executable, "-c", run, "--full", "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 600
    while not (tmp_path / "gap.pdf").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)  # the next experiment, which takes seconds, has begun
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 4 and "stopped; complete in" in err and "convergence" in err
    assert (
        len((tmp_path / "convergence.csv").read_text().splitlines())
        == 1 + reproduce.recorded_steps(20_000).size
    )
    assert not list(tmp_path.glob("*.tmp")) and not (tmp_path / "floor.csv").exists()
