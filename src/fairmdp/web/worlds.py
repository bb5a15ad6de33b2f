"""What the page asks about a world: capacities and common quotas that move, answered by summaries."""

from __future__ import annotations

import shlex
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fairmdp.certificate import verify
from fairmdp.decomposition.solve import solve_world
from fairmdp.errors import ProblemError
from fairmdp.frontiers.world import world_frontier
from fairmdp.io import Source
from fairmdp.solution.file import plain
from fairmdp.solvers.request import Progress
from fairmdp.views.data import Json
from fairmdp.views.world import world_frontier_data, world_verdict_data
from fairmdp.views.world_page import world_answer, world_view
from fairmdp.web.request import Request, Values
from fairmdp.world.plan import WorldPlan
from fairmdp.world.world import World

MOST_ROWS = 20_000
"""Rows up to which the page draws what moving one bound does."""

_POINTS = 9  # of that curve
_KEPT = 4  # plans without quotas that a worker remembers


class OpenWorlds:
    """The world that a worker has open, and what it found last."""

    def __init__(self) -> None:
        self._source: Source | None = None
        self._free: OrderedDict[bytes, WorldPlan] = OrderedDict()
        self._last: tuple[Values, World, WorldPlan] | None = None

    def answer(self, request: Request, progress: Progress) -> Json:
        """Return the answer to a request."""
        if self._source != request.source:
            world = request.source.world()
            if world is None:
                raise ProblemError(f"{request.source.name} is no world")
            self._source, self._stated, self._last = request.source, world, None
            self._free.clear()
        return _TASKS[request.task](self, request, progress)

    def _open(self, request: Request, progress: Progress) -> Json:
        source = request.source
        return world_view(Path(source.name).name, self._stated)

    def _solve(self, request: Request, progress: Progress) -> Json:
        world, plan = self._solved(request, progress)
        key = world.capacity.tobytes()
        if key not in self._free and (world.sides or world.group_sides):
            self._free[key] = solve_world(world.without_quotas(), progress=progress)
            if len(self._free) > _KEPT:
                self._free.popitem(last=False)
        command = shlex.join(["fairmdp", "solve", *self._moved_words(request)])
        return {**world_answer(world, plan, self._free.get(key)), "command": command}

    def _curve(self, request: Request, progress: Progress) -> Json:
        world = self._moved(request)
        if world.n_rows > MOST_ROWS:
            command = shlex.join(["fairmdp", "frontier", *self._moved_words(request), request.quota])
            return {"curve": None, "message": f"Drawn up to {MOST_ROWS:,} rows; here {command} does it."}
        if request.quota not in self._names():
            raise ProblemError(f"there is nothing called {request.quota!r} to move")
        at = self._names().index(request.quota)
        stands = request.values[at] if request.values else None
        if stands is None and at < len(world.resources):
            stands = float(world.resources[at].capacity)
        values = np.linspace(0.0, self._most(at), _POINTS)
        if at < len(world.resources):
            values[0] = values[1] / 4  # without any capacity there is little to see
        values = np.unique(np.append(values, [] if stands is None else [stands]))
        return {"curve": plain(world_frontier_data(world_frontier(world, request.quota, values)))}

    def _proof(self, request: Request, progress: Progress) -> Json:
        world, plan = self._solved(request, progress)
        return world_verdict_data(verify(world, plan))

    def _solved(self, request: Request, progress: Progress) -> tuple[World, WorldPlan]:
        """The world as the sliders stand, and its plan; what is asked about a picture is what it shows."""
        if self._last is None or self._last[0] != request.values:
            world = self._moved(request)
            self._last = request.values, world, solve_world(world, progress=progress)
        return self._last[1:]

    def _names(self) -> list[str]:
        view = world_view("", self._stated)
        return [each["name"] for each in (*view["resources"], *view["quotas"])]

    def _most(self, at: int) -> float:
        """Where the slider of one of them ends."""
        view = world_view("", self._stated)
        if at < len(view["resources"]):
            return 2 * float(view["resources"][at]["capacity"]) or 1.0
        quota = view["quotas"][at - len(view["resources"])]
        return 2 * float(quota["asked"][2]) or 1.0 if quota["group"] else 1.0

    def _moves(self, request: Request) -> list[tuple[str, str, float]]:
        """Names, signs and values of what has moved."""
        names, K = self._names(), len(self._stated.resources)
        if len(request.values) > len(names):
            raise ProblemError(f"{len(request.values)} values were sent, the world has {len(names)}")
        return [
            (names[k], "<=" if k < K else ">=", value)
            for k, value in enumerate(request.values) if value is not None
        ]  # fmt: skip

    def _moved(self, request: Request) -> World:
        world = self._stated
        for name, sign, value in self._moves(request):
            change = world.with_capacity if sign == "<=" else world.with_common_quota
            world = change(name, value)
        return world

    def _moved_words(self, request: Request) -> list[str]:
        """The words that name the world as the sliders stand."""
        moves = [f"--quota={name}{sign}{value!r}" for name, sign, value in self._moves(request)]
        return [*request.source.words, *moves]


_TASKS: dict[str, Callable[[OpenWorlds, Request, Progress], Json]] = {
    "world": OpenWorlds._open,
    "world-solve": OpenWorlds._solve,
    "world-frontier": OpenWorlds._curve,
    "world-proof": OpenWorlds._proof,
}
"""What can be asked about a world."""
