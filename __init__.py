"""Skewscope: finds which skew affects which part of an LLM cluster, with evidence for and against.

Replay a recording and list what was found:

>>> from skewscope import demo_path, replay
>>> result = replay(demo_path())
>>> for incident in (one for one in result.incidents if one.explained_by is None):
...     print(incident.condition, incident.kind, incident.name, incident.state)
tp-straggler rank n2 resolved
fabric-loss rank n5 resolved
burst-admission-backlog replica A firing

`docs/api.md` describes each name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skewscope.adapters.health_client import Health, HealthAnswer, HealthOverview
    from skewscope.adapters.inputs.recording import demo_path
    from skewscope.adapters.runtime.replay import ReplayResult, replay
    from skewscope.engine.engine import Engine
    from skewscope.engine.model.incident import Incident
    from skewscope.engine.model.topology import Topology
    from skewscope.kb.loader import catalogue as load_catalogue
    from skewscope.kb.model import Catalogue
    from skewscope.kb.problems import InputError, SkewscopeError
    from skewscope.rules.loader import load_strict as load_rules

__all__ = [
    "Catalogue",
    "Engine",
    "Health",
    "HealthAnswer",
    "HealthOverview",
    "Incident",
    "InputError",
    "ReplayResult",
    "SkewscopeError",
    "Topology",
    "demo_path",
    "load_catalogue",
    "load_rules",
    "replay",
]

_SOURCES = {
    "Catalogue": ("kb.model", "Catalogue"),
    "Engine": ("engine.engine", "Engine"),
    "Health": ("adapters.health_client", "Health"),
    "HealthAnswer": ("adapters.health_client", "HealthAnswer"),
    "HealthOverview": ("adapters.health_client", "HealthOverview"),
    "Incident": ("engine.model.incident", "Incident"),
    "InputError": ("kb.problems", "InputError"),
    "ReplayResult": ("adapters.runtime.replay", "ReplayResult"),
    "SkewscopeError": ("kb.problems", "SkewscopeError"),
    "Topology": ("engine.model.topology", "Topology"),
    "demo_path": ("adapters.inputs.recording", "demo_path"),
    "load_catalogue": ("kb.loader", "catalogue"),
    "load_rules": ("rules.loader", "load_strict"),
    "replay": ("adapters.runtime.replay", "replay"),
}


def __getattr__(name: str) -> Any:
    # Each name is loaded on first use: importing the package loads nothing else.
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _SOURCES[name]
    found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
