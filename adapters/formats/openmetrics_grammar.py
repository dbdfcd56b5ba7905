"""Exact grammar of one line of OpenMetrics or Prometheus text, and hints for lines that do not parse.

Errors are ValueError with the text found; the caller adds file and line.
"""

import math
import re
from collections.abc import Mapping

MAX_LABELS = 128
RECOGNISED_LINES = 20
"""Lines by which the format of a file is recognised."""
SAMPLE_SYNTAX = 'a sample: name{label="value",...} number [time]'
METRIC_TYPES = ("counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset", "unknown", "untyped")

QUOTED = rb'"(?:[^"\\\n]|\\.)*+"'
LABELS = rb"\{(?:[^\"{}\n]|" + QUOTED + rb")*+\}"
SERIES = re.compile(rb"[ \t]*(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)?(?:[ \t]*(?P<labels>" + LABELS + rb"))?")
LABEL = re.compile(
    rb"[ \t]*(?:(?P<plain>[a-zA-Z_][a-zA-Z0-9_]*+)|(?P<quoted>"
    + QUOTED
    + rb"))[ \t]*(?:=[ \t]*(?P<value>"
    + QUOTED
    + rb")[ \t]*)?(?P<end>,|$)"
)
UNIT_NAME = re.compile(
    rb"[a-z][a-zA-Z0-9_]*(?::[a-zA-Z0-9_:]+|_(?:total|sum|count|bytes|seconds|ratio|size|requests|celsius|watts))[ \t]"
)
"""A metric without labels that its own name marks as one."""
REST = re.compile(
    rb"[ \t]+(?P<value>[^ \t#]++)(?:[ \t]+(?P<time>[^ \t#]++))?(?:[ \t]+#[ \t]*(?P<exemplar>\{.*+))?[ \t\r]*+"
)
EXEMPLAR = re.compile(rb"(?P<labels>" + LABELS + rb")[ \t]+(?P<value>[^ \t]++)(?:[ \t]+(?P<time>[^ \t]++))?[ \t\r]*+")
METADATA = re.compile(
    rb"#[ \t]+(?P<what>TYPE|HELP|UNIT)(?:[ \t]+(?P<name>" + QUOTED + rb"|[^ \t]++)(?:[ \t]+(?P<text>.*))?)?"
)
NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[iI][nN][fF](?:inity)?|[nN][aA][nN])")
PROMPT = re.compile(
    rb"(?:\([^()\n]{1,60}\) )?"
    rb"(?:[\w.-]{1,60}@[\w.-]{1,60}[^\n$#%>\"]{0,120}|\[[^\]\n]{1,120}\]|(?:ba|z|k)?sh[\w.-]{0,20})?"
    rb"[$#%>](?:[ \t][^\n]*)?"
)
"""A prompt of a shell, with what was typed at it: `root@worker-0:/# `, `$ curl localhost:8000/metrics`."""
ESCAPE = re.compile(r"\\([\\\"n])")
UNESCAPED = {"\\": "\\", '"': '"', "n": "\n"}

Labels = tuple[tuple[str, str], ...]


def parse_number(text: bytes) -> float:
    """Parses a number."""
    if not NUMBER.fullmatch(text):
        raise ValueError(f"{excerpt(text)} for a number")
    return float(text)


def parse_time(text: bytes) -> float:
    """Parses a timestamp, in the unit of the text."""
    found = parse_number(text)
    if not math.isfinite(found):
        raise ValueError(f"{excerpt(text)} for a time")
    return found


def check_exemplar(text: bytes | None) -> None:
    """Raises ValueError where an exemplar is malformed."""
    if text is None:
        return
    match = EXEMPLAR.fullmatch(text)
    if match is None:
        raise ValueError("a broken exemplar")
    parse_labels(match["labels"])
    parse_number(match["value"])
    if match["time"] is not None:
        parse_time(match["time"])


def parse_series(match: re.Match[bytes]) -> tuple[str, Labels]:
    """Parses metric name and labels of a series."""
    pairs = parse_labels(match["labels"]) if match["labels"] else []
    names = [match["name"].decode()] if match["name"] else []
    names += [value for name, value in pairs if name in ("", "__name__")]
    if len(names) != 1 or not names[0]:
        raise ValueError("no metric name" if not names else f"{len(names)} metric names")
    return names[0], tuple((name, value) for name, value in pairs if name not in ("", "__name__") and value)


def parse_labels(text: bytes) -> list[tuple[str, str]]:
    """Parses labels in braces; a quoted name alone is the metric's and gets the label name ''."""
    pairs: dict[str, str] = {}
    inner = text[1:-1].rstrip(b" \t")
    at = 0
    while at < len(inner):
        match = LABEL.match(inner, at)
        if match is None or (match["value"] is None and match["quoted"] is None):
            raise ValueError(f"{excerpt(inner[at:])} for a label")
        name = match["plain"].decode() if match["plain"] else unquote(match["quoted"])
        name, value = (name, unquote(match["value"])) if match["value"] is not None else ("", name)
        if name in pairs:
            raise ValueError(f"the label {name[:40]!r} for the second time")
        if len(pairs) >= MAX_LABELS:
            raise ValueError(f"more than {MAX_LABELS} labels")
        pairs[name] = value
        at = match.end()
    return list(pairs.items())


def unquote(quoted: bytes) -> str:
    """Returns the unescaped text between quotes; unknown escapes stay as they are."""
    try:
        text = quoted[1:-1].decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("bytes that are not UTF-8") from None
    return ESCAPE.sub(lambda match: UNESCAPED[match[1]], text) if "\\" in text else text


def excerpt(text: bytes) -> str:
    """Returns the start of a text in printable form."""
    shown = text[:60].decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)
    return f"'{shown}'" + ("..." if len(text) > 60 else "")


def is_prompt(line: bytes) -> bool:
    """Returns whether a line is the prompt of a shell, copied along with a page; a comment is none."""
    return not line.startswith(b"#") and PROMPT.fullmatch(line.strip(b" \t\r")) is not None


def guess_format(text: bytes) -> str:
    """Returns a hint on what a line that does not parse probably is."""
    if text.startswith((b"<", b"HTTP/")):
        return "This looks like a web page, not like metrics."
    if text.startswith((b'{"', b"[", b"{'")) and b":" in text:
        return "This looks like JSON."
    if any(byte < 9 for byte in text[:60]):
        return "This looks like a binary file; compressed text is known by its name (.zst, .gz)."
    if re.search(rb"=[^\"]", text.partition(b"{")[2].partition(b"}")[0]):
        return "Label values stand in double quotes."
    return ""


def looks_like_exposition(head: bytes, *, timed: bool) -> bool:
    """Returns whether the start of a file is OpenMetrics or Prometheus text, with times or without them."""
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()]
    samples = [line for line in lines if not line.startswith(b"#") and not is_prompt(line)]
    samples = samples[:RECOGNISED_LINES]
    is_marked = head.startswith(b"# ") or any(b"{" in line or UNIT_NAME.match(line) for line in samples)
    if not samples or not is_marked:
        return False
    for line in samples:
        match = SERIES.match(line)
        rest = REST.fullmatch(line, match.end()) if match and _has_name(match) else None
        if rest is None or not NUMBER.fullmatch(rest["value"]) or (rest["time"] is not None) != timed:
            return False
    return True


def _has_name(match: re.Match[bytes]) -> bool:
    """Returns whether a series has a name: before its labels or, as `promtool tsdb dump` writes it, among them."""
    return bool(match["name"] or (match["labels"] and b'__name__="' in match["labels"]))


def format_series(name: str, labels: Mapping[str, str]) -> str:
    """Returns the text of a series, the part of a line before the value."""
    inner = ",".join(f'{label}="{escape(value)}"' for label, value in sorted(labels.items()))
    return f"{name}{{{inner}}}" if inner else name


def escape(value: str) -> str:
    """Escapes a label's value."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
