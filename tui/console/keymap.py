"""The one table of keys: bindings, footer, help and the page of the documentation are made from it.

A file changes it: `[keys]`, then a key's id and what is pressed instead: `fold = "F"` or `down = ["n", "down"]`.
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
"""What Textual calls keys that a person would write as they are."""
_KEY_LABELS = {"escape": "esc", "down": "↓", "up": "↑", "left": "←", "right": "→", "pagedown": "pgdn", "pageup": "pgup"}
_SPECIAL_KEYS = {
    "enter", "escape", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown", "up",
    "down", "left", "right", *(f"f{n}" for n in range(1, 13)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeyBinding:
    """One thing that keys do."""

    id: str
    keys: tuple[str, ...]
    """As a person writes them; `ctrl+d`, `pagedown`."""
    command: str
    arg: int
    description: str
    group: str
    footer_label: str = ""
    """Its word in the footer; '' keeps it out."""
    screens: tuple[str, ...] = ()
    """Where the footer and the help show it; none: everywhere."""

    @property
    def label(self) -> str:
        """What a person presses."""
        return " ".join(_KEY_LABELS.get(key, key) for key in self.keys)

    @property
    def textual_keys(self) -> str:
        """The same as Textual wants it."""
        return ",".join(_TEXTUAL_NAMES.get(key, key) for key in self.keys)


_TABLES = ("diagnoses", "signals")
_INCIDENTS = ("diagnoses", "actions")
_SORTABLE = ("signals", "fabric")
KEYS = (
    KeyBinding("diagnoses", ("1",), "screen", 1, "Diagnoses: what is wrong", "Screens"),
    KeyBinding("fabric", ("2",), "screen", 2, "Fabric: where it is", "Screens"),
    KeyBinding("signals", ("3",), "screen", 3, "Signals: every series of the fleet", "Screens"),
    KeyBinding("catalogue", ("4",), "screen", 4, "Catalogue: what is known", "Screens"),
    KeyBinding("actions", ("5",), "screen", 5, "Actions: what can be done and was", "Screens"),
    KeyBinding("down", ("j", "down"), "move", 1, "next row; scroll what is open", "Move"),
    KeyBinding("up", ("k", "up"), "move", -1, "row before", "Move"),
    KeyBinding("first", ("g", "home"), "move", -1_000_000_000, "first", "Move"),
    KeyBinding("last", ("G", "end"), "move", 1_000_000_000, "last", "Move"),
    KeyBinding("page-down", ("ctrl+d", "pagedown"), "page", 1, "a page down", "Move"),
    KeyBinding("page-up", ("ctrl+u", "pageup"), "page", -1, "a page up", "Move"),
    KeyBinding("left", ("h", "left"), "pan", -1, "left; sideways in a wide table", "Move"),
    KeyBinding("right", ("l", "right"), "pan", 1, "right", "Move"),
    KeyBinding("other", ("tab",), "other", 1, "scroll the other pane", "Move"),
    KeyBinding("open", ("enter",), "open", 0, "open, follow, choose; and back", "Look", "open"),
    KeyBinding("back", ("escape",), "back", 0, "out of what is open; clears filter and scope", "Look"),
    KeyBinding("filter", ("/",), "filter", 0, "filter; the fields are told while you type", "Look", "filter"),
    KeyBinding(
        "entry",
        ("K",),
        "entry",
        0,
        "what the catalogue says about it",
        "Look",
        "entry",
        ("diagnoses", "signals", "actions"),
    ),
    KeyBinding("found", ("o",), "occurrences", 0, "its occurrences here", "Look", "occurrences", ("catalogue",)),
    KeyBinding(
        "view",
        ("v",),
        "view",
        1,
        "the next view: racks, groups, matrix; advice, ledger, rules",
        "Look",
        "view",
        ("fabric", "actions"),
    ),
    KeyBinding(
        "fold",
        ("f",),
        "fold",
        0,
        "fold what is explained; then all of one condition; then show all",
        "Look",
        "",
        ("diagnoses", "catalogue"),
    ),
    KeyBinding("sources", ("s",), "sources", 0, "who reports, and what cannot be seen", "Look"),
    KeyBinding("zoom", ("z",), "zoom", 0, "the pane alone, and back", "Look"),
    KeyBinding("sort-left", ("<",), "sort", -1, "sort by the column before; another matrix", "Table", "", _SORTABLE),
    KeyBinding("sort-right", (">",), "sort", 1, "sort by the next column; another matrix", "Table", "", _SORTABLE),
    KeyBinding("reverse", ("r",), "reverse", 0, "the other way round", "Table", "", ("signals",)),
    KeyBinding("columns", ("c",), "columns", 0, "choose the columns", "Table", "columns", ("signals",)),
    KeyBinding("wide", ("w",), "wide", 0, "all columns, scrolled sideways", "Table", "", _TABLES),
    KeyBinding(
        "act", ("m",), "plan", 0, "what to do: its plan as a diff, nothing is applied", "Act", "act", _INCIDENTS
    ),
    KeyBinding("acknowledge", ("a",), "ack", 0, "acknowledge, and take that back", "Act", "ack", _INCIDENTS),
    KeyBinding("snooze", ("n",), "snooze", 0, "snooze, with an end", "Act", "", _INCIDENTS),
    KeyBinding(
        "mark",
        ("space",),
        "mark",
        0,
        "mark it: what is marked is acknowledged, snoozed, copied together",
        "Act",
        "",
        ("diagnoses",),
    ),
    KeyBinding("mark-all", ("M",), "mark", 1, "mark all that is shown, or nothing", "Act", "", ("diagnoses",)),
    KeyBinding("play", ("p",), "play", 0, "pause; in a recording play and hold", "Time", "play"),
    KeyBinding("step-back", ("[",), "step", -1, "one step back", "Time"),
    KeyBinding("step-on", ("]",), "step", 1, "one step on", "Time"),
    KeyBinding("minute-back", ("{",), "jump", -60, "a minute back", "Time"),
    KeyBinding("minute-on", ("}",), "jump", 60, "a minute on", "Time"),
    KeyBinding("slower", (",",), "speed", -1, "slower", "Time"),
    KeyBinding("faster", (".",), "speed", 1, "faster", "Time"),
    KeyBinding("go-to", ("t",), "goto", 0, "go to a time: 12:03:11, +30 from the start, -10 from the end", "Time"),
    KeyBinding("record", ("R",), "record", 0, "keep the last minutes on show as a recording", "Time"),
    KeyBinding("oftener", ("+",), "rate", 1, "look more often", "Time"),
    KeyBinding("rarer", ("-",), "rate", -1, "look less often", "Time"),
    KeyBinding("copy", ("y",), "copy", 0, "copy it as text", "Console"),
    KeyBinding("copy-json", ("Y",), "copy", 1, "copy it as JSON", "Console"),
    KeyBinding("palette", (":", "ctrl+p"), "palette", 0, "palette: entries, nodes, themes, commands", "Console"),
    KeyBinding("help", ("?",), "help", 0, "the keys of this screen", "Console", "keys"),
    KeyBinding("quit", ("q", "ctrl+q", "ctrl+c"), "quit", 0, "quit", "Console", "quit"),
)


def keys_for_screen(keys: Iterable[KeyBinding], page: str) -> tuple[KeyBinding, ...]:
    """The keys that mean something on a screen."""
    return tuple(key for key in keys if not key.screens or page in key.screens)


def footer_line(keys: Iterable[KeyBinding], page: str, columns: int) -> Line:
    """The keys worth knowing on a screen, as many as fit."""
    spans: list[tuple[str, str]] = [(" ", "")]
    used = 1
    shown = [key for key in keys_for_screen(keys, page) if key.footer_label]
    *others, help_, quit_ = shown if len(shown) > 1 else (*shown, *shown)
    for key in [*others[: MAX_IN_FOOTER - 2], help_, quit_]:
        pressed, text = _KEY_LABELS.get(key.keys[0], key.keys[0]), f" {key.footer_label}  "
        used += width(pressed) + width(text)
        if used > columns:
            break
        spans += [(pressed, "key"), (text, "dim")]
    return tuple(spans)


def help_lines(keys: Sequence[KeyBinding], page: str) -> list[Line]:
    """The keys of a screen by group."""
    here = keys_for_screen(keys, page)
    out: list[Line] = []
    for group in dict.fromkeys(key.group for key in here):
        out += [line(group, "title"), *(_help_line(k) for k in here if k.group == group), ()]
    return out


def _help_line(key: KeyBinding) -> Line:
    return ((f"  {pad(key.label, 14)}", "key"), (key.description, ""))


def key_table(keys: Sequence[KeyBinding] = KEYS) -> list[Line]:
    """All keys with their ids, a line each."""
    ids = max(len(key.id) for key in keys)
    return [((f"{pad(key.label, 18)}", "key"), (f"{pad(key.id, ids)}  ", "dim"), (key.description, "")) for key in keys]


def to_markdown(keys: Sequence[KeyBinding] = KEYS) -> str:
    """The keys as a page of Markdown."""
    out = [
        "# Keys of the console",
        "",
        "Made by `skewscope keys --markdown` from `tui/console/keymap.py`; a test compares the two.",
        "",
    ]
    out += [
        "What is pressed can be changed in `skewscope/keys.toml` of the folder of settings, or with `--keys`, by id:",
        "",
    ]
    out += ["```toml", "[keys]", 'fold = "F"', 'down = ["n", "down"]', "```"]
    for group in dict.fromkeys(key.group for key in keys):
        out += ["", f"## {group}", "", "| keys | does | where | id |", "|---|---|---|---|"]
        out += [_markdown_row(key) for key in keys if key.group == group]
    return "\n".join(out) + "\n"


def _markdown_row(key: KeyBinding) -> str:
    pressed = " ".join(f"`{_KEY_LABELS.get(k, k)}`" for k in key.keys)
    return f"| {pressed} | {key.description} | {', '.join(key.screens) or 'everywhere'} | {key.id} |"


# --- a person's own keys


def load_keys(path: Path, keys: Sequence[KeyBinding] = KEYS) -> tuple[KeyBinding, ...]:
    """The table with what a file changes in it.

    Raises:
        InputError: the file is no TOML, or names keys or ids that there are not, or one key twice.
    """
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            [Problem(str(path), 0, "", f"no TOML ({error})", '[keys] and lines like fold = "F"')]
        ) from None
    wanted = told.get("keys", {})
    problems = _find_problems(path, told, keys)
    if problems:
        raise InputError(problems)
    changed = tuple(replace(key, keys=_parse_keys(wanted[key.id])) if key.id in wanted else key for key in keys)
    if twice := _find_duplicates(path, changed):
        raise InputError(twice)
    return changed


def _parse_keys(value: object) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else (str(value),)


def _find_problems(path: Path, told: dict[str, object], keys: Sequence[KeyBinding]) -> list[Problem]:
    found = [Problem(str(path), 0, name, "a table", "only [keys]") for name in told if name != "keys"]
    wanted = told.get("keys", {})
    if not isinstance(wanted, dict):
        return [Problem(str(path), 0, "keys", "no table", '[keys] and lines like fold = "F"')]
    ids = [key.id for key in keys]
    for name, value in wanted.items():
        if name not in ids:
            found.append(
                Problem(
                    str(path),
                    0,
                    f"keys.{name}",
                    "an id that no key has",
                    "an id of `skewscope keys`",
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
        Problem(str(path), 0, "keys", f"{pressed!r} for {' and '.join(ids)}", "one meaning for each key")
        for pressed, ids in users.items()
        if len(ids) > 1
    ]
