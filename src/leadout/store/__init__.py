"""Model names to local files. Knows nothing of loading models or of the engine."""

from leadout.store.catalogue import CatalogueModel
from leadout.store.listing import (
    CachedModel,
    ModelRow,
    cached_models,
    catalogue_entries,
    draft_to_fetch,
    models_overview,
)
from leadout.store.progress import NoProgress, Progress
from leadout.store.resolve import Resolved, pull, resolve
from leadout.store.settings import StoreSettings

__all__ = [
    "CachedModel",
    "CatalogueModel",
    "ModelRow",
    "NoProgress",
    "Progress",
    "Resolved",
    "StoreSettings",
    "cached_models",
    "catalogue_entries",
    "draft_to_fetch",
    "models_overview",
    "pull",
    "resolve",
]
