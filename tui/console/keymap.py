"""The key table: bindings, footer, help and docs/keys.md are generated from it.

A file changes it: `[keys]`, then a key's id and the keys to press instead: `fold = "F"` or `down = ["n", "down"]`.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.tui.render.status import join_columns
from skewscope.tui.render.text import Line, cut, fit, line, line_width, pad, width

_TEXTUAL_NAMES = {
    "(": "left_parenthesis", ")": "right_parenthesis",
    ",": "comma", ".": "full_stop", "/": "slash", "?": "question_mark", ":": "colon", "[": "left_square_bracket",
    "]": "right_square_bracket", "{": "left_curly_bracket", "}": "right_curly_bracket", "<": "less_than_sign",
    ">": "greater_than_sign", ";": "semicolon", "+": "plus", "-": "minus", "=": "equals_sign",
}  # fmt: skip
"""Textual's names of keys that are written as themselves in the table."""
_FOOTER_GROUPS = ("Act", "Look", "Table", "Time")
"""Groups of keys in the order in which the footer shows them."""
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
    KeyBinding("next", (")",), "next", 1, "next incident", "Move", "", ("diagnoses", "fabric")),
    KeyBinding("previous", ("(",), "next", -1, "previous incident", "Move", "", ("diagnoses", "fabric")),
    KeyBinding("open", ("enter",), "open", 0, "open; again to close", "Look", "open"),
    KeyBinding("back", ("escape",), "back", 0, "close, clear, go back", "Look"),
    KeyBinding("filter", ("/",), "filter", 0, "filter by words, fields", "Look", "filter"),
    KeyBinding("jump", (";", "ctrl+o"), "letters", 0, "jump by a letter", "Look", "jump"),
    KeyBinding(
        "entry",
        ("K",),
        "entry",
        0,
        "its catalogue entry",
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
        "next view",
        "Look",
        "view",
        ("fabric", "actions"),
    ),
    KeyBinding(
        "fold",
        ("f",),
        "fold",
        0,
        "fold; again folds more",
        "Look",
        "",
        ("diagnoses", "catalogue"),
    ),
    KeyBinding("expressions", ("e",), "expressions", 0, "rule in words or code", "Look", "", ("diagnoses",)),
    KeyBinding("sources", ("s",), "sources", 0, "sources and missing data", "Look"),
    KeyBinding("zoom", ("z",), "zoom", 0, "larger pane, and back", "Look"),
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
    KeyBinding("columns", ("C",), "columns", 0, "choose the columns", "Table", "columns", ("signals",)),
    KeyBinding("wide", ("w",), "wide", 0, "show all columns, scrolling sideways", "Table", "", _TABLES),
    KeyBinding("copy-command", ("c",), "command", 0, "copy the command", "Act", "copy command", _INCIDENTS),
    KeyBinding("copy-undo", ("u",), "command", 1, "copy its undo", "Act", "undo", _INCIDENTS),
    KeyBinding("act", ("m",), "plan", 0, "plan of a mitigation", "Act", "plan", _INCIDENTS),
    KeyBinding("acknowledge", ("a",), "ack", 0, "acknowledge, or undo that", "Act", "ack", _INCIDENTS),
    KeyBinding("snooze", ("n",), "snooze", 0, "snooze for a duration", "Act", "", _INCIDENTS),
    KeyBinding("approve", ("x",), "approve", 0, "approve, with a reason", "Act", "", _ACTIONS),
    KeyBinding("refuse", ("d",), "refuse", 0, "refuse what has not begun", "Act", "", _ACTIONS),
    KeyBinding("undo", ("U",), "undo", 0, "take a change back", "Act", "", _ACTIONS),
    KeyBinding(
        "mark",
        ("space",),
        "mark",
        0,
        "mark for a, n, c, u, y",
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
    KeyBinding("copy", ("y",), "copy", 0, "share: text, link, page", "Act", "share"),
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
    """Returns the footer: the most useful keys of a screen, as many as fit; the last ones are those for help."""
    shown = [key for key in keys_for_screen(keys, screen) if key.footer_label]
    last = [key for key in shown if key.id in ("help", "quit")]
    others = sorted((key for key in shown if key not in last and key.group in _FOOTER_GROUPS), key=_footer_order)
    parts = [_footer_spans(key) for key in (*others, *last)]
    while len(parts) > 1 and 1 + sum(map(line_width, parts)) > columns:
        del parts[-len(last) - 1 if len(parts) > len(last) else 0]
    return ((" ", ""), *(span for part in parts for span in part))


def _footer_order(key: KeyBinding) -> int:
    return _FOOTER_GROUPS.index(key.group)


def _footer_spans(key: KeyBinding) -> Line:
    return ((_label(key), "key"), (f" {key.footer_label}  ", "dim"))


def _label(key: KeyBinding) -> str:
    return _KEY_LABELS.get(key.keys[0], key.keys[0]).replace("enter", "↵").replace("space", "spc").replace("ctrl+", "^")


def footer_key_at(keys: Iterable[KeyBinding], screen: str, footer: Line, column: int) -> KeyBinding | None:
    """Returns the key of the footer at a column, None beside all of them."""
    place = 0
    pressed = ""
    for content, role in footer:
        place += width(content)
        pressed = content if role == "key" else pressed
        if column < place:
            found = (key for key in keys_for_screen(keys, screen) if key.footer_label and _label(key) == pressed)
            return next(found, None) if content.strip() else None
    return None


# --- help

PURPOSES = {
    "diagnoses": "What is wrong, since when, what it costs, and what to type.",
    "fabric": "Where it is: nodes by rack and rail, groups, and pairs of members.",
    "signals": "Every measured series beside its past and its peers.",
    "catalogue": "What each condition is, how it shows, and what to do about it.",
    "actions": "What is proposed, done and advised, who noted what, and the state of the rules.",
}
"""What each screen is for."""
BRIEF_LINES = {
    "Screens": "{diagnoses} Diagnoses · {fabric} Fabric · {signals} Signals · {catalogue} Catalogue · "
    "{actions} Actions",
    "Move": "{down} {up} row · {first} {last} ends · {page-down} {page-up} page · {left} {right} sideways · "
    "{other} the other pane · {previous} {next} incidents",
    "Table": "{sort-left} {sort-right} sort · {reverse} reverse · {columns} columns · {wide} all columns",
    "Time": "{play} play, pause · {step-back} {step-on} step · {minute-back} {minute-on} minute · "
    "{slower} {faster} speed · {go-to} go to · {record} record",
    "Console": "{palette} commands · {oftener} {rarer} refresh · {copy-json} copy JSON · {help} keys · {quit} quit",
}
"""Keys that few words explain, by group."""
WORDS: tuple[tuple[str, str], ...] = (
    ("✖ ! ·", "critical, warning, info   ✓ over   ~ abnormal, cause unknown"),
    ("↳ ▶", "caused by the one above; the member that differs"),
    ("a n s *", "acknowledged, snoozed, silenced; marked"),
    ("97 %", "of 100 such reports about 97 are right; fact: so measured, cause unknown"),
    ("lost", "share of its work × nodes affected; the longest bar costs most"),
    ("2.5×", "times its normal value, or times that of its peers"),
    ("if wrong", "what it is then, and what you would see; no data: not checkable"),
    ("▲ △ ▽", "began, reported, ended"),
)
"""Signs and words of the screens."""
TWO_COLUMN_WIDTH = 68


def help_lines(keys: Sequence[KeyBinding], screen: str, columns: int) -> list[Line]:
    """Returns what a screen is for, its keys in two columns if they fit, and what signs and words mean."""
    here = keys_for_screen(keys, screen)
    blocks = [_help_block(here, group, columns) for group in ("Act", "Look")]
    if columns >= TWO_COLUMN_WIDTH:
        half = columns // 2
        listed = join_columns([fit(each, half - 1) for each in blocks[0]], blocks[1], half, 1)
    else:
        listed = [*blocks[0], (), *blocks[1]]
    brief = [((pad(group, 9), "label"), (_brief_line(here, text), "")) for group, text in BRIEF_LINES.items()]
    words = [((pad(sign, 9), "key"), (meaning, "")) for sign, meaning in WORDS]
    purpose = [line(PURPOSES[screen], "title"), ()] if screen in PURPOSES else []
    return [*purpose, *listed, (), *(each for each in brief if each[1][0]), (), *words]


def _help_block(here: Sequence[KeyBinding], group: str, columns: int) -> list[Line]:
    most = columns // 2 - 9 if columns >= TWO_COLUMN_WIDTH else columns - 9
    rows: list[Line] = [
        ((f"  {pad(_label(key), 5)} ", "key"), (cut(key.description, most), "")) for key in here if key.group == group
    ]
    return [line(group, "label"), *rows] if rows else []


def _brief_line(here: Sequence[KeyBinding], text: str) -> str:
    """Returns a line of BRIEF_LINES with the keys of a screen; parts without such keys are left out."""
    labels = {key.id: _label(key) for key in here}
    parts = (part for part in text.split(" · ") if any(name in labels for name in _placeholder.findall(part)))
    return " · ".join(_placeholder.sub(lambda found: labels.get(found[1], ""), part) for part in parts)


_placeholder = re.compile(r"\{([a-z-]+)\}")


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
