"""Key commands for the actions of a controller: approve, refuse, undo. Each is a key, then a reason and enter.

Where an action waits for a person who runs its calls, the key of the approval says that this was done.
"""

from skewscope.engine.actions.action import APPLIED, APPLYING, APPROVED, PROPOSED, UNDOING, VERIFIED, Action
from skewscope.engine.actions.by_hand import awaits_person
from skewscope.kb.problems import SkewscopeError
from skewscope.tui.console.commands import ConsoleCommands

ALLOWED = {
    "approve": (PROPOSED,),
    "refuse": (PROPOSED, APPROVED),
    "undo": (APPLYING, APPLIED, VERIFIED),
    "done": (APPLYING, UNDOING),
}
"""States in which an action can be approved, refused or undone, or a person can say that it was run."""
DEFAULT_REASONS = {"approve": "looks right", "refuse": "not wanted", "undo": "no longer wanted", "done": "was run"}
MAX_REASON = 500


class ActionCommands(ConsoleCommands):
    """Approve, refuse and undo the action under the cursor."""

    def do_approve(self, _arg: int) -> None:
        """Ask for a reason, then approve a proposal, or say that the calls of an action were run by hand."""
        screen = self.console.current_screen
        action = screen.model.selected_action if screen else None
        self._ask_reason("done" if action is not None and awaits_person(action) else "approve")

    def do_refuse(self, _arg: int) -> None:
        """Ask for a reason, then refuse an action that has not begun."""
        self._ask_reason("refuse")

    def do_undo(self, _arg: int) -> None:
        """Ask for a reason, then have a change in place taken back."""
        self._ask_reason("undo")

    def _ask_reason(self, verb: str) -> None:
        screen = self.console.current_screen
        action = screen.model.selected_action if screen else None
        trouble = self._find_obstacle(action, verb)
        if screen is None or action is None or trouble:
            self.console.show_message(f"{verb}: refused, {trouble}", True)
            return
        # Without an undo a reason has to be typed.
        default = DEFAULT_REASONS[verb] if action.reversible else ""
        what = f"enter: yes, “{default}”; or a reason" if default else "it has no undo: type a reason"
        screen.prompt_for(
            f"{verb} {action.title}? {what}; esc: no", "", lambda answer: self._decide(action, verb, answer or default)
        )

    def _find_obstacle(self, action: Action | None, verb: str) -> str:
        """Returns why nothing can be decided; '' if it can."""
        feed = self.state.action_feed
        if feed is None:
            return "only a controller (--url) carries changes out"
        if action is None:
            return "no change is selected; v shows the changes"
        if not self.state.write:
            return "read-only; start with --write"
        if not feed.has_token:
            return "there is no token; give one with the role approve"
        return "" if action.state in ALLOWED[verb] else f"it is {action.state}"

    def _decide(self, action: Action, verb: str, why: str) -> None:
        feed = self.state.action_feed
        why = why.strip()[:MAX_REASON]
        if feed is None or not why:
            self.console.show_message(f"{verb}: nothing was sent, a reason is needed", True)
            return

        def send() -> None:
            try:
                found = feed.send(action.id, verb, why)
                message, bad = f"{found.title}: {found.state}", False
            except SkewscopeError as error:
                message, bad = f"{verb} {action.title}: {error}", True
            self.console.call_from_thread(self._show_answer, message, bad)

        self.console.run_worker(send, thread=True)

    def _show_answer(self, message: str, bad: bool) -> None:
        self.console.pull()
        self.console.show_message(message, bad)
