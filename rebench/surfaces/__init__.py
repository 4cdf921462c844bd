"""Learning-rate surfaces that others have published: what knows their files, and nothing else does.

Their files are read as hostile and become ordinary tables: recipe ``fixed(lr=...)``, every other
setting a column.
"""

from rebench.surfaces.ingest import SURFACES, Ingested, ingest

__all__ = ["SURFACES", "Ingested", "ingest"]
