"""Learning-rate surfaces that others have published: what knows their files, and nothing else does.

Their files are read as hostile and become ordinary tables: recipe ``fixed(lr=...)``, every other
setting a column.
"""

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

if TYPE_CHECKING:
    from rebench.surfaces.catalogue import PUBLISHED, SURFACES
    from rebench.surfaces.ingest import Ingested, ingest
    from rebench.surfaces.published import fetch

__all__ = ["PUBLISHED", "SURFACES", "Ingested", "fetch", "ingest"]

load_on_demand(__name__)
