"""Actions: what can be done and its plan as a diff, what was acknowledged and snoozed, how the rules do."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skewscope.adapters.scene import RuleHealth
from skewscope.engine.incident import Advice, Incident
from skewscope.tui import columns, detail, plan, status, units
from skewscope.tui.columns import Cell, Column
from skewscope.tui.desk import Desk
from skewscope.tui.ledger import Entry
from skewscope.tui.pages.base import Page
from skewscope.tui.pages.catalogue import ORDER, STATES
from skewscope.tui.query import Table
from skewscope.tui.text import Line, Span, line, width, wrap, wrapped
from skewscope.tui.view import ranked

VIEWS = ("advice", "ledger", "rules")
COLUMNS: dict[str, tuple[Column, ...]] = {
    "advice": (
        Column("mark", "", 1, 1, 0),
        Column("what", "do", 24, 48, 0, shrinks=True),
        Column("for", "for", 20, 48, 1, shrinks=True),
        Column("where", "where", 8, 24, 2),
        Column("actor", "who", 6, 10, 4),
        Column("dpu", "a DPU", 6, 6, 5),
        Column("risk", "risk", 6, 6, 3),
        Column("standing", "standing", 8, 14, 6),
    ),
    "ledger": (
        Column("time", "when", 8, 8, 0),
        Column("who", "who", 8, 16, 1),
        Column("did", "did", 10, 18, 0),
        Column("what", "what", 20, 60, 0, shrinks=True),
        Column("until", "until", 8, 8, 2),
    ),
    "rules": (
        Column("mark", "", 1, 1, 0),
        Column("rule", "rule", 24, 52, 0, shrinks=True),
        Column("state", "state", 10, 10, 1),
        Column("judged", "judges", 6, 6, 3, right=True),
        Column("firing", "firing", 6, 6, 2, right=True),
        Column("suppressed", "explained", 9, 9, 5, right=True),
        Column("unknown", "unknown", 7, 7, 4, right=True),
        Column("lacking", "lacks", 16, 80, 6, shrinks=True),
    ),
}


@dataclass(frozen=True, slots=True)
class Act:
    """One piece of advice for one incident."""

    incident: Incident
    advice: Advice


class Actions(Page):
    """Three views: advice, the ledger, the rules."""

    name = "actions"
    number = 5
    fields: ClassVar[str] = "words  state:blind  actor:router  risk:low  !text"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.mode = 0
        self.every: list[Act | Entry | RuleHealth] = []
        self.items: list[Act | Entry | RuleHealth] = []

    @property
    def view(self) -> str:
        """advice, ledger or rules."""
        return VIEWS[self.mode]

    @property
    def selected(self) -> Incident | None:
        """The incident that the row under the cursor is about."""
        item = self.items[self.cursor] if self.cursor < len(self.items) else None
        if isinstance(item, Act):
            return item.incident
        return self.desk.words.incident(item.incident) if isinstance(item, Entry) else None

    @property
    def subject(self) -> str:
        """The mitigation, the condition of the incident, or the condition of the rule under the cursor."""
        item = self.items[self.cursor] if self.cursor < len(self.items) else None
        if isinstance(item, Act):
            return item.advice.id
        if isinstance(item, RuleHealth):
            return item.condition
        return self.selected.condition if self.selected else ""

    def collect(self) -> None:
        """The rows of this view."""
        scene = self.desk.scene
        if scene is None:
            return
        if self.view == "advice":
            firing = [row.incident for row in ranked(self.desk.incidents()) if row.incident.state == "firing"]
            self.every = [Act(incident, advice) for incident in firing for advice in incident.mitigations]
        elif self.view == "ledger":
            self.every = list(reversed(self.desk.ledger.entries))
        else:
            health = sorted(scene.rules, key=lambda h: (ORDER.index(h.state), not h.judged, h.rule))
            self.every = list(health)
        self.items = [self.every[n] for n in self.kept()]
        self.count = len(self.items)

    def identity(self, at: int) -> Hashable:
        """What a row is about."""
        item = self.items[at] if at < len(self.items) else None
        if isinstance(item, Act):
            return item.incident.id, item.advice.id
        return item.rule if isinstance(item, RuleHealth) else item

    def table(self) -> Table:
        """What a filter can ask."""

        def texts(column: str) -> list[str]:
            return [self._cell(item, column)[0] for item in self.every]

        names = [column.id for column in COLUMNS[self.view] if column.id != "mark"]
        hay = [" ".join(self._cell(item, name)[0] for name in names).lower() for item in self.every]
        words = {name: (lambda name=name: texts(name)) for name in names if name not in ("judged", "firing", "unknown")}
        numbers = {
            name: (lambda name=name: np.array([getattr(i, name) for i in self.every], float))
            for name in ("judged", "firing", "unknown")
            if self.view == "rules"
        }
        return Table(hay, words, numbers)

    def header(self, columns_: int, rows: int) -> list[Line]:
        """Which view this is, and the titles."""
        names: list[Span] = [(" ", "")]
        for n, name in enumerate(VIEWS):
            names.append((f" {name} ", "bar" if n == self.mode else "dim"))
        names.append(("  v: the next one", "dim"))
        head: list[Line] = [tuple(names)]
        if not self.count and not self.filter:
            return [*head, *self._nothing(columns_)]
        wanted = {
            c.id: max((width(self._cell(item, c.id)[0]) for item in self.items[:100]), default=0)
            for c in COLUMNS[self.view]
        }
        self.widths = columns.chosen(COLUMNS[self.view], wanted, columns_ - 2, wide=self.wide)
        chip = status.chip(self.filter, self.fault, (self.count, self.total), columns_)
        return [*head, *([columns.titles(self.widths)] if rows > 3 else []), *chip]

    def _nothing(self, columns_: int) -> list[Line]:
        if self.view == "ledger":
            how = "a acknowledges, n snoozes." if self.desk.write else "Start with --write to acknowledge and snooze."
            return status.sentence(f"Nothing was acknowledged, snoozed or applied. {how}", "dim", columns_)
        if self.view == "rules":
            return status.sentence("No rule has judged anything yet.", "dim", columns_)
        if self.desk.scene is not None and not self.desk.scene.delivered:
            return status.sentence("Nothing is advised, for nothing could be watched.", "warn", columns_)
        return status.sentence("Nothing is advised: nothing that fires has advice.", "ok", columns_)

    def row(self, at: int) -> Line:
        """One piece of advice, one entry, one rule."""
        return columns.row(self.widths, lambda column: self._cell(self.items[at], column))

    def bare(self, at: int) -> Line:
        """The same where there is no room."""
        item = self.items[at]
        first = ("mark", "where", "what") if isinstance(item, Act) else [c.id for c in COLUMNS[self.view][:3]]
        return ((" ".join(self._cell(item, column)[0] for column in first), ""),)

    def _cell(self, item: Act | Entry | RuleHealth, column: str) -> Cell:
        if isinstance(item, Act):
            return self._act_cell(item, column)
        return self._entry_cell(item, column) if isinstance(item, Entry) else _rule_cell(item, column)

    def _act_cell(self, act: Act, column: str) -> Cell:
        incident, words = act.incident, self.desk.words
        if column == "mark":
            return detail.glyph(incident)
        known = words.catalogue.mitigations.get(act.advice.id)
        texts = {
            "what": words.mitigation(act.advice.id),
            "for": words.condition(incident.condition),
            "where": detail.where(incident),
            "actor": act.advice.actor,
            "dpu": known.dpu.can if known else "",
            "risk": known.risk if known else "",
            "standing": self.desk.ledger.standing(incident, self.desk.now).state if column == "standing" else "",
        }
        return texts[column], "warn" if column == "risk" and texts["risk"] == "high" else ""

    def _entry_cell(self, entry: Entry, column: str) -> Cell:
        incident = self.desk.words.incident(entry.incident)
        about = (
            f"{self.desk.words.condition(incident.condition)} on {detail.where(incident)}"
            if incident
            else entry.incident
        )
        texts = {
            "time": units.clock(entry.time),
            "who": entry.who,
            "did": entry.did,
            "what": f"{about} {entry.note}".strip(),
            "until": units.clock(entry.until) if entry.until is not None else "",
        }
        return texts[column], ""

    def pane(self, columns_: int, rows: int) -> list[Line]:  # noqa: ARG002
        """The plan as a diff; the incident; the rule's state in words."""
        item = self.items[self.cursor] if self.cursor < len(self.items) else None
        scene = self.desk.scene
        if item is None or scene is None:
            return []
        if isinstance(item, Act):
            told = plan.lines(item.incident, item.advice, scene.topology, self.desk.words, write=self.desk.write)
            return wrapped(told, columns_)
        if isinstance(item, Entry):
            incident = self.selected
            return detail.full(incident, self.desk.words, self.desk.now, columns_) if incident else []
        return self._rule(item, columns_)

    def _rule(self, health: RuleHealth, columns_: int) -> list[Line]:
        glyph, role, words = STATES[health.state]
        condition = self.desk.words.condition(health.condition)
        out: list[Line] = [line(health.rule, "title"), line(f"{condition} ({health.condition})", "dim")]
        out.append(((f"{glyph} {words}", role),))
        told = f"judges {health.judged}, fires on {health.firing}, {health.suppressed} explained by something else"
        out += wrap(line(f"{told}, cannot tell of {health.unknown}"), columns_)
        if health.lacking:
            out += wrap(
                line("It can never fire here until somebody delivers: " + ", ".join(health.lacking), "warn"), columns_
            )
        return out

    # --- verbs

    def do_view(self, arg: int) -> None:
        """The next view."""
        self.mode = (self.mode + arg) % len(VIEWS)
        self.cursor = 0
        self.narrow("")


def _rule_cell(health: RuleHealth, column: str) -> Cell:
    glyph, role, _ = STATES[health.state]
    if column == "mark":
        return glyph, role
    if column == "lacking":
        return ", ".join(health.lacking), "dim"
    text = str(getattr(health, column))
    return ("·" if text == "0" else text), role if column == "state" else ""
