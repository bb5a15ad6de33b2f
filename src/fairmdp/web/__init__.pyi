# What `fairmdp.web` offers, loaded at first use.
from .server import serve

__all__ = ["serve"]
