"""Whether the mode `act` may be used at a target: after a shadow run over enough days, or with a stated reason."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skewscope.adapters.actions.settings import ACT, ActionSettings

MAX_KEPT = 20
"""Shadow runs that a store keeps, the latest ones."""


def list_acting_targets(settings: ActionSettings, targets: Iterable[str]) -> list[str]:
    """Returns the targets at which any change may be made without a person, in order."""
    rules = [rule for rule in settings.modes if rule.mode == ACT]
    return [
        name
        for name in targets
        if settings.mode == ACT or any(not rule.target or name in rule.target for rule in rules)
    ]


def find_unproven_targets(
    settings: ActionSettings, targets: Iterable[str], evidence: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Returns the targets that may act and are in no shadow run over enough days; none where that is acknowledged."""
    if settings.no_shadow_evidence:
        return []
    seen = {name for each in evidence if each["days"] >= settings.shadow_days for name in each["targets"]}
    return [name for name in list_acting_targets(settings, targets) if name not in seen]
