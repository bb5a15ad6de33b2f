"""What an agent can say of its run so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmdp.model.checks import Bools, Floats, ReadOnly, counted
from fairmdp.model.weights import Units
from fairmdp.online.drift import Drift
from fairmdp.online.intervals import ShareIntervals
from fairmdp.tables import Table


@dataclass(frozen=True, eq=False, repr=False)
class AgentReport(ReadOnly):
    """What was done so far, which is exact, and where the accounts stand.

    Attributes
    ----------
    steps : int
        Steps that were observed.
    gain : float
        Mean reward of these steps; NaN before the first.
    shares : ndarray
        Realised share of each quota's set, (K,): known exactly, so it has no interval.
    accounts : ndarray
        What each quota was given beyond its due, in steps, (K,); below 0 it is owed something.
    lowest : ndarray
        The lowest that each account ever was, (K,), 0 at the beginning.
    cushions : ndarray
        What an account is to hold before the agent earns freely, (K,).
    mode : str
        ``"restore"`` while the policy in force fills accounts, ``"earn"`` while it earns.
    restoring : float
        Part of the steps that restored.
    epochs : int
        How often the agent has drawn a new model from what it knows.
    long_run : ShareIntervals
        Long-run shares of the policy in force alone, since it came into force, with intervals that may be
        looked at at any time.
    start : str
        What the restoring policy rests on.
    drifts : tuple of Drift
        Changes of the world that were found: when, how surely, and a sentence. What was seen before is then
        forgotten, and a start for the world before promises nothing any more.
    notes : tuple of str
        What a careful reader should know.
    """

    steps: int
    gain: float
    shares: Floats
    accounts: Floats
    lowest: Floats
    cushions: Floats
    quota_names: tuple[str, ...]
    at_least: Floats
    at_most: Floats
    units: Units
    mode: str
    restoring: float
    epochs: int
    long_run: ShareIntervals
    start: str
    drifts: tuple[Drift, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def met(self) -> Bools:
        """Whether each quota was given its due so far, (K,)."""
        return np.asarray(self.accounts >= -1e-9)

    @property
    def worst_account(self) -> float:
        """The lowest account, in steps; infinite where nothing is owed."""
        return float(self.accounts.min(initial=np.inf))

    def to_table(self) -> Table:
        """Return one row per quota: its realised share, in its own units, bounds and account."""
        values = self.units.values
        columns = (values(self.shares), values(self.at_least), values(self.at_most), self.accounts, self.met)
        head = ("quota", "share", "at_least", "at_most", "account", "met")
        return Table(zip(head, (list(self.quota_names), *(c.tolist() for c in columns)), strict=True))

    def __repr__(self) -> str:
        return (
            f"AgentReport({counted(self.steps, 'step')}, gain={self.gain:.4g}, "
            f"worst_account={self.worst_account:+.1f} steps, {self.mode})"
        )
