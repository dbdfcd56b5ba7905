"""Adapters: telemetry sources, formats, storage, processes, notifiers. All side effects live here.

`from skewscope.adapters import Health` is the client for schedulers and routers; it loads only the standard library.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skewscope.adapters.health_client import Health, HealthAnswer

__all__ = ["Health", "HealthAnswer"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: the import of one adapter must not load others.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skewscope.adapters import health_client  # noqa: PLC0415

    return getattr(health_client, name)
