"""Compacted output is shorter and looks the same."""

import re

from hypothesis import given
from hypothesis import strategies as st

from skewscope.tui.console.ansi_driver import compact

TOKENS = re.compile(r"\x1b\[([\d;]*)m|\x1b\[(\d+);(\d+)H|(.)", re.DOTALL)


def painted(data):
    """Returns each character with its position and style, as on a terminal."""
    style, at, out = {}, (1, 1), []
    for codes, row, column, char in TOKENS.findall(data):
        if row:
            at = (int(row), int(column))
        elif char == "\n":
            at = (at[0] + 1, 1)
        elif char:
            out.append((at, char, tuple(sorted(style.items()))))
            at = (at[0], at[1] + 1)
        else:
            style = changed(style, codes.split(";"))
    return out


def changed(style, codes):
    style = dict(style)
    while codes:
        code = codes.pop(0)
        if code in ("", "0"):
            style.clear()
        elif code in ("38", "48") and codes[:1] == ["2"]:
            style[code] = tuple(codes[1:4])
            del codes[:4]
        else:
            style[code] = True
    return style


colours = st.sampled_from(["224;224;224", "153;153;153", "9;9;9"])
attributes = st.sampled_from(["", "1;", "7;", "1;7;"])
whole = st.builds("\x1b[{}38;2;{};48;2;{}m".format, attributes, colours, colours)
moves = st.sampled_from(["", "\x1b[3;7H", "\x1b[4;1H", "\n"])
texts = st.sampled_from(["a", "  b ", "▁█", ""])
usual = st.builds("{}{}\x1b[0m{}".format, whole, texts, moves)
odd = st.one_of(whole, texts, moves, st.sampled_from(["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[38;5;9m", "\x1b[?25l"]))


@given(st.lists(st.one_of(usual, usual, odd), max_size=20).map("".join))
def test_it_looks_the_same_and_is_no_longer(data):
    assert painted(compact(data)) == painted(data)
    assert len(compact(data)) <= len(data)


def test_a_style_after_another_names_only_differences():
    first, dim = "\x1b[38;2;224;224;224;48;2;18;18;18mnow", "\x1b[38;2;153;153;153;48;2;18;18;18musual"
    assert compact(f"{first}\x1b[0m{dim}\x1b[0m") == f"{first}\x1b[38;2;153;153;153musual\x1b[0m"
