"""What a format understands of a text, as lines and as JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from skewscope.adapters.inputs.format_trial import LineTrial, NearPattern, PlacedSample
from skewscope.kb.line_reading import STEP_PARTS, STEP_PREFIX, LineReadings
from skewscope.kb.model import Catalogue, Format, FormatField, FormatLine
from skewscope.tui.render.text import Line, cut, line

MAX_SHOWN = 100
"""Characters of a line of the text, and of a pattern, that are shown."""


def trial_lines(trial: LineTrial, chosen: Format, known: Catalogue) -> Iterator[Line]:
    """Yields a line of the text, and what is understood of it."""
    yield line(f"{trial.number:6d}  {cut(trial.text.strip(), MAX_SHOWN)}", "title" if trial.found else "")
    for found in trial.found:
        made = chosen.lines[found.line]
        yield line(f"        pattern {found.line + 1}: {cut(_pattern_of(made), MAX_SHOWN)}", "dim")
        if parts := [*_describe_readings(found, made, known), *_describe_labels(found, made)]:
            yield line(f"          {'; '.join(parts)}")
    for sample in trial.samples:
        yield line(f"          sample: {_describe_sample(sample, known)}", "ok")
    if not trial.found:
        yield line(f"        {_describe_miss(trial.near, chosen)}", "dim")


def count_lines(counts: Counter[str], most: int, chosen: Format, *, is_sound: bool) -> Iterator[Line]:
    """Yields how many lines there were, which of them match, and how many samples they give."""
    if counts["lines"] > most:
        yield line(f"{counts['lines'] - most:,} more lines are not shown; --lines {counts['lines']} shows all.", "dim")
    unmatched = counts["lines"] - counts["matched"]
    yield line(f"{counts['lines']:,} lines: {counts['matched']:,} match, {unmatched:,} do not.")
    yield line(f"They give {counts['samples']:,} samples.")
    own = "all give what they say" if is_sound else "not all give what they say"
    yield line(f"Samples in the file of {chosen.id}: {len(chosen.samples)}; {own}.")


def trial_json(trial: LineTrial) -> Mapping[str, Any]:
    """Returns the same of one line as JSON."""
    near = trial.near
    return {
        "line": trial.number,
        "text": trial.text,
        "matches": [
            {
                "pattern": found.line + 1,
                "readings": [{"signal": one.signal, "value": one.value} for one in found.readings],
                "labels": dict(found.labels),
            }
            for found in trial.found
        ],
        "samples": [
            {"metric": one.metric, "value": one.value, "time": one.time, "labels": dict(one.labels)}
            for one in trial.samples
        ],
        "nearest": None if near is None else {"pattern": near.line + 1, "wanted": near.wanted, "rest": near.rest},
    }


def _pattern_of(made: FormatLine) -> str:
    return made.pattern or f"a table with the columns {', '.join(made.table)}"


def _fields_of(made: FormatLine, signal: str) -> Iterator[tuple[str, FormatField]]:
    """Yields the fields of a line of a format that are a signal, or a part of a step."""
    for name, what in made.fields.items():
        if signal in (what.signal, STEP_PREFIX + what.step):
            yield name, what


def _describe_readings(found: LineReadings, made: FormatLine, known: Catalogue) -> Iterator[str]:
    for one in found.readings:
        names = "+".join(name for name, _ in _fields_of(made, one.signal))
        part = one.signal.removeprefix(STEP_PREFIX)
        is_part = one.signal.startswith(STEP_PREFIX)
        unit = STEP_PARTS[part] if is_part else known.signals[one.signal].unit
        yield f"<{names}> is {one.signal} {one.value:.10g} {_shown_unit(unit)}".rstrip()
    if found.time:
        kind, text = found.time
        names = "+".join(name for name, what in made.fields.items() if what.time == kind)
        yield f"<{names}> is a time ({kind}) {text}"


def _describe_labels(found: LineReadings, made: FormatLine) -> Iterator[str]:
    """Yields the labels that hold at a line: those of its own fields, and those of lines before it."""
    own = {what.label: name for name, what in made.fields.items() if what.label}
    for label, value in found.labels.items():
        source = f"<{own[label]}> is" if label in own else "from a line before:"
        yield f"{source} the label {label} {value}"


def _describe_sample(sample: PlacedSample, known: Catalogue) -> str:
    signal = known.by_metric.get(sample.metric)
    what = (
        f"{signal.id} {sample.value:.6g} {_shown_unit(signal.unit)}"
        if signal
        else f"{sample.metric} {sample.value:.6g}"
    )
    kind = f"{signal.entity} " if signal else ""
    place = ", ".join(f"{name}={value}" for name, value in sample.labels.items() if name != "message")
    return f"{what.rstrip()} at {kind}{place or 'no place'}, time {sample.time:.3f} s"


def _shown_unit(unit: str) -> str:
    return "" if unit == "1" else unit.replace("{", "").replace("}", "")


def _describe_miss(near: NearPattern | None, chosen: Format) -> str:
    if near is None:
        return "no pattern is near"
    made = chosen.lines[near.line]
    rest = f"{cut(near.rest, MAX_SHOWN)!r} stands where" if near.rest else "the line ends where"
    wanted = cut(near.wanted.strip(), MAX_SHOWN)
    return f"nearest is pattern {near.line + 1} ({cut(_pattern_of(made), MAX_SHOWN)}): {rest} {wanted} is expected"
