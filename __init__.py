"""Skewscope: which skew, on which node, with what evidence.

from skewscope import Engine, Health, load_catalogue, replay
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skewscope.adapters.health_client import Health, HealthAnswer
    from skewscope.adapters.runtime.replay import replay
    from skewscope.engine.engine import Engine
    from skewscope.kb.loader import catalogue as load_catalogue

_MODULES = {
    "Engine": "engine.engine",
    "Health": "adapters.health_client",
    "HealthAnswer": "adapters.health_client",
    "load_catalogue": "kb.loader",
    "replay": "adapters.runtime.replay",
}
__all__ = ["Engine", "Health", "HealthAnswer", "load_catalogue", "replay"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: the import of one floor must not pay for all.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
