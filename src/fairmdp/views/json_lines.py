"""Results as JSON on one line: what commands print with ``--json``, loaded without tables and sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fairmdp.solution.file import plain, solution_to_dict
from fairmdp.solution.solution import Solution


def as_json(data: Mapping[str, Any]) -> str:
    """Data as one line of strict JSON."""
    return json.dumps(plain(data), allow_nan=False)


def solution_json(solution: Solution) -> str:
    """What a solution's file holds, on one line."""
    return json.dumps(solution_to_dict(solution), allow_nan=False)
