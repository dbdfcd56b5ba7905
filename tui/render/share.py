"""An incident as Markdown, for a chat or a ticket. Pure."""

from skewscope.engine.advice.steps import AdvisedStep, advised_steps
from skewscope.engine.model.incident import Incident
from skewscope.tui.render import detail, units
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.incident_lead import alternative_lines, step_note, why_lines
from skewscope.tui.render.text import Line, sanitise


def incident_markdown(incident: Incident, names: DisplayNames, picture: tuple[str, ...] = (), link: str = "") -> str:
    """Returns an incident as Markdown: the sentence, its members over time, commands, and what else it could be.

    Args:
        incident: the incident.
        names: names of ids, and what reads series.
        picture: lines of a picture, which keep their columns.
        link: address of its page, '' without one.
    """
    glyph = detail.severity_glyph(incident)[0]
    sure = "" if incident.is_symptom else f", {detail.format_confidence(incident)} sure"
    began = units.format_datetime(incident.began)
    lines = [f"**{glyph} {_escape(names.sentence(incident))}**{sure}, since {began}"]
    cost = detail.format_impact(incident, names)
    facts = " · ".join(filter(None, (incident.summary, cost)))
    lines += [_escape(facts)] if facts else []
    lines += ["", "```", *picture, "```"] if picture else []
    lines += [f"- {_escape(_plain(each))}" for each in why_lines(incident, names)]
    steps = advised_steps(incident, names.catalogue, names.topology)
    lines += ["", *_step_lines(steps[0])] if steps else []
    others = [f"- {_escape(_plain(each))}" for each in alternative_lines(incident, names)]
    lines += ["", "If this is wrong:", *others] if others and not incident.explained_by else []
    return "\n".join([*lines, "", f"Incident {incident.id}{f': {link}' if link else ''}"]) + "\n"


def _step_lines(step: AdvisedStep) -> list[str]:
    """Returns the first advice with its command and its undo, each in a block of its own."""
    lines = [f"Do: **{_escape(step.title)}** ({step_note(step)})"]
    if step.first:
        lines += ["", *_block(step.first.command.do)]
        note = step.first.note_first
        lines += [_escape(f"({note})")] if note else []
        if step.first.command.undo:
            lines += ["", "Undo:", "", *_block(step.first.command.undo)]
    label = "Look for" if step.shows else "Works if"
    return [*lines, "", f"{label}: {_escape(step.test)}"] if step.test else lines


def _block(command: str) -> list[str]:
    return ["```", sanitise(command), "```"]


def _plain(spans: Line) -> str:
    return " ".join("".join(content for content, _ in spans).split())


def _escape(value: str) -> str:
    """Returns a text in which names form no markup: they come from outside."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>#|" else char for char in sanitise(value))
