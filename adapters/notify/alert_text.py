"""An incident as a short text that can be acted on: what and where, since when, cost, command, undo, test, link.

All names are those of the catalogue, all commands have the names of the incident.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from skewscope.adapters.notify import incident_text
from skewscope.adapters.notify.alert_labels import group_key
from skewscope.engine.advice.cost_words import describe_cost, describe_normal
from skewscope.engine.advice.incident_words import describe_cause, describe_incident
from skewscope.engine.advice.steps import AdvisedStep, advised_steps
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import FLEET, Topology
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import join_names
from skewscope.kb.quantities import format_probability

SIGNS = {"critical": "✖", "warning": "!", "info": "·"}
SYMPTOM_SIGN = "~"
MAX_ALTERNATIVES = 3
MAX_UNSEEN = 3
INCIDENT_PATH = "/incidents"


@dataclass(frozen=True, slots=True)
class AlertContext:
    """What the texts of incidents need besides these."""

    catalogue: Catalogue
    topology: Topology
    link: str = ""
    """Base URL of the controller, '' for no links."""
    draw: Callable[[Incident], str] | None = None
    """Draws the members beside an incident as text; None for texts without pictures."""
    acknowledge_link: Callable[[Incident], str] | None = None
    """Returns where the reader says that they look after an incident, '' for nowhere."""

    def name(self, id_: str) -> str:
        """Returns the name of a condition or symptom, or its id if it is unknown."""
        known = self.catalogue.conditions.get(id_) or self.catalogue.symptoms.get(id_)
        return known.name if known else id_

    def title(self, one: Incident) -> str:
        """Returns `n2 holds up group A: every rank waits for it`."""
        return incident_text.shorten(describe_incident(one, self.catalogue, self.topology))

    def url(self, one: Incident) -> str:
        """Returns the address of the page of an incident, '' without a link."""
        return f"{self.link}{INCIDENT_PATH}/{one.id}" if self.link else ""

    def steps(self, one: Incident) -> tuple[AdvisedStep, ...]:
        """Returns the advice, what can be carried out first."""
        return advised_steps(one, self.catalogue, self.topology)

    def cost(self, one: Incident) -> str:
        """Returns `time of a round 8.7→21.6 ms (2.5×)`, '' where the impact is unknown."""
        return describe_cost(one, self.catalogue)


def alert_title(one: Incident, context: AlertContext) -> str:
    """Returns sign, what goes wrong where, and how sure it is: `✖ n2 waits for its data loader (97 %)`."""
    sign = SYMPTOM_SIGN if one.is_symptom else SIGNS[one.severity]
    note = describe_cause(one, context.catalogue) if one.is_symptom else format_probability(one.confidence)
    return incident_text.shorten(f"{sign} {context.title(one)} ({note})")


def alert_body(one: Incident, context: AlertContext) -> str:
    """Returns since when and at what cost, what to do with its undo and its test, what else it may be, and the link."""
    blocks = (
        _facts(one, context),
        context.draw(one).splitlines() if context.draw else (),
        _step_lines(context.steps(one), describe_normal(one, context.catalogue)),
        _alternative_lines(one, context),
        (context.url(one) or f"Incident {one.id}.", _acknowledge_line(one, context)),
    )
    texts = ("\n".join(incident_text.shorten(line) for line in block if line) for block in blocks)
    return "\n\n".join(text for text in texts if text)


def _acknowledge_line(one: Incident, context: AlertContext) -> str:
    link = context.acknowledge_link(one) if context.acknowledge_link else ""
    return f"I look after it: {link}" if link else ""


def began_text(one: Incident) -> str:
    """Returns when it began."""
    return datetime.fromtimestamp(math.floor(one.began), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _facts(one: Incident, context: AlertContext) -> Iterator[str]:
    hit, fleet = one.blast_radius, incident_text.fleet_of(one, context.topology)
    counts = ((hit.nodes, "node"), (hit.groups, "group"), (hit.replicas, "replica"))
    affected = ", ".join(f"{count} {noun}{'s' * (count != 1)}" for count, noun in counts if count)
    name = "" if one.is_symptom else context.name(one.condition)
    facts = (name, f"since {began_text(one)}", f"affects {affected}" if affected else "", context.cost(one))
    yield " · ".join(filter(None, facts))
    key = group_key(one, context.topology)
    yield f"place {key}" if key != one.name else ""
    yield f"fleet {fleet}" if fleet != FLEET else ""
    yield one.summary
    causes = [
        context.name(id_) + (f" {round(100 * share)} %" if share is not None else "")
        for id_, share in one.likely_causes
    ]
    yield f"Likely causes: {join_names(causes, MAX_ALTERNATIVES)}." if causes else ""


def _step_lines(steps: tuple[AdvisedStep, ...], normal: str) -> Iterator[str]:
    """Yields the first step with its command, its undo and its test, and with the level to come back to."""
    if not steps:
        return
    step, first = steps[0], steps[0].first
    yield f"Do: {step.title}" + (f" ({step.risk})" if step.risk else "")
    if first:
        unfilled = f"; fill in {join_names(first.unfilled)}" if first.unfilled else ""
        yield f"  {first.command.do}"
        yield f"  ({first.place}{unfilled})"
        yield f"  ({first.note_first})" if first.note_first else ""
    if first and first.command.undo:
        yield "Undo:"
        yield f"  {first.command.undo}"
    elif step.undo:
        yield f"Undo: {step.undo}"
    if step.shows:
        yield f"Look for: {step.test}"
    elif step.test:
        yield f"Worked if: {step.test} {normal}".rstrip()


def _alternative_lines(one: Incident, context: AlertContext) -> Iterator[str]:
    """Yields what it would be if it is wrong, with the test of the likeliest, and what could not be looked at."""
    if one.is_symptom:
        if signal := context.catalogue.signals.get(one.decides):
            yield f"{signal.name} would tell the causes apart."
        return
    named = [context.name(each.condition) for each in one.competing]
    if named:
        test = one.competing[0].separate_by
        yield f"If wrong: {named[0]}" + (f". {test}" if test else ".")
        yield f"Or: {join_names(named[1:], MAX_ALTERNATIVES)}." if named[1:] else ""
    unseen = [context.catalogue.signals[id_].name for id_ in one.unseen if id_ in context.catalogue.signals]
    yield f"No data for: {join_names(unseen, MAX_UNSEEN)}." if unseen else ""
