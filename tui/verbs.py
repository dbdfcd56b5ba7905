"""What keys do everywhere: moving in time, and acting on a diagnosis. Both work on the console that has them."""

from pathlib import Path
from typing import TYPE_CHECKING

from skewscope.engine.incident import Incident
from skewscope.kb.problems import SkewscopeError
from skewscope.tui import plan, units
from skewscope.tui.desk import RATES, Desk
from skewscope.tui.player import asked_time
from skewscope.tui.text import line

if TYPE_CHECKING:
    from skewscope.tui.app import Console

KEPT_S = 300.0
"""How much is kept by the key that records."""
SNOOZES = {"1": 900.0, "2": 3600.0, "3": 4 * 3600.0, "4": 24 * 3600.0}


class Verbs:
    """Verbs of a console."""

    def __init__(self, console: "Console") -> None:
        self.console = console

    @property
    def desk(self) -> Desk:
        """The console's state."""
        return self.console.desk


class TimeVerbs(Verbs):
    """Where in time, how fast, how often, and keeping what was on show."""

    def do_play(self, _arg: int) -> None:
        """Pause and go on; a recording plays and holds."""
        self.desk.pause()
        self.console.show()

    def do_step(self, arg: int) -> None:
        """A scene on or back."""
        if self.has_time():
            self.desk.go(self.desk.player.step(arg))
            self.console.show()

    def do_jump(self, arg: int) -> None:
        """Seconds of data on or back."""
        if self.has_time():
            self.desk.go(self.desk.player.jump(arg))
            self.console.show()

    def do_speed(self, arg: int) -> None:
        """Faster or slower."""
        self.desk.player = self.desk.player.shift(arg)
        self.console.show()

    def has_time(self) -> bool:
        """Whether one can go elsewhere in time; says so if not."""
        if self.desk.progress is not None:
            self.console.tell("The recording is still being read.", True)
        return self.desk.scene is not None and self.desk.progress is None

    def do_goto(self, _arg: int) -> None:
        """Ask for a time."""
        if self.console.here is not None and self.has_time():
            self.console.here.ask("go to: 12:03:11, +30 from the start, -10 from the end", "", self._goto)

    def _goto(self, words: str) -> None:
        now = self.desk.scene
        time = asked_time(words, now.start, now.end) if now else None
        if time is None:
            self.console.tell(f"{words!r} is no time that is on show: write 12:03:11, +30 or -10", True)
        else:
            self.desk.go(self.desk.player.seek(time))
            self.console.show()

    def seek_share(self, share: float) -> None:
        """Go to a share of what there is."""
        now = self.desk.scene
        if now is not None and self.has_time():
            self.desk.go(self.desk.player.seek(now.start + share * (now.end - now.start)))
            self.console.show()

    def do_rate(self, arg: int) -> None:
        """Look more or less often."""
        self.desk.rate = min(max(self.desk.rate - arg, 0), len(RATES) - 1)
        self.console.timer.stop()
        self.console.timer = self.console.set_interval(RATES[self.desk.rate], self.console.pull)
        self.console.tell(f"a look every {units.seconds(RATES[self.desk.rate])}", False)

    def do_record(self, _arg: int) -> None:
        """Keep what was on show as a recording: in a new folder here, told when it is done."""
        scene = self.desk.scene
        if scene is None:
            return
        begin = max(scene.start, scene.time - KEPT_S)
        name = f"skewscope-{units.moment(scene.time)[:19].replace(' ', 'T').replace(':', '')}"
        self.console.tell(f"recording {units.seconds(scene.time - begin)} into {name} …", False)
        self.console.run_worker(lambda: self._kept(self.console.options.folder / name, begin, scene.time), thread=True)

    def _kept(self, folder: Path, begin: float, end: float) -> None:
        try:
            said, bad = f"kept {self.desk.feed.keep(folder, begin, end)}", False
        except (SkewscopeError, OSError) as error:
            said, bad = f"Nothing was kept: {error}", True
        self.console.call_from_thread(self.console.tell, said, bad)


class ActVerbs(Verbs):
    """Acknowledge, snooze, look at a plan, be refused."""

    def do_ack(self, _arg: int) -> None:
        """Acknowledge, and take that back."""
        if self._needs_incident() is not None:
            self.desk.acknowledge(self.console.selection)
            self.console.unmark()
            self.console.show()

    def do_snooze(self, _arg: int) -> None:
        """Ask for how long."""
        chosen = self._needs_incident()
        if chosen is None or self.desk.refused("snooze"):
            return

        some = self.console.selection

        def then(answer: str) -> None:
            self.desk.snooze(some, SNOOZES[answer])
            self.console.unmark()
            self.console.tell(f"snoozed for {units.seconds(SNOOZES[answer])}; a takes that back", False)

        what = f"{self.desk.words.condition(chosen.condition)} on {chosen.name}"
        if len(some) > 1:
            what = f"{len(some)} diagnoses that are marked"
        lines = [
            line(what, "title"),
            (),
            *(((f"  {n}", "key"), (f"  {units.seconds(s)}", "")) for n, s in SNOOZES.items()),
        ]
        self.console.sheet("snooze for how long?", lambda _columns: lines, then, "1234")

    def _needs_incident(self) -> Incident | None:
        if self.console.chosen is None:
            self.console.tell("There is no diagnosis under the cursor.", True)
        return self.console.chosen

    def do_plan(self, _arg: int) -> None:
        """What can be done: choose one, and see its plan as a diff."""
        chosen = self._needs_incident()
        if chosen is None or self.desk.scene is None:
            return
        if not chosen.mitigations:
            self.console.tell(
                "Nothing is advised for it" + ("; its root has advice." if chosen.explained_by else "."), True
            )
            return
        lines = plan.menu(chosen, self.desk.words)
        choices = "".join(str(n) for n in range(1, min(len(chosen.mitigations), 9) + 1))
        self.console.sheet("what to do", lambda _columns: lines, lambda n: self._planned(chosen, int(n) - 1), choices)

    def _planned(self, chosen: Incident, number: int) -> None:
        scene, advice = self.desk.scene, chosen.mitigations[number]
        if scene is None:
            return
        told = plan.lines(chosen, advice, scene.topology, self.desk.words, write=self.desk.write)
        self.console.sheet(
            f"plan: {advice.id}", lambda _columns: told, lambda _x: self._applied(chosen, advice.id), "x"
        )

    def _applied(self, chosen: Incident, mitigation: str) -> None:
        """Nothing acts yet: say what keeps it from being done."""
        if not self.desk.refused(f"apply {mitigation}"):
            self.desk.note("was refused", chosen, note=mitigation)
            self.console.tell(f"apply {mitigation}: refused, no adapter that could carry it out is connected", True)
