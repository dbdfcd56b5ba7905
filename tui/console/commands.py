"""What keys do everywhere: moving in time, and acting on a diagnosis. Both work on the console that has them."""

from pathlib import Path
from typing import TYPE_CHECKING

from skewscope.engine.model.incident import Incident
from skewscope.kb.problems import SkewscopeError
from skewscope.tui.console.player import parse_time
from skewscope.tui.console.state import REFRESH_INTERVALS_S, ConsoleState
from skewscope.tui.render import mitigation_plan, units
from skewscope.tui.render.text import line

if TYPE_CHECKING:
    from skewscope.tui.console.app import Console

RECORD_WINDOW_S = 300.0
"""How much is kept by the key that records."""
SNOOZE_DURATIONS = {"1": 900.0, "2": 3600.0, "3": 4 * 3600.0, "4": 24 * 3600.0}


class ConsoleCommands:
    """Verbs of a console."""

    def __init__(self, console: "Console") -> None:
        self.console = console

    @property
    def state(self) -> ConsoleState:
        """The console's state."""
        return self.console.state


class TimeCommands(ConsoleCommands):
    """Where in time, how fast, how often, and keeping what was on show."""

    def do_play(self, _arg: int) -> None:
        """Pause and go on; a recording plays and holds."""
        self.state.toggle_pause()
        self.console.redraw()

    def do_step(self, arg: int) -> None:
        """A scene on or back."""
        if self.can_seek():
            self.state.seek(self.state.player.step(arg))
            self.console.redraw()

    def do_jump(self, arg: int) -> None:
        """Seconds of data on or back."""
        if self.can_seek():
            self.state.seek(self.state.player.jump(arg))
            self.console.redraw()

    def do_speed(self, arg: int) -> None:
        """Faster or slower."""
        self.state.player = self.state.player.shift_speed(arg)
        self.console.redraw()

    def can_seek(self) -> bool:
        """Whether one can go elsewhere in time; says so if not."""
        if self.state.progress is not None:
            self.console.show_message("The recording is still being read.", True)
        return self.state.snapshot is not None and self.state.progress is None

    def do_goto(self, _arg: int) -> None:
        """Ask for a time."""
        if self.console.current_screen is not None and self.can_seek():
            self.console.current_screen.prompt_for(
                "go to: 12:03:11, +30 from the start, -10 from the end", "", self._seek_to_text
            )

    def _seek_to_text(self, words: str) -> None:
        now = self.state.snapshot
        time = parse_time(words, now.start, now.end) if now else None
        if time is None:
            self.console.show_message(f"{words!r} is no time that is on show: write 12:03:11, +30 or -10", True)
        else:
            self.state.seek(self.state.player.seek(time))
            self.console.redraw()

    def seek_share(self, share: float) -> None:
        """Go to a share of what there is."""
        now = self.state.snapshot
        if now is not None and self.can_seek():
            self.state.seek(self.state.player.seek(now.start + share * (now.end - now.start)))
            self.console.redraw()

    def do_rate(self, arg: int) -> None:
        """Look more or less often."""
        self.state.refresh_index = min(max(self.state.refresh_index - arg, 0), len(REFRESH_INTERVALS_S) - 1)
        self.console.timer.stop()
        self.console.timer = self.console.set_interval(REFRESH_INTERVALS_S[self.state.refresh_index], self.console.pull)
        self.console.show_message(
            f"a look every {units.format_duration(REFRESH_INTERVALS_S[self.state.refresh_index])}", False
        )

    def do_record(self, _arg: int) -> None:
        """Keep what was on show as a recording: in a new folder here, told when it is done."""
        scene = self.state.snapshot
        if scene is None:
            return
        begin = max(scene.start, scene.time - RECORD_WINDOW_S)
        name = f"skewscope-{units.format_datetime(scene.time)[:19].replace(' ', 'T').replace(':', '')}"
        self.console.show_message(f"recording {units.format_duration(scene.time - begin)} into {name} …", False)
        self.console.run_worker(
            lambda: self._save_recording(self.console.options.recordings_folder / name, begin, scene.time), thread=True
        )

    def _save_recording(self, folder: Path, begin: float, end: float) -> None:
        try:
            said, bad = f"kept {self.state.feed.export_recording(folder, begin, end)}", False
        except (SkewscopeError, OSError) as error:
            said, bad = f"Nothing was kept: {error}", True
        self.console.call_from_thread(self.console.show_message, said, bad)


class IncidentCommands(ConsoleCommands):
    """Acknowledge, snooze, look at a plan, be refused."""

    def do_ack(self, _arg: int) -> None:
        """Acknowledge, and take that back."""
        if self._require_incident() is not None:
            self.state.acknowledge(self.console.selected_incidents)
            self.console.clear_marks()
            self.console.redraw()

    def do_snooze(self, _arg: int) -> None:
        """Ask for how long."""
        chosen = self._require_incident()
        if chosen is None or self.state.reject_if_read_only("snooze"):
            return

        some = self.console.selected_incidents

        def then(answer: str) -> None:
            self.state.snooze(some, SNOOZE_DURATIONS[answer])
            self.console.clear_marks()
            self.console.show_message(
                f"snoozed for {units.format_duration(SNOOZE_DURATIONS[answer])}; a takes that back", False
            )

        what = f"{self.state.names.condition_name(chosen.condition)} on {chosen.name}"
        if len(some) > 1:
            what = f"{len(some)} diagnoses that are marked"
        lines = [
            line(what, "title"),
            (),
            *(((f"  {n}", "key"), (f"  {units.format_duration(s)}", "")) for n, s in SNOOZE_DURATIONS.items()),
        ]
        self.console.show_dialog("snooze for how long?", lambda _columns: lines, then, "1234")

    def _require_incident(self) -> Incident | None:
        if self.console.selected_incident is None:
            self.console.show_message("There is no diagnosis under the cursor.", True)
        return self.console.selected_incident

    def do_plan(self, _arg: int) -> None:
        """What can be done: choose one, and see its plan as a diff."""
        chosen = self._require_incident()
        if chosen is None or self.state.snapshot is None:
            return
        if not chosen.mitigations:
            self.console.show_message(
                "Nothing is advised for it" + ("; its root has advice." if chosen.explained_by else "."), True
            )
            return
        lines = mitigation_plan.menu_lines(chosen, self.state.names)
        choices = "".join(str(n) for n in range(1, min(len(chosen.mitigations), 9) + 1))
        self.console.show_dialog(
            "what to do", lambda _columns: lines, lambda n: self._show_plan(chosen, int(n) - 1), choices
        )

    def _show_plan(self, chosen: Incident, number: int) -> None:
        scene, advice = self.state.snapshot, chosen.mitigations[number]
        if scene is None:
            return
        told = mitigation_plan.plan_lines(chosen, advice, scene.topology, self.state.names, write=self.state.write)
        self.console.show_dialog(
            f"plan: {advice.id}", lambda _columns: told, lambda _x: self._refuse_apply(chosen, advice.id), "x"
        )

    def _refuse_apply(self, chosen: Incident, mitigation: str) -> None:
        """Nothing acts yet: say what keeps it from being done."""
        if not self.state.reject_if_read_only(f"apply {mitigation}"):
            self.state.log_action("was refused", chosen, note=mitigation)
            self.console.show_message(
                f"apply {mitigation}: refused, no adapter that could carry it out is connected", True
            )
