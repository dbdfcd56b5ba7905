"""Freezes all actions of a coordinator, thaws them, and takes back everything at once.

A freeze holds from the moment in which it is asked for, whether or not it can be stored: then it ends with a restart,
which the answer says.
"""

from skewscope.adapters.actions.action_book import ActionRequestError, ActionStoreError, AuditNote
from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.engine.actions.action import APPLIED, APPLYING, APPROVED, PROPOSED, VERIFIED, Action
from skewscope.engine.actions.freeze import Freeze


async def set_freeze(coordinator: Coordinator, freeze: Freeze | None, note: AuditNote) -> str:
    """Freezes all actions, or thaws them with None; returns why it could not be stored, '' where it is.

    Raises:
        ActionRequestError: another controller leads.
    """
    if not coordinator.may_act():
        raise ActionRequestError("another controller leads, or this one is about to: ask again")
    book = coordinator.book
    book.freeze = freeze
    try:
        await book.store.save_freeze(freeze, note.t, note.who, note.what)
    except ActionStoreError as error:
        return str(error)
    return ""


async def undo_all(coordinator: Coordinator, who: str, why: str) -> tuple[list[Action], list[str]]:
    """Has every change in place taken back, and refuses what has not begun; returns these actions and what failed.

    The caller freezes first, so that nothing new begins meanwhile.
    """
    done: list[Action] = []
    failed: list[str] = []
    for each in list(coordinator.actions.values()):
        if each.state in (PROPOSED, APPROVED):
            ask = coordinator.refuse
        elif each.state in (APPLYING, APPLIED, VERIFIED):
            ask = coordinator.undo
        else:
            continue
        try:
            done.append(await ask(each.id, who, why))
        except ActionRequestError as error:
            failed.append(f"{each.id}: {error}")
    return done, failed
