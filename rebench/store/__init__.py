"""Records on disk: the files are the truth; there is no server and no lock."""

from rebench.store.record import Cost, Curve, Outcome, Provenance, Record

__all__ = ["Cost", "Curve", "Outcome", "Provenance", "Record"]
