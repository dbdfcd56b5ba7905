"""The plan of a mitigation: its change as a diff of the topology, and its risk. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from skewscope.engine.advice.steps import AdvisedStep
from skewscope.engine.model.incident import Advice, Incident
from skewscope.engine.model.topology import Topology
from skewscope.tui.render import detail
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.incident_lead import step_note
from skewscope.tui.render.text import Line, line

EVICTION_MITIGATIONS = frozenset(
    {"quarantine-node", "evict-on-check", "retry-then-evict", "resize-parallel-group", "reseat-or-replace-device"}
)
"""Mitigations that remove a node from its groups."""
DEWEIGHT_MITIGATIONS = frozenset({"deweight-replica"})
REDUCED_WEIGHT = 0.5
"""The share of its weight that a replica keeps first: the mildest step with a measurable effect."""


def menu_lines(steps: Iterable[AdvisedStep]) -> list[Line]:
    """Returns the advised mitigations by number, what can be run first."""
    out: list[Line] = [line("Press a number to show the plan; nothing is applied.", "dim"), ()]
    for n, step in enumerate(steps, 1):
        by_dpu = f", by a DPU: {step.mitigation.dpu.can}" if step.mitigation else ""
        note = f"  {step.advice.actor}, {step_note(step)}{by_dpu}"
        out.append(((f"  {n}  ", "key"), (step.title, "title"), (note, "dim")))
        if step.advice.why:
            out.append(line(f"     {step.advice.why}"))
    return out


def plan_lines(incident: Incident, advice: Advice, topology: Topology, names: DisplayNames) -> list[Line]:
    """Returns a plan: change, purpose, risk, undo and verification."""
    known = names.catalogue.mitigations.get(advice.id)
    what = names.incident_title(incident)
    out: list[Line] = [line(names.mitigation_name(advice.id), "title"), line(f"for {what}"), ()]
    out += [line("dry run: nothing is applied", "label"), *diff_lines(incident, advice, topology), ()]
    if known:
        facts = (("what", known.what), ("actor", known.actor), ("from a DPU", f"{known.dpu.can}. {known.dpu.how}"))
        out += [((f"  {name}: ", "dim"), (text, "")) for name, text in facts]
        out += detail.recipe_lines(known)
        out += detail.advised_command_lines(known, incident, replace(names, topology=topology))
    if advice.why:
        out.append((("  why: ", "dim"), (advice.why, "")))
    return out


def diff_lines(incident: Incident, advice: Advice, topology: Topology) -> list[Line]:
    """Returns the topology's lines before and after."""
    changes = list(_topology_changes(incident, advice, topology))
    if not changes:
        actor = advice.actor or "actor"
        return [line(f"  no change of the topology: it changes a setting of the {actor} that is not known here", "dim")]
    out: list[Line] = [line("  --- topology, now", "dim"), line("  +++ topology, after", "dim")]
    for before, after in changes:
        out += [line(f"  - {before}", "gone"), line(f"  + {after}", "added")]
    return out


def _topology_changes(incident: Incident, advice: Advice, topology: Topology) -> Iterable[tuple[str, str]]:
    if advice.id in EVICTION_MITIGATIONS:
        yield from _remove_node(incident, topology)
    elif advice.id in DEWEIGHT_MITIGATIONS:
        yield from _lower_weight(incident, topology)


def _remove_node(incident: Incident, topology: Topology) -> Iterable[tuple[str, str]]:
    node = topology.node_of.get(incident.name, incident.name.split("/", maxsplit=1)[0])
    for group in topology.groups:
        left = [m for m in group.members if topology.node_of[m] != node]
        if 0 < len(left) < len(group.members):
            yield (
                f"{group.kind} {group.name}: {' '.join(group.members)}",
                f"{group.kind} {group.name}: {' '.join(left)}",
            )


def _lower_weight(incident: Incident, topology: Topology) -> Iterable[tuple[str, str]]:
    node = topology.node_of.get(incident.name, incident.name.split("/", maxsplit=1)[0])
    mine = {g.name for g in topology.groups if node in {topology.node_of[m] for m in g.members}} | {incident.name}
    for pool in topology.pools:
        slow = [name for name in pool.replicas if name in mine]
        if slow and len(slow) < len(pool.replicas):
            before = dict.fromkeys(pool.replicas, 1.0)
            after = before | dict.fromkeys(slow, REDUCED_WEIGHT)
            yield f"pool {pool.name}: {_format_weights(before)}", f"pool {pool.name}: {_format_weights(after)}"


def _format_weights(weights: dict[str, float]) -> str:
    """Returns shares of new requests, assuming equal weights before since the real ones are unknown."""
    total = sum(weights.values())
    return ", ".join(f"{name} {round(100 * weight / total)} %" for name, weight in weights.items())
