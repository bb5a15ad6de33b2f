"""The part of a solution file that tells where runs end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from fairmdp.errors import FormatError
from fairmdp.model.checks import Floats, Ints
from fairmdp.solution import fields
from fairmdp.solution.ends import End, Ends

_FIELDS = ("components", "values", "moves", "component_prices", "n_classes", "classes")
_OF_SEVERAL = ("weights", "policies")
_PRICES = ("quotas", "components", "prices")


def to_dict(ends: Ends) -> dict[str, Any]:
    """Where runs end as what `json.dumps` takes; prices as triples of quota, component and price."""
    prices = csr_array(ends.component_prices)
    quotas = np.repeat(np.arange(prices.shape[0]), np.diff(prices.indptr))
    told: dict[str, Any] = {
        "components": ends.components,
        "values": ends.values,
        "moves": ends.moves,
        "component_prices": dict(zip(_PRICES, (quotas, prices.indices, prices.data), strict=True)),
        "n_classes": ends.n_classes,
        "classes": [end._asdict() for end in ends.classes],
    }
    if ends.policies is not None:
        told |= {name: getattr(ends, name) for name in _OF_SEVERAL}
    return told


def of_dict(raw: dict[str, Any], S: int, SA: int, K: int) -> Ends:
    """Read what `to_dict` wrote."""
    fields.check_fields(raw, _FIELDS, _OF_SEVERAL, "ends.")
    components = _whole(raw, "components", -1, S, "ends.", S)
    several = [name in raw for name in _OF_SEVERAL]
    if any(several) != all(several):
        raise FormatError("ends: weights and policies go together")
    weights = fields.vector(raw, "weights", None, "ends.") if all(several) else None
    classes = fields.each(raw, "classes", _end(S, K), "ends.")
    n_classes = raw["n_classes"]
    if type(n_classes) is not int or n_classes < len(classes):
        raise FormatError(f"ends.n_classes: expected at least {len(classes)}, got {fields.shown(n_classes)}")
    count = max(int(components.max(initial=-1)) + 1, 0)
    return Ends(
        components=components,
        values=fields.vector(raw, "values", S, "ends."),
        moves=fields.vector(raw, "moves", S, "ends."),
        component_prices=_prices(fields.object_in(raw, "component_prices"), K, count),
        weights=weights,
        policies=None if weights is None else _policies(raw, weights.size, SA),
        classes=classes,
        n_classes=n_classes,
    )


def _prices(raw: dict[str, Any], K: int, count: int) -> csr_array:
    prefix = "ends.component_prices."
    fields.check_fields(raw, _PRICES, (), prefix)
    data = fields.vector(raw, "prices", None, prefix)
    quotas = _whole(raw, "quotas", 0, K, prefix, data.size)
    components = _whole(raw, "components", 0, count, prefix, data.size)
    if (np.diff(quotas * (count + 1) + components) <= 0).any():
        raise FormatError(f"{prefix[:-1]}: expected each quota and component once, in ascending order")
    indptr = np.searchsorted(quotas, np.arange(K + 1))
    return csr_array((data, components, indptr), shape=(K, count))


def _policies(raw: dict[str, Any], M: int, SA: int) -> Floats:
    rows = fields.each(raw, "policies", lambda place, row: fields.floats(place, row, SA), "ends.")
    if len(rows) != M:
        raise FormatError(f"ends.policies: expected {M} policies, got {len(rows)}")
    return np.array(rows, dtype=np.float64).reshape(M, SA)


def _end(S: int, K: int) -> Callable[[str, Any], End]:
    def end(place: str, raw: Any) -> End:
        raw, prefix = fields.record(place, raw, End._fields), f"{place}."
        if type(raw["policy"]) is not int or raw["policy"] < 0:
            raise FormatError(f"{prefix}policy: expected a number, got {fields.shown(raw['policy'])}")
        return End(
            raw["policy"],
            _whole(raw, "states", 0, S, prefix),
            fields.number(f"{prefix}probability", raw["probability"]),
            fields.number(f"{prefix}gain", raw["gain"]),
            fields.vector(raw, "shares", K, prefix),
        )

    return end


def _whole(
    raw: dict[str, Any], name: str, least: int, below: int, prefix: str, size: int | None = None
) -> Ints:
    """A list of whole numbers within bounds."""
    values = raw[name]
    if not isinstance(values, list) or not all(type(v) is int and least <= v < below for v in values):
        raise FormatError(f"{prefix}{name}: expected a list of whole numbers, {least} to {below - 1}")
    if size is not None and len(values) != size:
        raise FormatError(f"{prefix}{name}: expected {size} numbers, got {len(values)}")
    return np.array(values, dtype=np.int64)
