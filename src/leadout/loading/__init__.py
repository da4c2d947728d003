"""From names to an engine: the only place that knows store, models, drafters and engine at once."""

from leadout.loading.engine import load
from leadout.loading.models import LoadedModels, draft_model_of, is_model, is_one_vocabulary, load_models
from leadout.loading.pacing import profile_key

__all__ = [
    "LoadedModels",
    "draft_model_of",
    "is_model",
    "is_one_vocabulary",
    "load",
    "load_models",
    "profile_key",
]
