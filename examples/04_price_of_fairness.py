"""The price of fairness: what serving the outer zone costs a taxi, as an exact curve and a figure."""

import tempfile
from pathlib import Path

import fairmdp as fm
from fairmdp.views.plots import image, plot_frontier

problem = fm.scenarios.taxi()
curve = fm.frontier(problem, "zone3")
print("owed to zone3   best gain   each further unit costs")
for value, gain, slope in zip(curve.values, curve.gains, [*curve.slopes, None], strict=True):
    print(f"{value:13.4f}   {gain:9.4f}   {'no more can be had' if slope is None else f'{-slope:.4f}'}")
print(f"at 0.2 the best gain is {curve.gain_at(0.2):.6f}; solving there gives {fm.solve(problem).gain:.6f}")

folder = Path(tempfile.mkdtemp(prefix="fairmdp-"))
figure = folder / "taxi-frontier.png"
figure.write_bytes(image(plot_frontier(curve), "png"))
print(f"figure: {figure}")
