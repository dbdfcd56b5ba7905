"""Key commands that work on every screen: moving in time, and acting on incidents."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skewscope.adapters.view.action_feed import ActionFeed
from skewscope.engine.advice.steps import AdvisedStep, advised_steps
from skewscope.engine.model.incident import Incident
from skewscope.kb.problems import SkewscopeError
from skewscope.tui.console.player import parse_time
from skewscope.tui.console.state import REFRESH_INTERVALS_S, ConsoleState
from skewscope.tui.render import mitigation_plan, units
from skewscope.tui.render.text import line

if TYPE_CHECKING:
    from skewscope.tui.console.app import Console

RECORD_WINDOW_S = 300.0
"""Length of the recording that the record key writes."""
MAX_CHOICES = 9
SNOOZE_DURATIONS = {"1": 900.0, "2": 3600.0, "3": 4 * 3600.0, "4": 24 * 3600.0}


class ConsoleCommands:
    """A group of console commands."""

    def __init__(self, console: "Console") -> None:
        self.console = console

    @property
    def state(self) -> ConsoleState:
        """The console's state."""
        return self.console.state


class TimeCommands(ConsoleCommands):
    """Position in time, playback speed, refresh rate, and recording."""

    def do_play(self, _arg: int) -> None:
        """Pause or resume; play or pause a recording."""
        self.state.toggle_pause()
        self.console.redraw()

    def do_step(self, arg: int) -> None:
        """Step by one snapshot."""
        if self.can_seek():
            self.state.seek(self.state.player.step(arg))
            self.console.redraw()

    def do_jump(self, arg: int) -> None:
        """Jump by seconds of data."""
        if self.can_seek():
            self.state.seek(self.state.player.jump(arg))
            self.console.redraw()

    def do_speed(self, arg: int) -> None:
        """Change the playback speed."""
        self.state.player = self.state.player.shift_speed(arg)
        self.console.redraw()

    def can_seek(self) -> bool:
        """Returns whether the replay can be moved; shows a message if it is still being read."""
        if self.state.progress is not None:
            self.console.show_message("The recording is still loading.", True)
        return self.state.snapshot is not None and self.state.progress is None

    def do_goto(self, _arg: int) -> None:
        """Prompt for a time."""
        if self.console.current_screen is not None and self.can_seek():
            self.console.current_screen.prompt_for(
                "go to: 12:03:11, +30 from the start, -10 from the end", "", self._seek_to_text
            )

    def _seek_to_text(self, text: str) -> None:
        now = self.state.snapshot
        time = parse_time(text, now.start, now.end) if now else None
        if time is None:
            self.console.show_message(f"{text!r} is not a time of the data; write 12:03:11, +30 or -10", True)
        else:
            self.state.seek(self.state.player.seek(time))
            self.console.redraw()

    def seek_share(self, share: float) -> None:
        """Seek to a fraction of the data, 0 to 1."""
        now = self.state.snapshot
        if now is not None and self.can_seek():
            self.state.seek(self.state.player.seek(now.start + share * (now.end - now.start)))
            self.console.redraw()

    def do_rate(self, arg: int) -> None:
        """Change the refresh interval."""
        self.state.refresh_index = min(max(self.state.refresh_index - arg, 0), len(REFRESH_INTERVALS_S) - 1)
        self.console.timer.stop()
        self.console.timer = self.console.set_interval(REFRESH_INTERVALS_S[self.state.refresh_index], self.console.pull)
        self.console.show_message(
            f"refresh every {units.format_duration(REFRESH_INTERVALS_S[self.state.refresh_index])}", False
        )

    def do_record(self, _arg: int) -> None:
        """Write the last minutes to a new recording in the background."""
        snapshot = self.state.snapshot
        if snapshot is None:
            return
        begin = max(snapshot.start, snapshot.time - RECORD_WINDOW_S)
        name = f"skewscope-{units.format_datetime(snapshot.time)[:19].replace(' ', 'T').replace(':', '')}"
        self.console.show_message(f"saving {units.format_duration(snapshot.time - begin)} into {name} …", False)
        self.console.run_worker(
            lambda: self._save_recording(self.console.options.recordings_folder / name, begin, snapshot.time),
            thread=True,
        )

    def _save_recording(self, folder: Path, begin: float, end: float) -> None:
        try:
            message, bad = f"saved {self.state.feed.export_recording(folder, begin, end)}", False
        except (SkewscopeError, OSError) as error:
            message, bad = f"Nothing was saved: {error}", True
        self.console.call_from_thread(self.console.show_message, message, bad)


class IncidentCommands(ConsoleCommands):
    """Acknowledge, snooze, and show the plan of a mitigation."""

    def do_ack(self, _arg: int) -> None:
        """Acknowledge the selected incidents, or undo that."""
        if self._require_incident() is None:
            return
        incidents = self.console.selected_incidents
        feed = self.state.action_feed
        if feed is None or not feed.has_token:
            self.state.acknowledge(incidents)
        else:
            self.console.run_worker(lambda: self._acknowledge_remotely(feed, incidents), thread=True)
        self.console.clear_marks()
        self.console.redraw()

    def _acknowledge_remotely(self, feed: ActionFeed, incidents: Sequence[Incident]) -> None:
        """Let the controller note who looks after the incidents; if all are acknowledged, withdraw that."""
        taken = self.state.snapshot.acknowledged if self.state.snapshot else {}
        fresh = [one for one in incidents if one.id not in taken]
        did = "acknowledged" if fresh else "no longer acknowledged"
        try:
            for one in fresh or incidents:
                feed.acknowledge(one.id, bool(fresh))
            message, bad = (
                f"{len(fresh or incidents)} {did} at the controller, seen by all",
                False,
            )
        except SkewscopeError as error:
            message, bad = f"acknowledge: {error}", True
        self.console.call_from_thread(self.console.show_message, message, bad)

    def do_snooze(self, _arg: int) -> None:
        """Prompt for a duration and snooze the selected incidents."""
        chosen = self._require_incident()
        if chosen is None:
            return

        some = self.console.selected_incidents

        def then(answer: str) -> None:
            self.state.snooze(some, SNOOZE_DURATIONS[answer])
            self.console.clear_marks()
            self.console.show_message(
                f"snoozed for {units.format_duration(SNOOZE_DURATIONS[answer])}; a undoes it", False
            )

        what = f"{self.state.names.incident_name(chosen)} on {chosen.name}"
        if len(some) > 1:
            what = f"{len(some)} marked incidents"
        lines = [
            line(what, "title"),
            (),
            *(((f"  {n}", "key"), (f"  {units.format_duration(s)}", "")) for n, s in SNOOZE_DURATIONS.items()),
        ]
        self.console.show_dialog("snooze for how long?", lambda _columns: lines, then, "1234")

    def _require_incident(self) -> Incident | None:
        if self.console.selected_incident is None:
            self.console.show_message("No incident is selected.", True)
        return self.console.selected_incident

    def do_plan(self, _arg: int) -> None:
        """Choose a mitigation and show its plan as a diff."""
        chosen = self._require_incident()
        if chosen is None or self.state.snapshot is None:
            return
        if not chosen.mitigations:
            self.console.show_message(
                "No mitigation is advised" + ("; see the incident that explains it." if chosen.explained_by else "."),
                True,
            )
            return
        advised = advised_steps(chosen, self.state.names.catalogue, self.state.snapshot.topology)
        steps = [step for step in advised if not step.shows][:MAX_CHOICES]
        lines = mitigation_plan.menu_lines(steps)
        choices = "".join(str(n) for n in range(1, len(steps) + 1))
        self.console.show_dialog(
            "mitigations", lambda _columns: lines, lambda n: self._show_plan(chosen, steps[int(n) - 1]), choices
        )

    def _show_plan(self, chosen: Incident, step: AdvisedStep) -> None:
        snapshot = self.state.snapshot
        if snapshot is None:
            return
        plan = mitigation_plan.plan_lines(chosen, step.advice, snapshot.topology, self.state.names)
        keys = line("c copies the command, u its undo" if step.first else "no command to copy", "dim")

        def then(answer: str) -> None:
            if not self.console.copies.copy_steps([step], is_undo=answer == "u"):
                self.console.show_message(f"{step.title} has no command as undo", True)

        lines = [keys, (), *plan]
        self.console.show_dialog(f"plan: {step.title}", lambda _columns: lines, then, "cu" if step.first else "")
