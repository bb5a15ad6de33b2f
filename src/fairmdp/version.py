"""The version of this package, written once."""

__version__ = "0.2.0.dev0"
