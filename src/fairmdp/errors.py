"""What can go wrong through the caller's doing; what the mathematics says is a `Status` instead."""


class FairMDPError(Exception):
    """Base of every error that fairmdp raises on purpose."""

    path: str | None = None  # the file whose name begins the message, if any


class ProblemError(FairMDPError, ValueError):
    """The model, the quotas or an option do not make sense; the message names the first offender."""


class SourceError(ProblemError):
    """The words that name a problem make no sense: on a command line, a mistake in that line."""


class FormatError(FairMDPError, ValueError):
    """A file cannot be written, or read as what it claims to be; the message names the place."""


class SolverError(FairMDPError, RuntimeError):
    """A numerical library failed in a way that proves nothing about the problem."""


class DeviceError(FairMDPError, RuntimeError):
    """A GPU was asked for and cannot be used; the message says why and how to go on without it."""


class SimulatorError(FairMDPError, RuntimeError):
    """A simulator's answer cannot be used; `partial` holds what had been learned before, if anything."""

    partial: object | None = None
