"""Learning from a simulator: what was seen, what it is worth, and certificates from fresh samples."""
