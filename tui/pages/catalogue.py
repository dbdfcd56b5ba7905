"""Catalogue: everything that is known, as a tree and an entry whose links can be followed, and what of it is here."""

import json
import re
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

from skewscope.adapters.scene import RuleHealth
from skewscope.engine.incident import Incident
from skewscope.kb.search import index, search
from skewscope.tui import detail, status, units
from skewscope.tui.desk import Desk, Jump
from skewscope.tui.pages.base import Page
from skewscope.tui.query import Every
from skewscope.tui.status import Frame, small
from skewscope.tui.text import Line, Span, fit, line, wrap, wrapped

KINDS = ("conditions", "signals", "mitigations", "sources", "findings")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*[A-Za-z0-9]")
MOST_BACK = 100
MOST_OCCURRENCES = 8
STATES = {
    "firing": ("✖", "crit", "fires now"),
    "suppressed": ("!", "warn", "fires, explained by something else"),
    "quiet": ("●", "ok", "judged here, quiet"),
    "unknown": ("◐", "warn", "judged here, not enough is known yet"),
    "blind": ("·", "dim", "blind here: signals are missing"),
    "none": (" ", "dim", "no rule judges it"),
}
"""What can be said of a condition in this very deployment: glyph, role, words."""
ORDER = ("firing", "suppressed", "quiet", "unknown", "blind")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One row of the tree."""

    kind: str
    id: str
    """'' for a branch."""
    text: str
    depth: int
    branch: str = ""
    """Its own name for a branch, which folds by it."""


@dataclass(frozen=True, slots=True)
class Link:
    """Where a link of an entry leads, and the line it stands on."""

    kind: str
    id: str
    row: int


class CataloguePage(Page):
    """The tree on the left, the entry on the right."""

    name = "catalogue"
    number = 4
    fields: ClassVar[str] = "any words; a misspelling is forgiven"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.open: set[str] = {"conditions"}
        self.leaves: list[Leaf] = []
        self.back: list[tuple[str, str]] = []
        self.entry: tuple[str, str] = ("", "")
        """What is shown on the right when it is not what the cursor is on."""
        self.columns = 80
        self.link = -1
        """The link that `open` follows; -1: the tree has the keys."""
        self.links: list[Link] = []
        self._states: tuple[int, dict[str, tuple[str, RuleHealth]]] = (-1, {})
        self._searched: tuple[str, list[Leaf]] = ("", [])

    # --- the tree

    def collect(self) -> None:
        """The branches that are open, or what a search found."""
        self.leaves = self._found() if self.filter else list(self._tree())
        self.count = len(self.leaves)
        self.total = sum(len(getattr(self.desk.words.catalogue, kind)) for kind in KINDS)

    def _tree(self) -> Sequence[Leaf]:
        known = self.desk.words.catalogue
        out: list[Leaf] = []
        for kind in KINDS:
            found = getattr(known, kind)
            out.append(Leaf(kind, "", f"{kind} ({len(found)})", 0, kind))
            if kind not in self.open:
                continue
            if kind == "conditions":
                out += self._grouped()
            else:
                out += [Leaf(kind, id_, getattr(one, "name", "") or one.title, 1) for id_, one in found.items()]
        return out

    def _grouped(self) -> Sequence[Leaf]:
        known = self.desk.words.catalogue.conditions
        out: list[Leaf] = []
        for group in dict.fromkeys(sorted((c.group for c in known.values()), key=_first)):
            inside = [c for c in known.values() if c.group == group]
            branch = f"group {group}"
            out.append(Leaf("conditions", "", f"{group} ({len(inside)})", 1, branch))
            if f"-{branch}" not in self.open:
                out += [Leaf("conditions", c.id, c.name, 2) for c in sorted(inside, key=lambda c: c.name)]
        return out

    def _found(self) -> list[Leaf]:
        """What a search finds, best first."""
        if self._searched[0] != self.filter:
            hits = search(self.desk.words.catalogue, self.filter)
            self._searched = self.filter, [Leaf(_plural(h.kind), h.id, h.name, 0) for h in hits]
        return self._searched[1]

    def warm(self) -> None:
        """Make the index before somebody searches: done while the first letter is typed, it would be felt."""
        index(self.desk.words.catalogue)

    def narrow(self, text: str) -> None:
        """Search; every entry holds words, so this is no filter but a ranking."""
        self.filter, self.query = text.strip(), Every()
        self.cursor, self.link, self.entry, self.back = 0, -1, ("", ""), []
        self.renew()

    def identity(self, at: int) -> Hashable:
        """The entry or branch."""
        return (self.leaves[at].kind, self.leaves[at].id or self.leaves[at].branch) if at < len(self.leaves) else None

    def header(self, columns: int, rows: int) -> list[Line]:  # noqa: ARG002
        """The search in force."""
        self.columns = columns
        return status.chip(self.filter, "" if self.count else "nothing found", (self.count, self.total), columns)

    def row(self, at: int) -> Line:
        """A branch or an entry, with what can be said of it here."""
        leaf = self.leaves[at]
        indent = "  " * leaf.depth
        if not leaf.id:
            closed = leaf.branch not in self.open if leaf.depth == 0 else f"-{leaf.branch}" in self.open
            return ((f" {indent}{'+' if closed else '−'} {leaf.text}", "title"),)
        mark: Span = (" ", "")
        if leaf.kind == "conditions":
            glyph, role, _ = STATES[self.state(leaf.id)[0]]
            mark = (glyph, role)
        elif leaf.kind == "signals" and self.desk.scene:
            mark = ("●", "ok") if leaf.id in self.desk.scene.delivered else ("·", "dim")
        kind = f"  {leaf.kind[:-1]}" if self.filter else ""
        return fit(((f" {indent}", ""), mark, (f" {leaf.text}", ""), (kind, "dim")), self.columns)

    def state(self, condition: str) -> tuple[str, RuleHealth | None]:
        """How a condition is judged here, by the rule that judges it best."""
        if self._states[0] != self.desk.version:
            found: dict[str, tuple[str, RuleHealth]] = {}
            for health in self.desk.scene.rules if self.desk.scene else ():
                if not health.judged and health.state == "quiet":
                    continue  # nobody here whom it could be about
                before = found.get(health.condition)
                if before is None or ORDER.index(health.state) < ORDER.index(before[0]):
                    found[health.condition] = health.state, health
            self._states = self.desk.version, found
        return self._states[1].get(condition, ("none", None))

    # --- the entry

    @property
    def shown(self) -> tuple[str, str]:
        """Kind and id of the entry on the right."""
        if self.entry[1]:
            return self.entry
        leaf = self.leaves[self.cursor] if self.cursor < len(self.leaves) else None
        return (leaf.kind, leaf.id) if leaf else ("", "")

    def frame(self, columns: int, lines: int) -> Frame:
        """Side by side from 80 columns on."""
        if tight := small(columns, lines):
            return tight
        return Frame("full", side=True, size=max(min(columns * 38 // 100, 52), 30))

    def pane(self, columns: int, rows: int) -> list[Line]:  # noqa: ARG002
        """The entry; its links can be followed."""
        kind, id_ = self.shown
        found = getattr(self.desk.words.catalogue, kind, {}).get(id_) if kind else None
        if found is None:
            self.links = []
            return self._overview(columns)
        from skewscope.tui import entries  # noqa: PLC0415 - what it needs takes a moment

        told = [*entries.entry_lines(found, self.desk.words)]
        if kind == "conditions":
            told = [*told[:2], *self._here(id_), *told[2:]]
        lines = wrapped(told, columns)
        return self._linked(lines, id_)

    def _overview(self, columns: int) -> list[Line]:
        """What the signs mean, and how much of the catalogue can be judged here."""
        known = self.desk.words.catalogue
        counts = dict.fromkeys(STATES, 0)
        for id_ in known.conditions:
            counts[self.state(id_)[0]] += 1
        out = [line(f"Catalogue {known.version}", "title"), (), line("Conditions, in this very deployment", "label")]
        for state, (glyph, role, words) in STATES.items():
            out.append((("  ", ""), (glyph, role), (f"  {counts[state]:3} {words}", "")))
        return [row for each in out for row in wrap(each, columns, 4)]

    def _here(self, condition: str) -> list[Line]:
        """Whether it can be seen in this deployment, and what of it was."""
        glyph, role, words = STATES[self.state(condition)[0]]
        out: list[Line] = [((glyph, role), (f" {words}", role))]
        for health in self.desk.scene.rules if self.desk.scene else ():
            if health.condition == condition:
                lacks = f"; lacks {', '.join(health.lacking)}" if health.lacking else ""
                out.append(line(f"  {health.rule}: {health.state}, judges {health.judged}{lacks}", "dim"))
        here = self.occurrences(condition)
        if here:
            out.append(line(f"Occurrences here: {len(here)} (o shows them)", "label"))
        for incident in here[:MOST_OCCURRENCES]:
            since = f"{units.clock(incident.opened_at)}, {incident.state}, {detail.sure(incident)} sure"
            out.append((("  ", ""), detail.glyph(incident), (f" {detail.where(incident)}  {since}", "")))
        return [(), *out]

    def occurrences(self, condition: str) -> list[Incident]:
        """Incidents of a condition in what is on show."""
        scene = self.desk.scene
        return [i for i in scene.incidents if i.condition == condition] if scene else []

    def _linked(self, lines: Sequence[Line], own: str) -> list[Line]:
        """The same with every id of the catalogue marked as a link; the chosen one stands out."""
        known = self.desk.words.catalogue
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
                        self.links.append(Link(kind, found[0], row))
                    chosen = self.link >= 0 and self.link < len(self.links) and self.links[self.link].id == found[0]
                    made += [(text[at : found.start()], role), (found[0], "bar" if chosen else "link")]
                    at = found.end()
                made.append((text[at:], role))
            out.append(tuple(span for span in made if span[0]))
        return out

    # --- verbs

    def moves(self, by: int) -> int | None:
        """With the links in hand, the next one: the line to scroll to. None where the tree has the keys."""
        if self.link < 0 or not self.links:
            return None
        self.link = min(max(self.link + by, 0), len(self.links) - 1)
        return max(self.links[self.link].row - 3, 0)

    def do_open(self, _arg: int) -> None:
        """Fold a branch; take an entry's links in hand; follow one."""
        leaf = self.leaves[self.cursor] if self.cursor < len(self.leaves) else None
        if self.link >= 0 and self.link < len(self.links):
            self.follow(self.links[self.link])
        elif leaf is not None and not leaf.id and not self.entry[1]:
            self._fold(leaf)
        elif self.links:
            self.link = 0

    def do_fold(self, _arg: int) -> None:
        """Fold the branch under the cursor."""
        leaf = self.leaves[self.cursor] if self.cursor < len(self.leaves) else None
        if leaf is not None and not leaf.id:
            self._fold(leaf)

    def _fold(self, leaf: Leaf) -> None:
        self.open ^= {leaf.branch if leaf.depth == 0 else f"-{leaf.branch}"}
        self.renew()

    def follow(self, link: Link) -> None:
        """Show the entry that a link leads to; `leave` comes back."""
        self.back = [*self.back[-MOST_BACK:], self.shown]
        self.entry, self.link = (link.kind, link.id), 0

    def show(self, id_: str) -> None:
        """Show an entry, wherever it stands in the tree."""
        known = self.desk.words.catalogue
        kind = next((k for k in KINDS if id_ in getattr(known, k)), "")
        if not kind:
            self.desk.tell(f"The catalogue has no entry {id_!r}.", True)
            return
        self.filter, self.entry, self.link, self.back = "", ("", ""), -1, []
        group = known.conditions[id_].group if kind == "conditions" else ""
        self.open = (self.open | {kind}) - {f"-group {group}"}
        self.collect()
        self.cursor, self.touched = max(self.find((kind, id_)), 0), True

    def do_leave(self, arg: int) -> None:
        """Back where a link was followed; then from the links to the tree; then out of the search."""
        if self.back:
            self.entry = self.back.pop()
            self.link = 0
            leaf = self.leaves[self.cursor] if self.cursor < len(self.leaves) else None
            if leaf and self.entry == (leaf.kind, leaf.id):
                self.entry = ("", "")
        elif self.link >= 0:
            self.link = -1
        elif self.filter:
            self.narrow("")
        else:
            super().do_leave(arg)

    def do_found(self, _arg: int) -> None:
        """The occurrences of the entry, on the first screen."""
        kind, id_ = self.shown
        if kind == "conditions" and self.occurrences(id_):
            self.desk.jump(Jump(1, f"condition={id_}"))
        elif kind == "signals":
            self.desk.jump(Jump(3, f"signal={id_}"))
        else:
            self.desk.tell("It has not occurred in what is on show.", True)

    def copied(self) -> str:
        """The entry as JSON."""
        kind, id_ = self.shown
        found = getattr(self.desk.words.catalogue, kind, {}).get(id_) if kind else None
        return json.dumps(asdict(found), ensure_ascii=False, default=str) if found else ""


def _first(group: str) -> tuple[int, str]:
    order = ("north-south", "pcie", "east-west")
    return (order.index(group) if group in order else len(order), group)


def _plural(kind: str) -> str:
    return kind if kind in KINDS else f"{kind}s"
