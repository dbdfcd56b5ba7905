"""The world: telemetry sources, stores, workers, schedulers, notifiers. Side effects live here.

`from skewscope.adapters import Health` is what schedulers and routers need; it loads nothing but the standard library.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skewscope.adapters.health_client import Health, HealthAnswer

__all__ = ["Health", "HealthAnswer"]


def __getattr__(name: str) -> Any:
    # Loaded when it is asked for: whoever imports one adapter should not pay for all.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skewscope.adapters import health_client  # noqa: PLC0415

    return getattr(health_client, name)
