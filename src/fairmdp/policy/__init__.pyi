from . import file
from .policy import Policy

__all__ = ["Policy", "file"]
