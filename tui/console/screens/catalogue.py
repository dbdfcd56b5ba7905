"""Catalogue, the fourth screen: a tree of entries, and an entry with its links."""

import json
import re
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

from skewscope.adapters.view.snapshot import RuleHealth
from skewscope.engine.advice.incident_words import format_location
from skewscope.engine.model.incident import Incident
from skewscope.kb.model import Condition
from skewscope.kb.search import search, search_index
from skewscope.tui.console.screen_layout import ScreenLayout, small_layout
from skewscope.tui.console.screens.base import ScreenModel
from skewscope.tui.console.state import ConsoleState, NavigationTarget
from skewscope.tui.render import detail, status, units
from skewscope.tui.render.filter_query import AllOf
from skewscope.tui.render.text import Line, Span, fit, line, wrap, wrap_lines

KINDS = ("conditions", "symptoms", "signals", "mitigations", "sources", "findings", "formats", "events")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*[A-Za-z0-9]")
MAX_BACK = 100
MAX_OCCURRENCES = 8
CONDITION_STATES = {
    "firing": ("✖", "crit", "firing"),
    "suppressed": ("!", "warn", "firing, explained by another incident"),
    "quiet": ("●", "ok", "judged, not firing"),
    "unknown": ("◐", "warn", "judged, not enough data yet"),
    "blind": ("·", "dim", "not judged: signals are missing"),
    "none": (" ", "dim", "no rule"),
}
"""States of a condition in this deployment: glyph, role, description."""
STATE_ORDER = ("firing", "suppressed", "quiet", "unknown", "blind")


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One row of the tree."""

    kind: str
    id: str
    """'' for a branch."""
    text: str
    depth: int
    branch: str = ""
    """The key by which a branch folds."""


@dataclass(frozen=True, slots=True)
class EntryLink:
    """The entry that a link leads to, and the line that holds the link."""

    kind: str
    id: str
    row: int


class CatalogueModel(ScreenModel):
    """The tree on the left, an entry on the right."""

    name = "catalogue"
    number = 4
    pane_title: ClassVar[str] = "entry"
    filter_example: ClassVar[str] = "any words; misspellings are tolerated"

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(state)
        self.open_branches: set[str] = {"conditions"}
        self.tree_rows: list[TreeRow] = []
        self.back_stack: list[tuple[str, str]] = []
        self.pinned_entry: tuple[str, str] = ("", "")
        """An entry on the right other than the one under the cursor."""
        self.columns = 80
        self.link_index = -1
        """Index of the selected link; -1 while keys move in the tree."""
        self.links: list[EntryLink] = []
        self._state_cache: tuple[int, dict[str, tuple[str, RuleHealth]]] = (-1, {})
        self._search_cache: tuple[str, list[TreeRow]] = ("", [])
        self._front_cache: tuple[int, list[Line]] = (-1, [])

    # --- the tree

    def collect_rows(self) -> None:
        """Collect the open branches, or the results of a search."""
        self.tree_rows = self._search_rows() if self.filter else list(self._build_tree())
        self.count = len(self.tree_rows)
        self.total = sum(len(getattr(self.state.names.catalogue, kind)) for kind in KINDS)

    def _build_tree(self) -> Sequence[TreeRow]:
        known = self.state.names.catalogue
        out: list[TreeRow] = []
        for kind in KINDS:
            found = getattr(known, kind)
            out.append(TreeRow(kind, "", f"{kind} ({len(found)})", 0, kind))
            if kind not in self.open_branches:
                continue
            if kind == "conditions":
                out += self._condition_rows()
            else:
                out += [TreeRow(kind, id_, getattr(one, "name", "") or one.title, 1) for id_, one in found.items()]
        return out

    def _condition_rows(self) -> Sequence[TreeRow]:
        known = self.state.names.catalogue.conditions
        out: list[TreeRow] = []
        for group in dict.fromkeys(sorted((c.group for c in known.values()), key=_group_order)):
            inside = [c for c in known.values() if c.group == group]
            branch = f"group {group}"
            out.append(TreeRow("conditions", "", f"{group} ({len(inside)})", 1, branch))
            if f"-{branch}" not in self.open_branches:
                out += [TreeRow("conditions", c.id, c.name, 2) for c in sorted(inside, key=lambda c: c.name)]
        return out

    def _search_rows(self) -> list[TreeRow]:
        """Returns search results, best first."""
        if self._search_cache[0] != self.filter:
            hits = search(self.state.names.catalogue, self.filter)
            self._search_cache = self.filter, [TreeRow(_plural(h.kind), h.id, h.name, 0) for h in hits]
        return self._search_cache[1]

    def build_index(self) -> None:
        """Build the search index before the first search, which would be slow otherwise."""
        search_index(self.state.names.catalogue)

    def set_filter(self, text: str) -> None:
        """Search: the catalogue ranks entries instead of filtering them."""
        self.filter, self.query = text.strip(), AllOf()
        self.cursor, self.link_index, self.pinned_entry, self.back_stack = 0, -1, ("", ""), []
        self.renew()

    def identity(self, at: int) -> Hashable:
        """Returns the entry or branch of a row."""
        return (
            (self.tree_rows[at].kind, self.tree_rows[at].id or self.tree_rows[at].branch)
            if at < len(self.tree_rows)
            else None
        )

    def header(self, columns: int, rows: int) -> list[Line]:  # noqa: ARG002
        """Returns the search in force."""
        self.columns = columns
        return status.filter_lines(self.filter, "" if self.count else "no results", (self.count, self.total), columns)

    def row(self, at: int) -> Line:
        """Returns a branch, or an entry with its state in this deployment."""
        leaf = self.tree_rows[at]
        indent = "  " * leaf.depth
        if not leaf.id:
            closed = (
                leaf.branch not in self.open_branches if leaf.depth == 0 else f"-{leaf.branch}" in self.open_branches
            )
            return ((f" {indent}{'+' if closed else '−'} {leaf.text}", "title"),)
        mark: Span = (" ", "")
        if leaf.kind == "conditions":
            glyph, role, _ = CONDITION_STATES[self.condition_state(leaf.id)[0]]
            mark = (glyph, role)
        elif leaf.kind == "signals" and self.state.snapshot:
            mark = ("●", "ok") if leaf.id in self.state.snapshot.delivered_signals else ("·", "dim")
        kind = f"  {leaf.kind[:-1]}" if self.filter else ""
        return fit(((f" {indent}", ""), mark, (f" {leaf.text}", ""), (kind, "dim")), self.columns)

    def condition_state(self, condition: str) -> tuple[str, RuleHealth | None]:
        """Returns a condition's state here and the rule that gives it; rules that fire come first."""
        if self._state_cache[0] != self.state.version:
            found: dict[str, tuple[str, RuleHealth]] = {}
            for health in self.state.snapshot.rules if self.state.snapshot else ():
                if not health.judged and health.state == "quiet":
                    continue  # there is no entity that this rule could judge
                before = found.get(health.condition)
                if before is None or STATE_ORDER.index(health.state) < STATE_ORDER.index(before[0]):
                    found[health.condition] = health.state, health
            self._state_cache = self.state.version, found
        return self._state_cache[1].get(condition, ("none", None))

    # --- the entry

    @property
    def current_entry(self) -> tuple[str, str]:
        """Kind and id of the entry on the right."""
        if self.pinned_entry[1]:
            return self.pinned_entry
        leaf = self.tree_rows[self.cursor] if self.cursor < len(self.tree_rows) else None
        return (leaf.kind, leaf.id) if leaf else ("", "")

    def layout(self, columns: int, lines: int) -> ScreenLayout:
        """Returns a layout side by side from 80 columns on."""
        if tight := small_layout(columns, lines):
            return tight
        return ScreenLayout("full", side_by_side=True, list_size=max(min(columns * 38 // 100, 52), 30))

    def pane(self, columns: int, rows: int) -> list[Line]:  # noqa: ARG002
        """Returns the entry with its links marked."""
        kind, id_ = self.current_entry
        found = getattr(self.state.names.catalogue, kind, {}).get(id_) if kind else None
        if found is None:
            self.links = []
            return self._overview_lines(columns)
        from skewscope.tui.render import catalogue  # noqa: PLC0415 - what it needs takes a moment
        from skewscope.tui.render.actions import outcome_sentence  # noqa: PLC0415

        lines = [*catalogue.entry_lines(found, self.state.names)]
        if kind == "conditions":
            lines = [*lines[:2], *self._deployment_lines(id_), *lines[2:]]
        elif kind == "symptoms":
            lines = [*lines[:2], *self._occurrence_lines(id_), *lines[2:]]
        elif kind == "mitigations" and self.state.action_feed is not None:
            lines = [*lines[:2], line(outcome_sentence(self.state.actions.outcomes.get(id_)), "info"), *lines[2:]]
        shown = wrap_lines(lines, columns)
        if isinstance(found, Condition):
            shown += [(), *self._neighbourhood(found, columns)]
        return self._mark_links(shown, id_)

    def _neighbourhood(self, entry: Condition, columns: int) -> list[Line]:
        """Returns the causes and effects of a condition as a drawing; what fires here has a sign."""
        from skewscope.tui.render.entry_summary import neighbourhood_lines  # noqa: PLC0415

        snapshot = self.state.snapshot
        firing = {one.condition for one in snapshot.incidents if one.state == "firing"} if snapshot else ()
        return neighbourhood_lines(entry, self.state.names, columns, firing)

    def _overview_lines(self, columns: int) -> list[Line]:
        """Returns the legend and the number of conditions in each state."""
        known = self.state.names.catalogue
        counts = dict.fromkeys(CONDITION_STATES, 0)
        for id_ in known.conditions:
            counts[self.condition_state(id_)[0]] += 1
        out = [line(f"Catalogue {known.version}", "title"), (), line("Conditions in this deployment", "label")]
        for state, (glyph, role, label) in CONDITION_STATES.items():
            out.append((("  ", ""), (glyph, role), (f"  {counts[state]:3} {label}", "")))
        return [*(row for each in out for row in wrap(each, columns, 4)), (), *self._front_lines(columns)]

    def _front_lines(self, columns: int) -> list[Line]:
        """Returns which conditions there are, what they cost, and what a DPU sees and can do."""
        from skewscope.kb.rank import rank_conditions  # noqa: PLC0415
        from skewscope.tui.render.catalogue_front import rank_lines  # noqa: PLC0415

        known = self.state.names.catalogue
        if self._front_cache[0] != columns:
            self._front_cache = columns, rank_lines(rank_conditions(known), known, columns)
        return self._front_cache[1]

    def _deployment_lines(self, condition: str) -> list[Line]:
        """Returns a condition's state in this deployment and its incidents."""
        glyph, role, label = CONDITION_STATES[self.condition_state(condition)[0]]
        out: list[Line] = [((glyph, role), (f" {label}", role))]
        for health in self.state.snapshot.rules if self.state.snapshot else ():
            if health.condition == condition:
                lacks = f"; missing {', '.join(health.missing_signals)}" if health.missing_signals else ""
                out.append(line(f"  {health.rule}: {health.state}, judged {health.judged}{lacks}", "dim"))
        return [(), *out, *self._occurrence_lines(condition)]

    def _occurrence_lines(self, condition: str) -> list[Line]:
        """Returns the incidents of a condition or symptom, nothing without incidents."""
        here = self.occurrences(condition)
        out: list[Line] = []
        if here:
            out.append(line(f"Occurrences here: {len(here)} (o shows them)", "label"))
        for incident in here[:MAX_OCCURRENCES]:
            since = f"{units.format_time(incident.began)}, {incident.state}, {detail.format_confidence(incident)} sure"
            out.append((("  ", ""), detail.severity_glyph(incident), (f" {format_location(incident)}  {since}", "")))
        return out

    def occurrences(self, condition: str) -> list[Incident]:
        """Returns the incidents of a condition or symptom in the current snapshot."""
        snapshot = self.state.snapshot
        return [i for i in snapshot.incidents if i.condition == condition] if snapshot else []

    def _mark_links(self, lines: Sequence[Line], own: str) -> list[Line]:
        """Mark the ids of catalogue entries as links and highlight the selected one."""
        known = self.state.names.catalogue
        self.links = []
        seen: set[str] = {own}
        out: list[Line] = []
        for row, spans in enumerate(lines):
            made: list[Span] = []
            for text, role in spans:
                at = 0
                for found in _ID.finditer(text):
                    kind = next((k for k in KINDS if found[0] in getattr(known, k)), "")
                    if not kind or found[0] == own:
                        continue
                    if found[0] not in seen:
                        seen.add(found[0])
                        self.links.append(EntryLink(kind, found[0], row))
                    chosen = (
                        self.link_index >= 0
                        and self.link_index < len(self.links)
                        and self.links[self.link_index].id == found[0]
                    )
                    made += [(text[at : found.start()], role), (found[0], "bar" if chosen else "link")]
                    at = found.end()
                made.append((text[at:], role))
            out.append(tuple(span for span in made if span[0]))
        return out

    # --- commands

    def move_link(self, by: int) -> int | None:
        """Move to another link; returns the line to scroll to, None while keys move in the tree."""
        if self.link_index < 0 or not self.links:
            return None
        self.link_index = min(max(self.link_index + by, 0), len(self.links) - 1)
        return max(self.links[self.link_index].row - 3, 0)

    def do_open(self, _arg: int) -> None:
        """Fold a branch, select the first link of an entry, or follow the selected link."""
        leaf = self.tree_rows[self.cursor] if self.cursor < len(self.tree_rows) else None
        if self.link_index >= 0 and self.link_index < len(self.links):
            self.follow_link(self.links[self.link_index])
        elif leaf is not None and not leaf.id and not self.pinned_entry[1]:
            self._toggle_branch(leaf)
        elif self.links:
            self.link_index = 0

    def do_fold(self, _arg: int) -> None:
        """Fold the branch under the cursor."""
        leaf = self.tree_rows[self.cursor] if self.cursor < len(self.tree_rows) else None
        if leaf is not None and not leaf.id:
            self._toggle_branch(leaf)

    def _toggle_branch(self, leaf: TreeRow) -> None:
        self.open_branches ^= {leaf.branch if leaf.depth == 0 else f"-{leaf.branch}"}
        self.renew()

    def follow_link(self, link: EntryLink) -> None:
        """Show the entry that a link leads to; `back` returns."""
        self.back_stack = [*self.back_stack[-MAX_BACK:], self.current_entry]
        self.pinned_entry, self.link_index = (link.kind, link.id), 0

    def show_entry(self, id_: str) -> None:
        """Show an entry and move the cursor to it."""
        known = self.state.names.catalogue
        kind = next((k for k in KINDS if id_ in getattr(known, k)), "")
        if not kind:
            self.state.show_message(f"The catalogue has no entry {id_!r}.", True)
            return
        self.filter, self.pinned_entry, self.link_index, self.back_stack = "", ("", ""), -1, []
        group = known.conditions[id_].group if kind == "conditions" else ""
        self.open_branches = (self.open_branches | {kind}) - {f"-group {group}"}
        self.collect_rows()
        self.cursor, self.cursor_moved = max(self.find((kind, id_)), 0), True

    def do_back(self, arg: int) -> None:
        """Return from a followed link, then to the tree, then end the search."""
        if self.back_stack:
            self.pinned_entry = self.back_stack.pop()
            self.link_index = 0
            leaf = self.tree_rows[self.cursor] if self.cursor < len(self.tree_rows) else None
            if leaf and self.pinned_entry == (leaf.kind, leaf.id):
                self.pinned_entry = ("", "")
        elif self.link_index >= 0:
            self.link_index = -1
        elif self.filter:
            self.set_filter("")
        else:
            super().do_back(arg)

    def do_occurrences(self, _arg: int) -> None:
        """Show the incidents of the entry on the first screen."""
        kind, id_ = self.current_entry
        if kind in ("conditions", "symptoms") and self.occurrences(id_):
            self.state.navigate(NavigationTarget(1, f"condition={id_}"))
        elif kind == "signals":
            self.state.navigate(NavigationTarget(3, f"signal={id_}"))
        else:
            self.state.show_message("It does not occur in the current data.", True)

    def as_json(self) -> str:
        """Returns the entry as JSON."""
        kind, id_ = self.current_entry
        found = getattr(self.state.names.catalogue, kind, {}).get(id_) if kind else None
        return json.dumps(asdict(found), ensure_ascii=False, default=str) if found else ""


def _group_order(group: str) -> tuple[int, str]:
    order = ("north-south", "pcie", "east-west")
    return (order.index(group) if group in order else len(order), group)


def _plural(kind: str) -> str:
    return kind if kind in KINDS else f"{kind}s"
