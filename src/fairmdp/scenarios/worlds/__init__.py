"""Ready-made worlds: each a function that returns one, and a name on the command line."""

from collections.abc import Callable

from fairmdp.scenarios.worlds.machines import machine_park
from fairmdp.scenarios.worlds.servers import job_server
from fairmdp.scenarios.worlds.tenants import gpu_tenants
from fairmdp.scenarios.worlds.zones import taxi_zones
from fairmdp.world.world import World

__all__ = ["WORLDS", "gpu_tenants", "job_server", "machine_park", "taxi_zones"]

WORLDS: dict[str, Callable[..., World]] = {
    "job-server": job_server,
    "machine-park": machine_park,
    "gpu-tenants": gpu_tenants,
    "taxi-zones": taxi_zones,
}
"""Names on the command line."""
