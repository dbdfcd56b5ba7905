"""An action in one sentence, for reports and notifications: both say the same."""

from collections.abc import Callable, Iterable

from skewscope.engine.actions.action import (
    APPLYING,
    APPROVED,
    DONE,
    FAILED,
    OVERRIDDEN,
    PROPOSED,
    UNDONE,
    VERIFIED,
    Action,
)
from skewscope.engine.actions.by_hand import awaits_person

MAX_LISTED = 5
MAX_CALLS = 200
"""Characters of the calls of a plan in a notification."""
NEWS_STATES = (PROPOSED, APPLYING, VERIFIED, DONE, UNDONE, FAILED, OVERRIDDEN)
"""States that a person is told of; the others follow within seconds, or nothing was changed."""


def describe_action(action: Action) -> str:
    """Returns what an action does, where it stands and what it gave back: `drain w2 at front: verified, helped`."""
    text = f"{action.title}: {action.state}"
    if action.outcome:
        text += f", {action.outcome}"
    if (back := action.measurement.recovery) is not None:
        text += f", {100 * min(max(back, 0.0), 1.0):.0f} % of what was lost is back"
    if action.ending:
        return f"{text} ({action.ending})"
    waits = action.state in (PROPOSED, APPROVED) and action.waiting
    return f"{text} (waits: {action.waiting})" if waits else text


def describe_actions(
    actions: Iterable[Action], incident: str, link: Callable[[Action], str] = lambda _action: ""
) -> tuple[str, ...]:
    """Returns the actions for an incident, latest first, a sentence each; of many the latest ones.

    `link` returns where the reader decides about an action; '' for nowhere.
    """
    found = sorted((one for one in actions if one.reason.incident == incident), key=lambda one: (-one.created, one.id))
    more = len(found) - MAX_LISTED
    sentences = tuple(add_link(describe_action(one), link(one)) for one in found[:MAX_LISTED])
    return (*sentences, f"and {more} earlier") if more > 0 else sentences


def add_link(text: str, link: str) -> str:
    """Returns a text with the address at which its reader decides; '' for none."""
    return f"{text}; decide at {link}" if link else text


def describe_news(action: Action, before: str, was_stuck: bool) -> str:
    """Returns what a person has to be told of an action that was in a state before; '' for nothing."""
    if action.stuck and not was_stuck:
        tried = "it" if action.plan.by_hand else "it is tried again, but"
        return f"{describe_action(action)}; {tried} needs a person: {action.waiting}{_ask_for_word(action)}"
    if action.state == before or action.state not in NEWS_STATES:
        return ""
    return f"{describe_action(action)}{_ask_for_approval(action)}{_ask_for_word(action)}"


def _ask_for_approval(action: Action) -> str:
    """Returns what an approval would do and take back, and how to give it; '' for what waits for none."""
    if action.state != PROPOSED:
        return ""
    plan = action.plan
    does = "".join(
        f"; {what}: {_shorten(' && '.join(calls))}"
        for what, calls in (("calls", plan.calls), ("undo", plan.undo_calls))
        if calls
    )
    return f"{does}; approve it with `skewscope act approve {action.id} --why REASON`"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CALLS else f"{line[:MAX_CALLS]}…"


def _ask_for_word(action: Action) -> str:
    """Returns what a person has to do and say; '' where nobody is waited for."""
    if not awaits_person(action):
        return ""
    first = "; run its calls" if action.state == APPLYING else ""
    return f"{first}, then say so with `skewscope act done {action.id} --why REASON`"
