"""Actions, the fifth screen: what a controller changes, advice with plans, the operator log, the state of the rules."""

import json
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from skewscope.adapters.view.snapshot import RuleHealth
from skewscope.engine.actions.action import APPROVED, PROPOSED, UNDOING, Action, action_to_json
from skewscope.engine.actions.by_hand import awaits_person
from skewscope.engine.advice.incident_words import format_location
from skewscope.engine.model.incident import Advice, Incident
from skewscope.tui.console.operator_log import OperatorLogEntry
from skewscope.tui.console.screen_layout import ScreenLayout
from skewscope.tui.console.screens.base import ScreenModel
from skewscope.tui.console.screens.catalogue import CONDITION_STATES, STATE_ORDER
from skewscope.tui.console.state import ConsoleState
from skewscope.tui.render import actions, columns, detail, incident_layout, mitigation_plan, status, units
from skewscope.tui.render.columns import Cell, TableColumn
from skewscope.tui.render.filter_query import FilterTable
from skewscope.tui.render.incident_table import rank_incidents
from skewscope.tui.render.text import Line, Span, fit, line, width, wrap, wrap_lines

CHANGES = "changes"
VIEWS = ("advice", "log", "rules")
COLUMNS: dict[str, tuple[TableColumn, ...]] = {
    CHANGES: (
        TableColumn("mark", "", 1, 1, 0),
        TableColumn("state", "state", 10, 10, 0),
        TableColumn("what", "change", 20, 48, 0, shrinkable=True),
        TableColumn("for", "for", 16, 48, 2, shrinkable=True),
        TableColumn("where", "where", 8, 24, 3),
        TableColumn("sure", "sure", 4, 5, 5, align_right=True),
        TableColumn("result", "result", 11, 16, 1),
        TableColumn("age", "age", 6, 9, 4, align_right=True),
    ),
    "advice": (
        TableColumn("mark", "", 1, 1, 0),
        TableColumn("what", "do", 24, 48, 0, shrinkable=True),
        TableColumn("for", "for", 20, 48, 1, shrinkable=True),
        TableColumn("where", "where", 8, 24, 2),
        TableColumn("actor", "actor", 6, 10, 4),
        TableColumn("dpu", "by DPU", 6, 6, 5),
        TableColumn("risk", "risk", 6, 6, 3),
        TableColumn("standing", "triage", 8, 14, 6),
    ),
    "log": (
        TableColumn("time", "when", 8, 8, 0),
        TableColumn("who", "who", 8, 16, 1),
        TableColumn("did", "did", 10, 18, 0),
        TableColumn("what", "what", 20, 60, 0, shrinkable=True),
        TableColumn("until", "until", 8, 8, 2),
    ),
    "rules": (
        TableColumn("mark", "", 1, 1, 0),
        TableColumn("rule", "rule", 24, 52, 0, shrinkable=True),
        TableColumn("state", "state", 10, 10, 1),
        TableColumn("judged", "judged", 6, 6, 3, align_right=True),
        TableColumn("firing", "firing", 6, 6, 2, align_right=True),
        TableColumn("suppressed", "explained", 9, 9, 5, align_right=True),
        TableColumn("unknown", "unknown", 7, 7, 4, align_right=True),
        TableColumn("lacking", "missing signals", 16, 80, 6, shrinkable=True),
    ),
}


@dataclass(frozen=True, slots=True)
class AdviceRow:
    """One advised mitigation of one incident."""

    incident: Incident
    advice: Advice


Row = Action | AdviceRow | OperatorLogEntry | RuleHealth


class ActionsModel(ScreenModel):
    """Views: the changes of a controller where there is one, advice, operator log, rules."""

    name = "actions"
    number = 5
    pane_title: ClassVar[str] = "plan"
    filter_example: ClassVar[str] = "words  state:blind  actor:router  risk:low  !text"

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(state)
        self.view_index = 0
        self.all_items: list[Row] = []
        self.items: list[Row] = []

    @property
    def views(self) -> tuple[str, ...]:
        """The views of this console."""
        return VIEWS if self.state.action_feed is None else (CHANGES, *VIEWS)

    @property
    def view(self) -> str:
        """The current view: changes, advice, log or rules."""
        return self.views[self.view_index]

    @property
    def selected_item(self) -> Row | None:
        """What the row under the cursor stands for."""
        return self.items[self.cursor] if self.cursor < len(self.items) else None

    @property
    def selected_action(self) -> Action | None:
        """The action of the row under the cursor."""
        return item if isinstance(item := self.selected_item, Action) else None

    @property
    def selected_incident(self) -> Incident | None:
        """The incident of the row under the cursor."""
        item = self.selected_item
        if isinstance(item, AdviceRow):
            return item.incident
        if isinstance(item, Action):
            return self.state.names.find_incident(item.reason.incident)
        return self.state.names.find_incident(item.incident) if isinstance(item, OperatorLogEntry) else None

    @property
    def subject(self) -> str:
        """The mitigation of an advice row, else the condition of the row."""
        item = self.selected_item
        if isinstance(item, AdviceRow):
            return item.advice.id
        if isinstance(item, Action):
            return item.reason.mitigation
        if isinstance(item, RuleHealth):
            return item.condition
        return self.selected_incident.condition if self.selected_incident else ""

    def collect_rows(self) -> None:
        """Collect the rows of the current view."""
        snapshot = self.state.snapshot
        if snapshot is None:
            return
        if self.view == CHANGES:
            self.all_items = [one for one in actions.rank_actions(self.state.actions.actions) if self._in_scope(one)]
        elif self.view == "advice":
            firing = [row.incident for row in rank_incidents(self.state.incidents()) if row.incident.state == "firing"]
            self.all_items = [AdviceRow(incident, advice) for incident in firing for advice in incident.mitigations]
        elif self.view == "log":
            self.all_items = list(reversed(self.state.operator_log.entries))
        else:
            health = sorted(snapshot.rules, key=lambda h: (STATE_ORDER.index(h.state), not h.judged, h.rule))
            self.all_items = list(health)
        self.items = [self.all_items[n] for n in self.filtered_rows()]
        self.count = len(self.items)

    def _in_scope(self, action: Action) -> bool:
        """Returns whether an action changes something within the scope of the screens."""
        scope = self.state.scope
        return not scope.name or bool(scope.nodes & frozenset(action.scope.nodes))

    def identity(self, at: int) -> Hashable:
        """Returns the key of a row."""
        item = self.items[at] if at < len(self.items) else None
        if isinstance(item, Action):
            return item.id
        if isinstance(item, AdviceRow):
            return item.incident.id, item.advice.id
        return item.rule if isinstance(item, RuleHealth) else item

    def filter_table(self) -> FilterTable:
        """Returns the filter fields of the current view."""

        def texts(column: str) -> list[str]:
            return [self._cell(item, column)[0] for item in self.all_items]

        ids = [column.id for column in COLUMNS[self.view] if column.id != "mark"]
        hay = [" ".join(self._cell(item, name)[0] for name in ids).lower() for item in self.all_items]
        text_fields = {
            name: (lambda name=name: texts(name)) for name in ids if name not in ("judged", "firing", "unknown")
        }
        number_fields = {
            name: (lambda name=name: np.array([getattr(i, name) for i in self.all_items], float))
            for name in ("judged", "firing", "unknown")
            if self.view == "rules"
        }
        return FilterTable(hay, text_fields, number_fields)

    def layout(self, columns_: int, lines: int) -> ScreenLayout:
        """Returns how the screen is divided; the line of the mode has room above the rows."""
        whole = super().layout(columns_, lines)
        if self.view != CHANGES or not whole.list_size or whole.side_by_side:
            return whole
        return replace(whole, list_size=min(max(self.count + 3, 4), (lines - 4) * 2 // 5))

    def header(self, columns_: int, rows: int) -> list[Line]:
        """Returns the names of the views and the column titles."""
        names: list[Span] = [(" ", "")]
        for n, name in enumerate(self.views):
            names.append((f" {name} ", "bar" if n == self.view_index else "dim"))
        names.append(("  v: next view", "dim"))
        head: list[Line] = [fit(tuple(names), columns_), *self._mode_lines(columns_)]
        if not self.count and not self.filter:
            return [*head, *self._empty_lines(columns_)]
        wanted = {
            c.id: max((width(self._cell(item, c.id)[0]) for item in self.items[:100]), default=0)
            for c in COLUMNS[self.view]
        }
        self.widths = columns.fit_columns(COLUMNS[self.view], wanted, columns_ - 2, wide=self.wide)
        chip = status.filter_lines(self.filter, self.filter_error, (self.count, self.total), columns_)
        return [*head, *([columns.title_line(self.widths)] if rows > 3 else []), *chip]

    def _mode_lines(self, columns_: int) -> list[Line]:
        """Returns what the controller may do, how much it proposes and changes, and whether it answers."""
        latest = self.state.actions
        if self.view != CHANGES or not (latest.mode or latest.trouble):
            return []
        proposals = sum(one.state == PROPOSED for one in latest.actions)
        in_place = sum(one.is_in_place for one in latest.actions)
        told: list[Span] = [(f" mode {latest.mode or 'unknown'}", "title"), (f" · {proposals} proposed", "")]
        told.append((f" · {in_place} in place", ""))
        if latest.freeze:
            told.append((f" · {latest.freeze}", "warn"))
        if not latest.is_leader:
            told.append((" · another controller leads: ask that one", "warn"))
        if latest.trouble:
            told.append((f" · no new answer: {latest.trouble}", "warn"))
        return [fit(tuple(told), columns_)]

    def _empty_lines(self, columns_: int) -> list[Line]:
        if self.view == CHANGES:
            waits = "" if self.state.actions.mode else "No answer of the controller about its actions yet."
            observes = "This controller observes: it proposes nothing. docs/acting.md says how it comes to propose."
            none = "Nothing was proposed yet: no sure diagnosis for which a target can do something."
            return status.sentence_lines(
                waits or (observes if self.state.actions.mode == "observe" else none), "dim", columns_
            )
        if self.view == "log":
            how = "a acknowledges, n snoozes." if self.state.write else "Start with --write to acknowledge and snooze."
            return status.sentence_lines(f"The operator log is empty. {how}", "dim", columns_)
        if self.view == "rules":
            return status.sentence_lines("No rule has judged an entity yet.", "dim", columns_)
        if self.state.snapshot is not None and not self.state.snapshot.delivered_signals:
            return status.sentence_lines("No advice: no telemetry received.", "warn", columns_)
        return status.sentence_lines("No advice: no firing incident has a mitigation.", "ok", columns_)

    def row(self, at: int) -> Line:
        """Returns a row as a line."""
        return columns.row_line(self.widths, lambda column: self._cell(self.items[at], column))

    def compact_row(self, at: int) -> Line:
        """Returns a row as one text, for narrow screens."""
        item = self.items[at]
        first = (
            ("mark", "where", "what")
            if isinstance(item, AdviceRow | Action)
            else [c.id for c in COLUMNS[self.view][:3]]
        )
        return ((" ".join(self._cell(item, column)[0] for column in first), ""),)

    def _cell(self, item: Row, column: str) -> Cell:
        if isinstance(item, Action):
            return self._change_cell(item, column)
        if isinstance(item, AdviceRow):
            return self._advice_cell(item, column)
        return self._log_cell(item, column) if isinstance(item, OperatorLogEntry) else _rule_cell(item, column)

    def _change_cell(self, action: Action, column: str) -> Cell:
        if column == "mark":
            return actions.state_glyph(action)
        texts = {
            "state": action.state,
            "what": action.title,
            "for": self.state.names.condition_name(action.reason.condition),
            "where": action.reason.name,
            "sure": f"{100 * action.reason.confidence:.0f} %",
            "result": actions.format_outcome(action),
            "age": units.format_short_duration(max(self.state.now - action.created, 0.0)),
        }
        return texts[column], actions.state_glyph(action)[1] if column == "state" else ""

    def _advice_cell(self, act: AdviceRow, column: str) -> Cell:
        incident, names = act.incident, self.state.names
        if column == "mark":
            return detail.severity_glyph(incident)
        known = names.catalogue.mitigations.get(act.advice.id)
        texts = {
            "what": names.mitigation_name(act.advice.id),
            "for": names.condition_name(incident.condition),
            "where": format_location(incident),
            "actor": act.advice.actor,
            "dpu": known.dpu.can if known else "",
            "risk": known.risk if known else "",
            "standing": self.state.operator_log.triage_state(incident, self.state.now).state
            if column == "standing"
            else "",
        }
        return texts[column], "warn" if column == "risk" and texts["risk"] == "high" else ""

    def _log_cell(self, entry: OperatorLogEntry, column: str) -> Cell:
        incident = self.state.names.find_incident(entry.incident)
        about = self.state.names.incident_title(incident) if incident else entry.incident
        texts = {
            "time": units.format_time(entry.time),
            "who": entry.who,
            "did": entry.did,
            "what": f"{about} {entry.note}".strip(),
            "until": units.format_time(entry.until) if entry.until is not None else "",
        }
        return texts[column], ""

    def pane(self, columns_: int, rows: int) -> list[Line]:  # noqa: ARG002
        """Returns an action in full, the plan of an advice row, the incident of a log row, or the state of a rule."""
        item = self.selected_item
        snapshot = self.state.snapshot
        if item is None or snapshot is None:
            return []
        if isinstance(item, Action):
            incident, hint = self.selected_incident, describe_keys(item, write=self.state.write)
            return actions.action_lines(item, self.state.names, incident, columns_, hint=hint)
        if isinstance(item, AdviceRow):
            plan = mitigation_plan.plan_lines(item.incident, item.advice, snapshot.topology, self.state.names)
            return wrap_lines(plan, columns_)
        if isinstance(item, OperatorLogEntry):
            incident = self.selected_incident
            return incident_layout.full_lines(incident, self.state.names, self.state.now, columns_) if incident else []
        return self._rule_lines(item, columns_)

    def _rule_lines(self, health: RuleHealth, columns_: int) -> list[Line]:
        glyph, role, names = CONDITION_STATES[health.state]
        condition = self.state.names.condition_name(health.condition)
        out: list[Line] = [line(health.rule, "title"), line(f"{condition} ({health.condition})", "dim")]
        out.append(((f"{glyph} {names}", role),))
        counts = f"judged {health.judged}, firing {health.firing}, explained by another incident {health.suppressed}"
        out += wrap(line(f"{counts}, unknown {health.unknown}"), columns_)
        if health.missing_signals:
            out += wrap(
                line("It cannot fire without these signals: " + ", ".join(health.missing_signals), "warn"),
                columns_,
            )
        return out

    def as_json(self) -> str:
        """Returns the action under the cursor as JSON."""
        found = self.selected_action
        return json.dumps(action_to_json(found), ensure_ascii=False) if found else ""

    # --- commands

    def do_view(self, arg: int) -> None:
        """Show the next view."""
        self.view_index = (self.view_index + arg) % len(self.views)
        self.cursor = 0
        self.set_filter("")


def describe_keys(action: Action, *, write: bool) -> str:
    """Returns which keys apply to an action in its state."""
    if not (action.state in (PROPOSED, APPROVED) or (action.is_in_place and action.reversible)):
        return ""
    if not write:
        return "read-only; start with --write and a token to decide"
    if awaits_person(action):
        return "run what it says; then x says so" + ("" if action.state == UNDOING else ", u takes it back")
    decides = {PROPOSED: "x approves it, d refuses it", APPROVED: "d refuses it"}
    return decides.get(action.state, "" if action.state == UNDOING else "u has it taken back")


def _rule_cell(health: RuleHealth, column: str) -> Cell:
    glyph, role, _ = CONDITION_STATES[health.state]
    if column == "mark":
        return glyph, role
    if column == "lacking":
        return ", ".join(health.missing_signals), "dim"
    text = str(getattr(health, column))
    return ("·" if text == "0" else text), role if column == "state" else ""
