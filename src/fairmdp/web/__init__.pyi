# What `fairmdp.web` offers, loaded at first use.
from . import worlds
from .server import serve

__all__ = ["serve", "worlds"]
