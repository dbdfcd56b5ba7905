"""The visibility matrix: what a DPU sees of each condition, and what can mitigate it (khan2025dpu, question 3)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skewscope.kb.model import Catalogue, Condition, Mitigation

DEPLOYMENTS: Mapping[str, str] = {
    "dpu-front-end": "front-end NIC",
    "dpu-every-rail": "every rail",
    "dpu-pcie-root": "PCIe root",
    "dpu-relayed": "with relayed telemetry",
}
"""Deployments of DPUs, from the one that sees least."""

ACTORS: Mapping[str, str] = {
    "dpu": "the DPU",
    "fabric": "the fabric",
    "router": "a router",
    "scheduler": "a scheduler",
    "host": "the host",
    "operator": "a person",
}
"""Actors of mitigations, from the nearest to the wire."""

VISIBILITY_LEVELS = ("not_visible", "relayed", "partial", "visible")
"""What a DPU may see of a condition, from the least."""

DPU_CAPABILITIES = ("no", "part", "itself")
"""What a DPU could do of a mitigation, from the least."""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """What can be seen of a condition and what can be done about it."""

    condition: Condition
    verdicts: Mapping[str, str]
    """By deployment: visible, partial, relayed or not_visible."""
    actors: Mapping[str, tuple[str, ...]]
    """By actor: the mitigations that it carries out, best first; without actors that have none."""
    dpu: str
    """The most that a DPU could do of any of them: itself, part or no."""


def build_matrix(catalogue: Catalogue) -> tuple[MatrixRow, ...]:
    """Returns a row for each condition that is not withdrawn, by group and id."""
    held = [c for c in catalogue.conditions.values() if c.maturity != "withdrawn"]
    return tuple(
        _build_row(c, catalogue) for c in sorted(held, key=lambda c: (_GROUP_ORDER.get(c.group, 99), c.group, c.id))
    )


_GROUP_ORDER = {name: n for n, name in enumerate(("north-south", "pcie", "east-west"))}


def _build_row(c: Condition, catalogue: Catalogue) -> MatrixRow:
    ways = [catalogue.mitigations[id_] for id_ in c.mitigations if id_ in catalogue.mitigations]
    verdicts = {o.deployment: o.verdict for o in c.observability}
    return MatrixRow(
        c,
        {name: verdicts[name] for name in DEPLOYMENTS if name in verdicts},
        {actor: ids for actor in ACTORS if (ids := tuple(m.id for m in ways if m.actor == actor))},
        best_dpu_capability(ways),
    )


def best_dpu_capability(ways: Iterable[Mitigation]) -> str:
    """Returns the best capability of a DPU for some mitigations."""
    return max((m.dpu.can for m in ways), key=DPU_CAPABILITIES.index, default="no")


def count_verdicts(rows: Iterable[MatrixRow]) -> dict[str, dict[str, int]]:
    """Returns by deployment how many conditions have each verdict; `dpu`: how many a DPU could mitigate."""
    found: dict[str, dict[str, int]] = {name: {} for name in (*DEPLOYMENTS, "dpu")}
    for row in rows:
        for name, verdict in (*row.verdicts.items(), ("dpu", row.dpu)):
            found[name][verdict] = found[name].get(verdict, 0) + 1
    return found
