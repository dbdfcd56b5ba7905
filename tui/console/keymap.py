"""The key table: bindings, footer, help and docs/keys.md are generated from it.

A file changes it: `[keys]`, then a key's id and the keys to press instead: `fold = "F"` or `down = ["n", "down"]`.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.tui.render.text import Line, line, pad, width

MAX_IN_FOOTER = 7
_TEXTUAL_NAMES = {
    ",": "comma", ".": "full_stop", "/": "slash", "?": "question_mark", ":": "colon", "[": "left_square_bracket",
    "]": "right_square_bracket", "{": "left_curly_bracket", "}": "right_curly_bracket", "<": "less_than_sign",
    ">": "greater_than_sign", "+": "plus", "-": "minus", "=": "equals_sign",
}  # fmt: skip
"""Textual's names of keys that are written as themselves in the table."""
_KEY_LABELS = {"escape": "esc", "down": "↓", "up": "↑", "left": "←", "right": "→", "pagedown": "pgdn", "pageup": "pgup"}
_SPECIAL_KEYS = {
    "enter", "escape", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown", "up",
    "down", "left", "right", *(f"f{n}" for n in range(1, 13)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeyBinding:
    """A command and the keys that run it."""

    id: str
    keys: tuple[str, ...]
    """As in a key file: `ctrl+d`, `pagedown`."""
    command: str
    arg: int
    description: str
    group: str
    footer_label: str = ""
    """Its word in the footer; '' keeps it out of the footer."""
    screens: tuple[str, ...] = ()
    """Screens whose footer and help show it; none means all."""

    @property
    def label(self) -> str:
        """The keys as shown to the user."""
        return " ".join(_KEY_LABELS.get(key, key) for key in self.keys)

    @property
    def textual_keys(self) -> str:
        """The keys as Textual names them."""
        return ",".join(_TEXTUAL_NAMES.get(key, key) for key in self.keys)


_TABLES = ("diagnoses", "signals")
_INCIDENTS = ("diagnoses", "actions")
_ACTIONS = ("actions",)
_SORTABLE = ("signals", "fabric")
KEYS = (
    KeyBinding("diagnoses", ("1",), "screen", 1, "Diagnoses: incidents and their evidence", "Screens"),
    KeyBinding("fabric", ("2",), "screen", 2, "Fabric: the topology and its incidents", "Screens"),
    KeyBinding("signals", ("3",), "screen", 3, "Signals: every series of the fleet", "Screens"),
    KeyBinding("catalogue", ("4",), "screen", 4, "Catalogue: conditions, signals, mitigations, sources", "Screens"),
    KeyBinding("actions", ("5",), "screen", 5, "Actions: changes, advice, operator log, rules", "Screens"),
    KeyBinding("down", ("j", "down"), "move", 1, "next row; scroll an open pane", "Move"),
    KeyBinding("up", ("k", "up"), "move", -1, "previous row", "Move"),
    KeyBinding("first", ("g", "home"), "move", -1_000_000_000, "first row", "Move"),
    KeyBinding("last", ("G", "end"), "move", 1_000_000_000, "last row", "Move"),
    KeyBinding("page-down", ("ctrl+d", "pagedown"), "page", 1, "one page down", "Move"),
    KeyBinding("page-up", ("ctrl+u", "pageup"), "page", -1, "one page up", "Move"),
    KeyBinding("left", ("h", "left"), "pan", -1, "left; scroll a wide table", "Move"),
    KeyBinding("right", ("l", "right"), "pan", 1, "right", "Move"),
    KeyBinding("other", ("tab",), "other", 1, "scroll the pane instead of the list, and back", "Move"),
    KeyBinding("open", ("enter",), "open", 0, "open, follow a link, select; again to close", "Look", "open"),
    KeyBinding("back", ("escape",), "back", 0, "close the pane, clear filter and scope, go back", "Look"),
    KeyBinding("filter", ("/",), "filter", 0, "filter; the prompt shows the fields", "Look", "filter"),
    KeyBinding(
        "entry",
        ("K",),
        "entry",
        0,
        "open its catalogue entry",
        "Look",
        "entry",
        ("diagnoses", "signals", "actions"),
    ),
    KeyBinding("found", ("o",), "occurrences", 0, "show its occurrences", "Look", "occurrences", ("catalogue",)),
    KeyBinding(
        "view",
        ("v",),
        "view",
        1,
        "next view: racks, groups, matrix; changes, advice, log, rules",
        "Look",
        "view",
        ("fabric", "actions"),
    ),
    KeyBinding(
        "fold",
        ("f",),
        "fold",
        0,
        "fold explained incidents; then one row per condition; then unfold",
        "Look",
        "",
        ("diagnoses", "catalogue"),
    ),
    KeyBinding(
        "expressions", ("e",), "expressions", 0, "evidence in words, or by its expressions", "Look", "", ("diagnoses",)
    ),
    KeyBinding("sources", ("s",), "sources", 0, "sources and missing data", "Look"),
    KeyBinding("zoom", ("z",), "zoom", 0, "maximise the pane, and back", "Look"),
    KeyBinding(
        "sort-left",
        ("<",),
        "sort",
        -1,
        "sort by the previous column; previous signal of the matrix",
        "Table",
        "",
        _SORTABLE,
    ),
    KeyBinding(
        "sort-right", (">",), "sort", 1, "sort by the next column; next signal of the matrix", "Table", "", _SORTABLE
    ),
    KeyBinding("reverse", ("r",), "reverse", 0, "reverse the sort order", "Table", "", ("signals",)),
    KeyBinding("columns", ("c",), "columns", 0, "choose the columns", "Table", "columns", ("signals",)),
    KeyBinding("wide", ("w",), "wide", 0, "show all columns, scrolling sideways", "Table", "", _TABLES),
    KeyBinding(
        "act", ("m",), "plan", 0, "mitigations: show the plan as a diff, apply nothing", "Act", "act", _INCIDENTS
    ),
    KeyBinding("acknowledge", ("a",), "ack", 0, "acknowledge; again to undo", "Act", "ack", _INCIDENTS),
    KeyBinding("snooze", ("n",), "snooze", 0, "snooze for a duration", "Act", "", _INCIDENTS),
    KeyBinding("approve", ("x",), "approve", 0, "approve a proposed change; asks for the reason", "Act", "", _ACTIONS),
    KeyBinding("refuse", ("d",), "refuse", 0, "refuse a change that has not begun", "Act", "", _ACTIONS),
    KeyBinding("undo", ("u",), "undo", 0, "have a change in place taken back", "Act", "", _ACTIONS),
    KeyBinding(
        "mark",
        ("space",),
        "mark",
        0,
        "mark: acknowledge, snooze and copy apply to all marked",
        "Act",
        "",
        ("diagnoses",),
    ),
    KeyBinding("mark-all", ("M",), "mark", 1, "mark all rows, or none", "Act", "", ("diagnoses",)),
    KeyBinding("play", ("p",), "play", 0, "pause and resume; play and pause a recording", "Time", "play"),
    KeyBinding("step-back", ("[",), "step", -1, "one step back", "Time"),
    KeyBinding("step-on", ("]",), "step", 1, "one step forward", "Time"),
    KeyBinding("minute-back", ("{",), "jump", -60, "one minute back", "Time"),
    KeyBinding("minute-on", ("}",), "jump", 60, "one minute forward", "Time"),
    KeyBinding("slower", (",",), "speed", -1, "play slower", "Time"),
    KeyBinding("faster", (".",), "speed", 1, "play faster", "Time"),
    KeyBinding("go-to", ("t",), "goto", 0, "go to a time: 12:03:11, +30 from the start, -10 from the end", "Time"),
    KeyBinding("record", ("R",), "record", 0, "save the last five minutes as a recording", "Time"),
    KeyBinding("oftener", ("+",), "rate", 1, "refresh more often", "Time"),
    KeyBinding("rarer", ("-",), "rate", -1, "refresh less often", "Time"),
    KeyBinding("copy", ("y",), "copy", 0, "copy as text", "Console"),
    KeyBinding("copy-json", ("Y",), "copy", 1, "copy as JSON", "Console"),
    KeyBinding(
        "palette", (":", "ctrl+p"), "palette", 0, "command palette: commands, entries, nodes, themes", "Console"
    ),
    KeyBinding("help", ("?",), "help", 0, "show the keys of this screen", "Console", "keys"),
    KeyBinding("quit", ("q", "ctrl+q", "ctrl+c"), "quit", 0, "quit", "Console", "quit"),
)


def keys_for_screen(keys: Iterable[KeyBinding], screen: str) -> tuple[KeyBinding, ...]:
    """Returns the keys that work on a screen."""
    return tuple(key for key in keys if not key.screens or screen in key.screens)


def footer_line(keys: Iterable[KeyBinding], screen: str, columns: int) -> Line:
    """Returns the footer: the most useful keys of a screen, as many as fit."""
    spans: list[tuple[str, str]] = [(" ", "")]
    used = 1
    shown = [key for key in keys_for_screen(keys, screen) if key.footer_label]
    *others, help_, quit_ = shown if len(shown) > 1 else (*shown, *shown)
    for key in [*others[: MAX_IN_FOOTER - 2], help_, quit_]:
        pressed, text = _KEY_LABELS.get(key.keys[0], key.keys[0]), f" {key.footer_label}  "
        used += width(pressed) + width(text)
        if used > columns:
            break
        spans += [(pressed, "key"), (text, "dim")]
    return tuple(spans)


def help_lines(keys: Sequence[KeyBinding], screen: str) -> list[Line]:
    """Returns the keys of a screen, by group."""
    here = keys_for_screen(keys, screen)
    out: list[Line] = []
    for group in dict.fromkeys(key.group for key in here):
        out += [line(group, "title"), *(_help_line(k) for k in here if k.group == group), ()]
    return out


def _help_line(key: KeyBinding) -> Line:
    return ((f"  {pad(key.label, 14)}", "key"), (key.description, ""))


def key_table(keys: Sequence[KeyBinding] = KEYS) -> list[Line]:
    """Returns all keys with their ids, one line each."""
    ids = max(len(key.id) for key in keys)
    return [((f"{pad(key.label, 18)}", "key"), (f"{pad(key.id, ids)}  ", "dim"), (key.description, "")) for key in keys]


def to_markdown(keys: Sequence[KeyBinding] = KEYS) -> str:
    """Returns the key table as a Markdown page."""
    out = [
        "# Keys of the console",
        "",
        "Generated by `skewscope keys --markdown` from `tui/console/keymap.py`; a test compares the two.",
        "",
    ]
    out += [
        "To change keys, assign them by id in `skewscope/keys.toml` of the settings folder, or in the `--keys` file:",
        "",
    ]
    out += ["```toml", "[keys]", 'fold = "F"', 'down = ["n", "down"]', "```"]
    for group in dict.fromkeys(key.group for key in keys):
        out += ["", f"## {group}", "", "| keys | command | screens | id |", "|---|---|---|---|"]
        out += [_markdown_row(key) for key in keys if key.group == group]
    return "\n".join(out) + "\n"


def _markdown_row(key: KeyBinding) -> str:
    pressed = " ".join(f"`{_KEY_LABELS.get(k, k)}`" for k in key.keys)
    return f"| {pressed} | {key.description} | {', '.join(key.screens) or 'all'} | {key.id} |"


# --- key files


def load_keys(path: Path, keys: Sequence[KeyBinding] = KEYS) -> tuple[KeyBinding, ...]:
    """Load a key file and apply it to the table.

    Raises:
        InputError: The file is not TOML, names unknown keys or ids, or assigns a key twice.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            [Problem(str(path), 0, "", f"invalid TOML ({error})", '[keys] and lines like fold = "F"')]
        ) from None
    wanted = document.get("keys", {})
    problems = _find_problems(path, document, keys)
    if problems:
        raise InputError(problems)
    changed = tuple(replace(key, keys=_parse_keys(wanted[key.id])) if key.id in wanted else key for key in keys)
    if twice := _find_duplicates(path, changed):
        raise InputError(twice)
    return changed


def _parse_keys(value: object) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else (str(value),)


def _find_problems(path: Path, document: dict[str, object], keys: Sequence[KeyBinding]) -> list[Problem]:
    found = [Problem(str(path), 0, name, "a table", "only [keys]") for name in document if name != "keys"]
    wanted = document.get("keys", {})
    if not isinstance(wanted, dict):
        return [Problem(str(path), 0, "keys", "a value", '[keys] and lines like fold = "F"')]
    ids = [key.id for key in keys]
    for name, value in wanted.items():
        if name not in ids:
            found.append(
                Problem(
                    str(path),
                    0,
                    f"keys.{name}",
                    "an unknown id",
                    "an id listed by `skewscope keys`",
                    suggest_name(name, ids),
                )
            )
        elif not isinstance(value, str | list) or not all(
            isinstance(k, str) and _is_known_key(k) for k in _parse_keys(value)
        ):
            hint = 'As in "F", "ctrl+f", "pagedown" or ["n", "down"].'
            found.append(Problem(str(path), 0, f"keys.{name}", repr(value), "a key or a list of keys", hint))
    return found


def _is_known_key(key: str) -> bool:
    bare = key.removeprefix("ctrl+").removeprefix("shift+")
    return (len(bare) == 1 and bare.isprintable() and bare != " ") or bare in _SPECIAL_KEYS


def _find_duplicates(path: Path, keys: Sequence[KeyBinding]) -> list[Problem]:
    users: dict[str, list[str]] = {}
    for key in keys:
        for pressed in key.keys:
            users.setdefault(pressed, []).append(key.id)
    return [
        Problem(str(path), 0, "keys", f"{pressed!r} for {' and '.join(ids)}", "each key assigned once")
        for pressed, ids in users.items()
        if len(ids) > 1
    ]
