"""Variables of the states of a UMB file, packed into bits, as names such as ``x=1 & y=0``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairmdp.errors import FormatError
from fairmdp.model.objects import MOST_NAMED_ROWS

_FOLDER = "valuations/states"
_SIZES = {"bool": 1, "int": 64, "uint": 64, "double": 64, "string": 64, "rational": 128}

Bits = NDArray[np.uint8]
"""Bits of all states, the least significant first, (S, bits)."""


class Files(Protocol):
    """What is asked of the archive."""

    def part(self, *keys: str) -> Mapping[str, Any]:
        """A part of the index."""

    def has(self, name: str) -> bool:
        """Whether a file is there."""

    def raw(self, name: str, n_bytes: int) -> bytes:
        """Content of a file."""

    def strings(self, folder: str, count: int) -> list[str] | None:
        """Texts of a folder."""


def state_names(files: Files, n_states: int) -> Sequence[str] | None:
    """Names of the states, (S,), where all have the same variables and differ in them; else None."""
    said = files.part("valuations", "states")
    classes = said.get("classes")
    known = files.has(f"{_FOLDER}/valuations") and not files.has(f"{_FOLDER}/valuation-to-class")
    if not known or n_states > MOST_NAMED_ROWS or not isinstance(classes, list) or not classes:
        return None
    try:
        variables = [_Variable(entry) for entry in classes[0]["variables"]]
    except (KeyError, TypeError, ValueError):
        raise FormatError("index.json: the variables of the states cannot be read") from None
    size = sum(variable.optional + variable.size for variable in variables)
    if size % 8:
        raise FormatError(f"index.json: the variables of a state take {size} bits, expected whole bytes")
    data = np.frombuffer(files.raw(f"{_FOLDER}/valuations", n_states * size // 8), np.uint8)
    bits = np.unpackbits(data.reshape(n_states, -1), axis=1, bitorder="little")
    texts = files.strings(_FOLDER, int(said.get("#strings", 0)))
    parts, at = [], 0
    for variable in variables:
        end = at + variable.optional + variable.size
        if variable.name:
            parts.append([f"{variable.name}={value}" for value in variable.values(bits[:, at:end], texts)])
        at = end
    names = [" & ".join(row) for row in zip(*parts, strict=True)]
    return names if len(set(names)) == n_states and all(map(str.isprintable, names)) else None


class _Variable:
    """One variable, or padding, which has no name."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.name, self.kind, self.offset, self.optional = "", "padding", 0, False
        if "padding" in entry:
            self.size = int(entry["padding"])
            return
        kind = entry["type"]
        self.name, self.kind = "_".join(str(entry["name"]).split()), kind["type"]
        self.size, self.offset = int(kind.get("size", _SIZES.get(self.kind, 0))), int(entry.get("offset", 0))
        self.optional = entry.get("is-optional") is True
        if self.kind not in _SIZES or self.size < 1:
            raise FormatError(f"index.json: variable {self.name} is of the type {self.kind!r}")

    def values(self, bits: Bits, texts: Sequence[str] | None) -> list[str]:
        """Value of each state as text; ``none`` where an optional one is missing."""
        if not self.optional:
            return self._shown(bits, texts)
        there = bits[:, 0].tolist()
        shown = self._shown(bits[:, 1:] * bits[:, :1], texts)
        return [value if here else "none" for value, here in zip(shown, there, strict=True)]

    def _shown(self, bits: Bits, texts: Sequence[str] | None) -> list[str]:
        if self.kind == "bool":
            return ["true" if on else "false" for on in (bits.max(axis=1) > 0).tolist()]
        if self.kind == "double":
            packed = np.packbits(bits, axis=1, bitorder="little")
            return [f"{value:g}" for value in packed.view("<f8").ravel().tolist()]
        if self.kind == "rational":
            half = self.size // 2
            pairs = zip(self._whole(bits[:, :half], True), self._whole(bits[:, half:], False), strict=True)
            return [f"{a}/{b}" for a, b in pairs]
        numbers = self._whole(bits, self.kind == "int")
        if self.kind != "string":
            return [str(number + self.offset) for number in numbers]
        if texts is None or max(numbers, default=0) >= len(texts):
            raise FormatError(f"{_FOLDER}/strings.bin lacks values of variable {self.name}")
        return [texts[number] for number in numbers]

    def _whole(self, bits: Bits, signed: bool) -> list[int]:
        """Whole numbers of up to 64 bits, in two's complement where they are signed."""
        width = bits.shape[1]
        if width > 64:
            raise FormatError(f"index.json: variable {self.name} has {width} bits, expected up to 64")
        low = bits[:, :63].astype(np.int64) @ (np.int64(1) << np.arange(min(width, 63)))
        sign = -1 if signed else 1
        top = {64: sign * 2**63}.get(width, -(2**width) if signed else 0)  # of the last bit, beyond `low`
        return [number + top * last for number, last in zip(low.tolist(), bits[:, -1].tolist(), strict=True)]
