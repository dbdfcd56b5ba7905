"""What comes along when a text is copied: colours, prompts of a shell, quote marks, fences of Markdown, indents.

The first bytes of a file say which of these it has; they are left out before anything else looks at the text, and
counted. Binary data and text without them pass as they are.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain

from skewscope.adapters.formats.log_lines import is_binary

HEAD_BYTES = 1 << 16
MAX_HELD = 1 << 20
"""Bytes without a line feed that are held back to see the end of their line."""
MOST_QUOTED = 0.5
"""More than this share of the lines begins with a quote mark where a text is quoted."""
MIN_LINES = 2
MIN_INDENT = 2
"""Columns that all lines are indented by where they are part of another text."""
Kind = tuple[str, str]
SHELL, COLOURS, QUOTES, FENCES = (
    ("line", "that a shell wrote"),
    ("sequence", "of colour"),
    ("quote mark", "before a line"),
    ("line", "around a block of code"),
)
"""Noun and the rest of what counts say."""

COLOUR = re.compile(rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,300}(?:\x07|\x1b\\)|[()][A-Z0-9])")
QUOTE = re.compile(rb"^(?:[ \t]{0,3}>(?: |\t|(?=\r?\n)))+", re.MULTILINE)
FENCE = re.compile(rb"^[ \t]{0,3}(?:`{3,}|~{3,})[\w+.-]{0,30}[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
PROMPT = re.compile(
    rb"^(?:\([\w .-]{1,60}\) ){0,2}"
    rb"(?:[\w.-]{1,60}@[\w.-]{1,60}(?:[: ](?:[~/][^\n$#%>\"=]{0,120}|[\w.-]{1,60} ))?[$#%>]"
    rb"|\[[\w.-]{1,60}@[^\]\n]{1,120}\][$#]"
    rb"|(?:ba|z|k)?sh-[\d.]{1,20}[$#]|[\w.-]{1,60}:[~/][^\n$#%>\"=]{0,120}[$#]|\$|PS [A-Z]:\\[^\n>]{0,200}>)"
    rb"(?:[ \t][^\n]*)?\r?(?:\n|\Z)",
    re.MULTILINE,
)
"""A prompt of a shell, with what was typed at it."""
DRAWN = {"|": "\u2502\u2503\u2551", "-": "\u2500\u2501\u2550", "+": "".join(map(chr, range(0x250C, 0x254C)))}
DRAWN["+"] += "".join(map(chr, range(0x2552, 0x256D)))
"""Lines and corners that frames of tables are drawn with, by the character that stands for them elsewhere."""
BLANKS = (
    *((b"\r\n", b"\n"), (b"\xc2\xa0", b" "), (b"\xe2\x80\x8b", b"")),
    *((drawn.encode(), plain.encode()) for plain, some in DRAWN.items() for drawn in some),
)
"""Ends of lines of Windows, blanks of web pages that look like others or like nothing, and drawn frames."""

_counts: ContextVar[dict[str, Counter[Kind]] | None] = ContextVar("counts", default=None)


@contextmanager
def count_strays() -> Iterator[dict[str, Counter[Kind]]]:
    """Gives what is left out of texts that are read in the block, by file and kind."""
    counts: dict[str, Counter[Kind]] = {}
    token = _counts.set(counts)
    try:
        yield counts
    finally:
        _counts.reset(token)


def add_strays(counts: Mapping[str, Counter[Kind]]) -> None:
    """Adds what was left out of texts in a block before to that of this one."""
    if (own := _counts.get()) is not None:
        own.update(counts)


def describe_strays(counts: dict[str, Counter[Kind]]) -> str:
    """Returns what was left out of texts, '' for nothing."""
    whole: Counter[Kind] = sum(counts.values(), Counter())
    parts = [f"{count} {noun if count == 1 else noun + 's'} {kind}" for (noun, kind), count in sorted(whole.items())]
    return f"left out {', '.join(parts)}" if parts else ""


def clean_text(chunks: Iterator[bytes], name: str, *, keep_prompts: bool = False) -> Iterator[bytes]:
    """Yields a text without what was copied along, none of its parts empty.

    Args:
        chunks: the text in UTF-8, or binary data.
        name: of the file, for the counts.
        keep_prompts: whether what was typed at a shell counts.
    """
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= HEAD_BYTES:
            break
    cleaner = _find_cleaner(head[:HEAD_BYTES], keep_prompts=keep_prompts)
    if cleaner is None:
        yield from filter(None, chain([head], chunks))
        return
    if (counts := _counts.get()) is not None:
        counts[name] = cleaner.counts
    held = b""
    for chunk in chain([head], chunks):
        block = held + chunk
        cut = block.rfind(b"\n") + 1
        if not cut and len(block) < MAX_HELD:
            held = block
            continue
        cut = cut or len(block)
        block, held = block[:cut], block[cut:]
        if cleaned := cleaner.clean(block):
            yield cleaned
    if held and (cleaned := cleaner.clean(held)):
        yield cleaned


Step = Callable[[bytes, Counter[Kind]], bytes]
"""Returns a block of whole lines without what is left out, and counts that."""


class _Cleaner:
    """Applies the steps that a text needs to its blocks of whole lines, one after another."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.counts: Counter[Kind] = Counter()
        self._steps = steps
        self._has_begun = False

    def clean(self, block: bytes) -> bytes:
        """Returns a block of whole lines without what is left out."""
        for step in self._steps:
            block = step(block, self.counts)
        if not self._has_begun:
            block = block.lstrip(b"\r\n")
            self._has_begun = bool(block)
        return block


def _find_cleaner(head: bytes, *, keep_prompts: bool) -> _Cleaner | None:
    """Returns what cleans a text that begins like this, None where nothing has to be left out."""
    if is_binary(head):
        return None
    steps: list[Step] = []
    text = head
    for find in (_find_colours, _find_blanks, _find_quotes, _find_fences, *(() if keep_prompts else (_find_prompts,))):
        if step := find(text):
            steps.append(step)
            text = step(text, Counter())
    if indent := _common_indent(text):
        steps.append(lambda block, _: re.sub(rb"(?m)^" + re.escape(indent), b"", block))
    if not steps and not head.startswith((b"\n", b"\r\n")):
        return None
    # One that has read the head has a state; another one begins anew.
    return _Cleaner([step.copy() if isinstance(step, _FencedBlocks) else step for step in steps])


def _drop(pattern: re.Pattern[bytes], kind: Kind) -> Step:
    """Returns a step that leaves out what a pattern matches."""

    def step(block: bytes, counts: Counter[Kind]) -> bytes:
        block, count = pattern.subn(b"", block)
        counts[kind] += count
        return block

    return step


def _find_colours(text: bytes) -> Step | None:
    return _drop(COLOUR, COLOURS) if b"\x1b" in text else None


def _find_blanks(text: bytes) -> Step | None:
    """Returns a step for line ends of Windows and blanks of web pages."""
    some = [pair for pair in BLANKS if pair[0] in text]

    def step(block: bytes, _counts: Counter[Kind]) -> bytes:
        for old, new in some:
            block = block.replace(old, new)
        return block

    return step if some else None


def _find_quotes(text: bytes) -> Step | None:
    lines = sum(bool(line.strip()) for line in text.split(b"\n"))
    return _drop(QUOTE, QUOTES) if lines >= MIN_LINES and len(QUOTE.findall(text)) > MOST_QUOTED * lines else None


def _find_fences(text: bytes) -> Step | None:
    parts = FENCE.split(text)
    # Little between them is what an engine was asked or answered, and much around them the log of it.
    if len(parts) % 2 == 1 and sum(map(len, parts[1::2])) > sum(map(len, parts[::2])):
        return _FencedBlocks()
    return _drop(FENCE, FENCES) if len(parts) > 1 else None


def _find_prompts(text: bytes) -> Step | None:
    return _drop(PROMPT, SHELL) if PROMPT.search(text) else None


class _FencedBlocks:
    """Keeps what stands between fences; what stands around them is prose."""

    def __init__(self) -> None:
        self._is_inside = False

    def copy(self) -> "_FencedBlocks":
        """Returns one that has read nothing."""
        return _FencedBlocks()

    def __call__(self, block: bytes, counts: Counter[Kind]) -> bytes:
        kept = []
        for line in block.splitlines(keepends=True):
            is_fence = bool(FENCE.match(line))
            self._is_inside ^= is_fence
            if self._is_inside and not is_fence:
                kept.append(line)
            else:
                counts[FENCES] += bool(line.strip())
        return b"".join(kept)


def _common_indent(text: bytes) -> bytes:
    """Returns the blanks that all lines begin with, b'' for fewer than `MIN_INDENT` of them."""
    lines = [line for line in text.split(b"\n")[:-1] or [text] if line.strip()]
    if len(lines) < MIN_LINES:
        return b""
    first, last = min(lines), max(lines)
    blanks = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b or a not in b" \t"), 0)
    return first[:blanks] if blanks >= MIN_INDENT else b""
