"""The one table of keys: bindings, footer and help are made from it."""

from collections.abc import Iterable
from dataclasses import dataclass

from skewscope.tui.text import Line, line, pad, width


@dataclass(frozen=True, slots=True)
class Key:
    """One thing a key does. `keys` are Textual's names, `shown` is what a person presses."""

    keys: str
    action: str
    shown: str
    does: str
    group: str
    footer: str = ""
    """Its word in the footer; '' keeps it out."""


KEYS = (
    Key("j,down", "move(1)", "j ↓", "next diagnosis; scroll in the full view", "Move"),
    Key("k,up", "move(-1)", "k ↑", "previous diagnosis; scroll in the full view", "Move"),
    Key("g,home", "move(-1000000000)", "g home", "first", "Move"),
    Key("G,end", "move(1000000000)", "G end", "last", "Move"),
    Key("ctrl+d,pagedown", "page(1)", "ctrl+d pgdn", "a page down", "Move"),
    Key("ctrl+u,pageup", "page(-1)", "ctrl+u pgup", "a page up", "Move"),
    Key("enter", "open", "enter", "the full evidence, and back", "Look", "evidence"),
    Key("escape", "leave", "esc", "back; clears the filter", "Look"),
    Key("K", "catalogue", "K", "what the catalogue says about this condition", "Look", "catalogue"),
    Key("s", "sources", "s", "who reports, and what cannot be seen", "Look", "sources"),
    Key("f", "fold", "f", "fold or show what a diagnosis explains", "Look"),
    Key("slash", "filter", "/", "filter: text  !text  sev>=warning  sure>80  state:firing", "Look", "filter"),
    Key("p", "play", "p", "play, pause; at the end: play again", "Replay", "play"),
    Key("left_square_bracket", "step(-1)", "[", "one step back", "Replay"),
    Key("right_square_bracket", "step(1)", "]", "one step on", "Replay"),
    Key("left_curly_bracket", "jump(-60)", "{", "a minute back", "Replay"),
    Key("right_curly_bracket", "jump(60)", "}", "a minute on", "Replay"),
    Key("comma", "speed(-1)", ",", "slower", "Replay"),
    Key("full_stop", "speed(1)", ".", "faster", "Replay"),
    Key("t", "goto", "t", "go to a time: 12:03:11, or +30 seconds from the start", "Replay"),
    Key("question_mark", "help", "?", "this help", "Console", "keys"),
    Key("colon,ctrl+p", "command_palette", ": ctrl+p", "palette: themes and commands", "Console"),
    Key("q,ctrl+q,ctrl+c", "quit", "q", "quit", "Console", "quit"),
)
MOST_IN_FOOTER = 7


def footer(columns: int) -> Line:
    """The keys worth knowing, as many as fit."""
    spans: list[tuple[str, str]] = [(" ", "")]
    used = 1
    for key in (k for k in KEYS if k.footer):
        text = f" {key.footer}  "
        used += width(key.shown) + width(text)
        if used > columns:
            break
        spans += [(key.shown, "key"), (text, "dim")]
    return tuple(spans)


def help_lines() -> list[Line]:
    """All keys by group."""
    out: list[Line] = []
    for group in _groups(KEYS):
        out += [line(group, "title"), *(_help(k) for k in KEYS if k.group == group), ()]
    return out


def _help(key: Key) -> Line:
    return ((f"  {pad(key.shown, 12)}", "key"), (key.does, ""))


def _groups(keys: Iterable[Key]) -> list[str]:
    return list(dict.fromkeys(key.group for key in keys))
