"""Problems in the languages of PRISM and JANI: Storm builds the model, and what it built is read.

It passes through a UMB file, which holds every probability as Storm has it. This needs stormpy, the extra
``storm``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from fairmdp.errors import FormatError
from fairmdp.files import reading
from fairmdp.io import umb
from fairmdp.io.explicit_model import with_kept_quotas
from fairmdp.model.problem import Problem

_JANI = ".jani"


def read(path: str, reward: str | None = None, constants: Mapping[str, object] | None = None) -> Problem:
    """Build the model of a file, with values for the constants that it leaves open, and read it."""
    with reading(path):
        pass  # Storm would not say why a file cannot be read
    try:
        import stormpy
        from stormpy.developer import LogLevel, SymbolicModelDescription, get_log_level, set_log_level
    except ImportError:
        raise FormatError(
            "models in the languages of PRISM and JANI are built by Storm, and stormpy is not installed\n"
            "  install the extra storm, or let PRISM export the model: prism MODEL -exportmodel model.all"
        ) from None
    level = get_log_level()
    set_log_level(LogLevel.OFF)  # what it would print is in the error that it raises
    try:
        if path.lower().endswith(_JANI):
            program, _ = stormpy.parse_jani_model(path)
        else:
            program = stormpy.parse_prism_program(path, prism_compatibility=True)
        model = _built(stormpy, SymbolicModelDescription(program), constants or {})
    except RuntimeError as error:
        raise FormatError(f"Storm says: {' '.join(str(error).split())}") from None
    finally:
        set_log_level(level)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.umb")
        stormpy.io.export_to_umb(model, file)
        problem = umb.read(file, reward)
    return with_kept_quotas(problem, path)


def _built(stormpy: Any, description: Any, constants: Mapping[str, object]) -> Any:
    """The model of all states that can be reached, with its labels, rewards and variables."""
    stated = [
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in constants.items()
    ]
    description = description.preprocess(",".join(stated))
    if description.has_undefined_constants():
        names = ", ".join(sorted(constant.name for constant in description.get_undefined_constants()))
        raise FormatError(
            f"constants without a value: {names}\n  give constants={{name: value}}, or -p name=value"
        )
    options = stormpy.BuilderOptions(build_full=True)
    options.set_build_choice_labels(True)
    options.set_build_state_valuations(True)
    program = description.as_jani_model() if description.is_jani_model() else description.as_prism_program()
    return stormpy.build_model(program, options=options)
