"""Forms of TOML files."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Set(_Strict):
    """What every quota has."""

    name: str
    states: list[str] | None = None
    pairs: list[Annotated[list[str], Field(min_length=2, max_length=2)]] | None = None


class _Pair(_Strict):
    reward: float
    rewards: dict[str, float] | None = None
    to: dict[str, float]
    duration: float | None = None


class _Quota(_Set):
    at_least: float | None = None
    at_most: float | None = None
    weights: dict[str, Any] | None = None
    of: list[str] | None = None
    expected: bool = False


class ProblemFile(_Strict):
    """A problem."""

    fairmdp: int
    states: list[str] | None = None
    initial: Any = None
    time_unit: str | None = None
    model: dict[str, dict[str, _Pair]]
    quotas: list[_Quota] | None = None


class _PairOfRows(_Strict):
    reward: Any
    to: dict[str, Any]
    uses: dict[str, Any] | None = None


class _Components(_Strict):
    name: str
    rows: list[str] | None = None
    count: Any = 1
    states: list[str] | None = None
    model: dict[str, dict[str, _PairOfRows]]


class _Resource(_Strict):
    name: str
    capacity: float


class _LocalQuota(_Set):
    weights: dict[str, dict[str, Any]] | None = None
    at_least: Any = None
    at_most: Any = None
    components: list[str] | None = None


class _Group(_Set):
    weights: dict[str, dict[str, Any]] | None = None
    at_least: float | None = None
    at_most: float | None = None
    members: list[int] | None = None


class WorldFile(_Strict):
    """A world."""

    fairmdp_world: int
    components: list[_Components]
    resources: list[_Resource] | None = None
    quotas: list[_LocalQuota] | None = None
    groups: list[_Group] | None = None
