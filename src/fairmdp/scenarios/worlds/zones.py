"""Zones of a city that share a fleet of free taxis and places at the charging points."""

from __future__ import annotations

import numpy as np

from fairmdp.model.checks import Floats
from fairmdp.scenarios.parameters import probability, whole_number
from fairmdp.scenarios.worlds.rows import capacity_or, rows_like
from fairmdp.world.components import Components
from fairmdp.world.demands import GroupQuota, LocalQuota, Resource
from fairmdp.world.world import World

_LEAVES = 0.15  # chance that somebody who waits gives up


def taxi_zones(
    zones: int = 1000,
    *,
    places: int = 8,
    taxis: float | None = None,
    chargers: float | None = None,
    districts: int = 4,
    served: float = 0.27,
    owed: float = 0.5,
    seed: int = 0,
) -> World:
    """Return zones of a city that share free taxis and chargers; many are owed that few people wait.

    In every zone up to ``places`` people wait for a taxi. In a step the dispatcher sends 0, 1 or 2 of the
    free taxis there. Each takes one of them, earns the zone's fare and needs part of a charger for the way,
    more the farther out the zone lies. Then people come and others give up.

    Parameters
    ----------
    zones
        Number of zones, all different.
    places
        People who may wait in a zone.
    taxis, chargers
        How many are free in a step; by default 0.27 and 0.1 for each zone.
    districts
        Groups of zones, from the centre outwards; fares are lower farther out.
    served
        Part of the central district's zones that is to be sent a taxi in the mean step; it falls evenly to
        half of that in the outermost one.
    owed
        Part of the zones that is owed at most a quarter of its places taken, for a share of the time between
        0.2 and 0.6 that is drawn as well.
    seed
        Everything random follows from it.

    Examples
    --------
    >>> taxi_zones(200)
    World(200 components in 200 rows, 2 resources, 1 local quota, 4 group quotas)
    """
    zones, places = whole_number("zones", zones, 1), whole_number("places", places, 2)
    districts = whole_number("districts", districts, 1)
    owed, served = probability("owed", owed), probability("served", served)
    rng = np.random.default_rng(seed)
    district = np.arange(zones) * districts // zones
    outwards = district / max(districts - 1, 1)
    comes = rng.uniform(0.15, 0.8, zones)
    fare = rng.lognormal(0.0, 0.4, zones) * (1.3 - 0.6 * outwards)
    charging = np.round(rng.uniform(0.1, 0.4, zones) + 0.4 * outwards, 2)
    shares = rng.uniform(0.2, 0.6, zones)
    asked = np.where(rng.random(zones) < owed, shares, 0.0)
    waiting, sent = np.array([(n, m) for n in range(places + 1) for m in range(min(n, 2) + 1)]).T
    left = waiting - sent

    def chance(pair: int, to: int) -> Floats:
        gone = np.full(zones, _LEAVES if left[pair] else 0.0)
        more = np.zeros(zones) if left[pair] == places else comes
        fewer, longer = gone * (1 - more), (1 - gone) * more
        return (fewer, 1 - fewer - longer, longer)[1 + to - left[pair]]

    targets = [[t for t in (n - 1, n, n + 1) if 0 <= t <= places] for n in left]
    pattern, P = rows_like(targets, waiting, chance, zones, [f"send {m}" for m in sent])
    resources = [
        Resource("taxis", capacity_or("taxis", taxis, 0.27 * zones), sent.astype(float)),
        Resource("chargers", capacity_or("chargers", chargers, 0.1 * zones), charging[:, None] * sent),
    ]
    short = LocalQuota("short wait", at_least=asked, states=np.arange(places // 4 + 1))
    groups = [
        GroupQuota(
            f"district {d + 1}", served * float((1 - 0.5 * outwards)[district == d].sum()),
            weights=sent > 0, members=district == d,
        )
        for d in range(districts) if (district == d).any()
    ]  # fmt: skip
    return World([Components("zone", pattern, P=P, r=fare[:, None] * sent)], resources, [short], groups)
