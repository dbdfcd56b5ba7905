"""The one table of keys: bindings, footer, help and the page of the documentation are made from it.

A file changes it: `[keys]`, then a key's id and what is pressed instead: `fold = "F"` or `down = ["n", "down"]`.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skewscope.kb.problems import InputError, Problem, nearest
from skewscope.tui.text import Line, line, pad, width

MOST_IN_FOOTER = 7
_NAMES = {
    ",": "comma", ".": "full_stop", "/": "slash", "?": "question_mark", ":": "colon", "[": "left_square_bracket",
    "]": "right_square_bracket", "{": "left_curly_bracket", "}": "right_curly_bracket", "<": "less_than_sign",
    ">": "greater_than_sign", "+": "plus", "-": "minus", "=": "equals_sign",
}  # fmt: skip
"""What Textual calls keys that a person would write as they are."""
_SHOWN = {"escape": "esc", "down": "↓", "up": "↑", "left": "←", "right": "→", "pagedown": "pgdn", "pageup": "pgup"}
_SPECIAL = {
    "enter", "escape", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown", "up",
    "down", "left", "right", *(f"f{n}" for n in range(1, 13)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that keys do."""

    id: str
    keys: tuple[str, ...]
    """As a person writes them; `ctrl+d`, `pagedown`."""
    verb: str
    arg: int
    does: str
    group: str
    footer: str = ""
    """Its word in the footer; '' keeps it out."""
    pages: tuple[str, ...] = ()
    """Where the footer and the help show it; none: everywhere."""

    @property
    def shown(self) -> str:
        """What a person presses."""
        return " ".join(_SHOWN.get(key, key) for key in self.keys)

    @property
    def binding(self) -> str:
        """The same as Textual wants it."""
        return ",".join(_NAMES.get(key, key) for key in self.keys)


_TABLES = ("diagnoses", "signals")
_INCIDENTS = ("diagnoses", "actions")
_SORTED = ("signals", "fabric")
KEYS = (
    Key("diagnoses", ("1",), "page", 1, "Diagnoses: what is wrong", "Screens"),
    Key("fabric", ("2",), "page", 2, "Fabric: where it is", "Screens"),
    Key("signals", ("3",), "page", 3, "Signals: every series of the fleet", "Screens"),
    Key("catalogue", ("4",), "page", 4, "Catalogue: what is known", "Screens"),
    Key("actions", ("5",), "page", 5, "Actions: what can be done and was", "Screens"),
    Key("down", ("j", "down"), "move", 1, "next row; scroll what is open", "Move"),
    Key("up", ("k", "up"), "move", -1, "row before", "Move"),
    Key("first", ("g", "home"), "move", -1_000_000_000, "first", "Move"),
    Key("last", ("G", "end"), "move", 1_000_000_000, "last", "Move"),
    Key("page-down", ("ctrl+d", "pagedown"), "leaf", 1, "a page down", "Move"),
    Key("page-up", ("ctrl+u", "pageup"), "leaf", -1, "a page up", "Move"),
    Key("left", ("h", "left"), "aside", -1, "left; sideways in a wide table", "Move"),
    Key("right", ("l", "right"), "aside", 1, "right", "Move"),
    Key("other", ("tab",), "other", 1, "scroll the other pane", "Move"),
    Key("open", ("enter",), "open", 0, "open, follow, choose; and back", "Look", "open"),
    Key("back", ("escape",), "leave", 0, "out of what is open; clears filter and scope", "Look"),
    Key("filter", ("/",), "filter", 0, "filter; the fields are told while you type", "Look", "filter"),
    Key(
        "entry",
        ("K",),
        "entry",
        0,
        "what the catalogue says about it",
        "Look",
        "entry",
        ("diagnoses", "signals", "actions"),
    ),
    Key("found", ("o",), "found", 0, "its occurrences here", "Look", "occurrences", ("catalogue",)),
    Key(
        "view",
        ("v",),
        "view",
        1,
        "the next view: racks, groups, matrix; advice, ledger, rules",
        "Look",
        "view",
        ("fabric", "actions"),
    ),
    Key(
        "fold",
        ("f",),
        "fold",
        0,
        "fold what is explained; then all of one condition; then show all",
        "Look",
        "",
        ("diagnoses", "catalogue"),
    ),
    Key("sources", ("s",), "sources", 0, "who reports, and what cannot be seen", "Look"),
    Key("zoom", ("z",), "zoom", 0, "the pane alone, and back", "Look"),
    Key("sort-left", ("<",), "sort", -1, "sort by the column before; another matrix", "Table", "", _SORTED),
    Key("sort-right", (">",), "sort", 1, "sort by the next column; another matrix", "Table", "", _SORTED),
    Key("reverse", ("r",), "reverse", 0, "the other way round", "Table", "", ("signals",)),
    Key("columns", ("c",), "columns", 0, "choose the columns", "Table", "columns", ("signals",)),
    Key("wide", ("w",), "wide", 0, "all columns, scrolled sideways", "Table", "", _TABLES),
    Key("act", ("m",), "plan", 0, "what to do: its plan as a diff, nothing is applied", "Act", "act", _INCIDENTS),
    Key("acknowledge", ("a",), "ack", 0, "acknowledge, and take that back", "Act", "ack", _INCIDENTS),
    Key("snooze", ("n",), "snooze", 0, "snooze, with an end", "Act", "", _INCIDENTS),
    Key(
        "mark",
        ("space",),
        "mark",
        0,
        "mark it: what is marked is acknowledged, snoozed, copied together",
        "Act",
        "",
        ("diagnoses",),
    ),
    Key("mark-all", ("M",), "mark", 1, "mark all that is shown, or nothing", "Act", "", ("diagnoses",)),
    Key("play", ("p",), "play", 0, "pause; in a recording play and hold", "Time", "play"),
    Key("step-back", ("[",), "step", -1, "one step back", "Time"),
    Key("step-on", ("]",), "step", 1, "one step on", "Time"),
    Key("minute-back", ("{",), "jump", -60, "a minute back", "Time"),
    Key("minute-on", ("}",), "jump", 60, "a minute on", "Time"),
    Key("slower", (",",), "speed", -1, "slower", "Time"),
    Key("faster", (".",), "speed", 1, "faster", "Time"),
    Key("go-to", ("t",), "goto", 0, "go to a time: 12:03:11, +30 from the start, -10 from the end", "Time"),
    Key("record", ("R",), "record", 0, "keep the last minutes on show as a recording", "Time"),
    Key("oftener", ("+",), "rate", 1, "look more often", "Time"),
    Key("rarer", ("-",), "rate", -1, "look less often", "Time"),
    Key("copy", ("y",), "copy", 0, "copy it as text", "Console"),
    Key("copy-json", ("Y",), "copy", 1, "copy it as JSON", "Console"),
    Key("palette", (":", "ctrl+p"), "palette", 0, "palette: entries, nodes, themes, commands", "Console"),
    Key("help", ("?",), "help", 0, "the keys of this screen", "Console", "keys"),
    Key("quit", ("q", "ctrl+q", "ctrl+c"), "quit", 0, "quit", "Console", "quit"),
)


def on_page(keys: Iterable[Key], page: str) -> tuple[Key, ...]:
    """The keys that mean something on a screen."""
    return tuple(key for key in keys if not key.pages or page in key.pages)


def footer(keys: Iterable[Key], page: str, columns: int) -> Line:
    """The keys worth knowing on a screen, as many as fit."""
    spans: list[tuple[str, str]] = [(" ", "")]
    used = 1
    shown = [key for key in on_page(keys, page) if key.footer]
    *others, help_, quit_ = shown if len(shown) > 1 else (*shown, *shown)
    for key in [*others[: MOST_IN_FOOTER - 2], help_, quit_]:
        pressed, text = _SHOWN.get(key.keys[0], key.keys[0]), f" {key.footer}  "
        used += width(pressed) + width(text)
        if used > columns:
            break
        spans += [(pressed, "key"), (text, "dim")]
    return tuple(spans)


def help_lines(keys: Sequence[Key], page: str) -> list[Line]:
    """The keys of a screen by group."""
    here = on_page(keys, page)
    out: list[Line] = []
    for group in dict.fromkeys(key.group for key in here):
        out += [line(group, "title"), *(_help(k) for k in here if k.group == group), ()]
    return out


def _help(key: Key) -> Line:
    return ((f"  {pad(key.shown, 14)}", "key"), (key.does, ""))


def table(keys: Sequence[Key] = KEYS) -> list[Line]:
    """All keys with their ids, a line each."""
    ids = max(len(key.id) for key in keys)
    return [((f"{pad(key.shown, 18)}", "key"), (f"{pad(key.id, ids)}  ", "dim"), (key.does, "")) for key in keys]


def page_of_docs(keys: Sequence[Key] = KEYS) -> str:
    """The keys as a page of Markdown."""
    out = [
        "# Keys of the console",
        "",
        "Made by `skewscope keys --markdown` from `tui/keymap.py`; a test compares the two.",
        "",
    ]
    out += [
        "What is pressed can be changed in `skewscope/keys.toml` of the folder of settings, or with `--keys`, by id:",
        "",
    ]
    out += ["```toml", "[keys]", 'fold = "F"', 'down = ["n", "down"]', "```"]
    for group in dict.fromkeys(key.group for key in keys):
        out += ["", f"## {group}", "", "| keys | does | where | id |", "|---|---|---|---|"]
        out += [_row(key) for key in keys if key.group == group]
    return "\n".join(out) + "\n"


def _row(key: Key) -> str:
    pressed = " ".join(f"`{_SHOWN.get(k, k)}`" for k in key.keys)
    return f"| {pressed} | {key.does} | {', '.join(key.pages) or 'everywhere'} | {key.id} |"


# --- a person's own keys


def load(path: Path, keys: Sequence[Key] = KEYS) -> tuple[Key, ...]:
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
    problems = _problems(path, told, keys)
    if problems:
        raise InputError(problems)
    changed = tuple(replace(key, keys=_pressed(wanted[key.id])) if key.id in wanted else key for key in keys)
    if twice := _twice(path, changed):
        raise InputError(twice)
    return changed


def _pressed(value: object) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else (str(value),)


def _problems(path: Path, told: dict[str, object], keys: Sequence[Key]) -> list[Problem]:
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
                    nearest(name, ids),
                )
            )
        elif not isinstance(value, str | list) or not all(isinstance(k, str) and _known(k) for k in _pressed(value)):
            hint = 'As in "F", "ctrl+f", "pagedown" or ["n", "down"].'
            found.append(Problem(str(path), 0, f"keys.{name}", repr(value), "a key or a list of keys", hint))
    return found


def _known(key: str) -> bool:
    bare = key.removeprefix("ctrl+").removeprefix("shift+")
    return (len(bare) == 1 and bare.isprintable() and bare != " ") or bare in _SPECIAL


def _twice(path: Path, keys: Sequence[Key]) -> list[Problem]:
    users: dict[str, list[str]] = {}
    for key in keys:
        for pressed in key.keys:
            users.setdefault(pressed, []).append(key.id)
    return [
        Problem(str(path), 0, "keys", f"{pressed!r} for {' and '.join(ids)}", "one meaning for each key")
        for pressed, ids in users.items()
        if len(ids) > 1
    ]
