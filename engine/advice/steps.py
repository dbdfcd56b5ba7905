"""Advised mitigations as steps: with the names of an incident, in the order in which they can be carried out. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from skewscope.engine.advice.command_values import placeholder_values, seen_error
from skewscope.engine.advice.driver_errors import order_commands
from skewscope.engine.model.incident import Advice, Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.command_template import fill_command, is_safe_value, placeholders
from skewscope.kb.command_tools import COMMAND, COMMAND_TOOLS
from skewscope.kb.model import Catalogue, Mitigation, MitigationCommand

RISKS = ("low", "medium", "high")
_NOUNS: Mapping[str, tuple[str, str]] = {
    "node": ("node", ""),
    "machine": ("node", ""),
    "replica": ("replica", "replica "),
    "rank": ("rank", "rank "),
    "group": ("group", "group "),
    "pool": ("pool", "pool "),
    "switch": ("switch", "switch "),
}
"""By noun in the name of a mitigation: the placeholder that it stands for, and what precedes the name."""
_noun = re.compile(rf"\b(?:a|an|the) ({'|'.join(_NOUNS)})\b")


@dataclass(frozen=True, slots=True)
class StepCommand:
    """A command with the names of an incident."""

    command: MitigationCommand
    unfilled: tuple[str, ...] = ()
    """Placeholders that only an operator can fill in, as they stand in the text: `SERVER`."""
    is_for_other: bool = False
    """Whether it is for errors of a GPU's driver of which none was seen."""

    @property
    def is_ready(self) -> bool:
        """Whether it is a command line that changes something and can be run as it stands."""
        known = COMMAND_TOOLS.get(self.command.tool)
        form = known.form if known else COMMAND
        return not (self.unfilled or self.is_for_other or self.command.reads) and form == COMMAND


@dataclass(frozen=True, slots=True)
class AdvisedStep:
    """A mitigation that is advised for an incident."""

    advice: Advice
    title: str
    """`Drain n2`."""
    mitigation: Mitigation | None = None
    """None where the catalogue does not have it."""
    commands: tuple[StepCommand, ...] = ()

    @property
    def ready(self) -> StepCommand | None:
        """The command that can be run as it stands, one with an undo first; None without any."""
        some = [one for one in self.commands if one.is_ready]
        return min(some, key=lambda one: not one.command.undo, default=None)

    @property
    def first(self) -> StepCommand | None:
        """The command to show: one that is ready, else the first one that changes something."""
        some = (one for one in self.commands if not one.command.reads)
        return self.ready or next(some, None)

    @property
    def risk(self) -> str:
        """The risk: low, medium or high; '' where it is unknown."""
        return self.mitigation.risk if self.mitigation else ""


def advised_steps(
    incident: Incident, catalogue: Catalogue, topology: Topology | None = None
) -> tuple[AdvisedStep, ...]:
    """Returns the mitigations of an incident, those first that can be carried out: ready, with an undo, of low risk."""
    topology = topology or Topology()
    values = placeholder_values(incident, topology)
    error = seen_error(incident)
    known = ((advice, catalogue.mitigations.get(advice.id)) for advice in incident.mitigations)
    return tuple(sorted((_build_step(advice, one, values, error) for advice, one in known), key=_order))


def _build_step(advice: Advice, known: Mitigation | None, values: Mapping[str, str], error: int) -> AdvisedStep:
    if known is None:
        return AdvisedStep(advice, advice.id)
    commands = (_build_command(template, values, error) for template in order_commands(known.commands, error))
    return AdvisedStep(advice, name_step(known, values), known, tuple(commands))


def _build_command(template: MitigationCommand, values: Mapping[str, str], error: int) -> StepCommand:
    names = placeholders(f"{template.do} {template.undo}")
    unfilled = tuple(name.upper() for name in names if not is_safe_value(values.get(name, ""), template.tool))
    is_for_other = bool(template.errors) and error not in template.errors
    return StepCommand(fill_command(template, values), unfilled, is_for_other)


def name_step(mitigation: Mitigation, values: Mapping[str, str]) -> str:
    """Returns the name of a mitigation with the names of what it acts on: `Drain n2`."""

    def replace_noun(found: re.Match[str]) -> str:
        placeholder, before = _NOUNS[found[1]]
        return f"{before}{values[placeholder]}" if values.get(placeholder) else found[0]

    return _noun.sub(replace_noun, mitigation.name, count=1)


def _order(step: AdvisedStep) -> tuple[int, bool, int]:
    """Sorts what can be run here first, then what has a command at all; what is only an idea comes last."""
    ready, is_risky = step.ready, step.risk == RISKS[-1]
    tier = 0 if ready and not is_risky else 1 if step.first else 2
    has_no_undo = ready is None or not ready.command.undo
    return tier, has_no_undo, RISKS.index(step.risk) if step.risk in RISKS else len(RISKS)
