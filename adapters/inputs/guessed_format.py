"""A format for a text of which none is known: what the numbers of its most frequent lines are, by names and units.

Only what a name and a unit say together is taken: the number and the time of a step, rates, and the load of an engine.
The dates of the lines confirm a time of a step, or refute it. All else stays unread, and what was taken is said.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import median

import yaml

from skewscope.adapters.inputs.guessed_table import guess_tables
from skewscope.adapters.inputs.line_templates import NumberColumn, Template, find_templates
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.adapters.mapping.column_names import PER_SECOND, convert_unit, find_signal, split_name
from skewscope.kb.line_reading import LineReader
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Format, FormatField, FormatLine, FormatSample
from skewscope.kb.problems import join_names

GUESSED_ID = "guessed"
MEMBER_FIELD = "member"
SLUG = re.compile(r"(?=.{1,60}$)[a-z0-9]+(?:-[a-z0-9]+)*")
MIN_ROWS = 3
"""Lines of a kind that repeat."""
MIN_READ = 0.9
"""Share of the lines of a template that its pattern must match."""
MAX_TRIED = 20
"""Templates, those of the most lines first, that are looked at."""
MOST_OFF = 2.0
"""A time of a step and the time between the dates of two steps differ by less than this, or one is of something else:
the part of a step, or a number of them."""
MAX_COLUMNS = 8
"""Columns of tables that are shown."""
MAX_SHOWN = 100
"""Characters of an example of a line that is shown."""

SECONDS = {"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "ms": "ms", "msec": "ms", "us": "us"}
SECONDS |= {"millis": "ms", "milliseconds": "ms", "\u00b5s": "us", "usec": "us", "microseconds": "us"}
STEPS = r"(?:it|its|iters?|iterations?|steps?|batch|batches|updates?)"
SAMPLES = r"(?:samples?|images?|imgs?|seqs?|sequences?|examples?|records?|rows|frames?|tokens?|toks?|words)"
PER_STEP = re.compile(rf"(?:.*[\s_/])?(?P<unit>{'|'.join(SECONDS)})/{STEPS}")
STEP_RATE = re.compile(rf"(?:.*[\s_/])?{STEPS}/(?:s|sec|second)")
SAMPLE_RATE = re.compile(rf"(?:.*[\s_/])?(?:{SAMPLES}/(?:s|sec|second)(?:/(?:gpu|device|rank))?|tps|wps)")
TOKEN_RATE = re.compile(r".*(?:tok.*/.*|tps)")
LEAST_RATE = 1e-9
STEP_WORDS = frozenset(("step", "steps", "iter", "iters", "iteration", "it", "batch", "update", "updates"))
TIME_WORDS = frozenset(("time", "duration", "dur", "took", "elapsed", "dt"))
TRAINING_WORDS = frozenset(("loss", "lr", "epoch", "grad", "train", "training", "learning", "accuracy", "acc"))
"""Words of lines whose steps are those of a training job..."""
SERVING_WORDS = frozenset(("request", "requests", "reqs", "prefill", "decode", "kv", "cache"))
"""...and of lines whose steps are the rounds of an engine."""
NAMED_AFTER_STEPS = 2
"""From here on the name of a time says that it is of a step."""
CLOCK_WORDS = frozenset(("elapsed", "time", "wall", "runtime", "clock"))
"""Words of what may count from the begin of the job."""
NEUTRAL = frozenset(
    ("global", "train", "training", "local", "current", "avg", "average", "mean", "per", "this", "last")
)
PARTS = {
    "step.data_time": frozenset(("data", "load", "loading", "loader", "dataloader", "dataloading", "input")),
    "step.comm_time": frozenset(("comm", "communication", "allreduce")),
}
MEMBERS = {
    "replica": "replica",
    "pod": "pod",
    "instance": "instance",
    "engine": "replica",
    "worker": "replica",
    "server": "instance",
    "host": "instance",
}
"""Labels of the engine that a line is of, by the words before its name."""
MEMBER = re.compile(rf"(?<![\w.-])(?P<word>{'|'.join(MEMBERS)})(?P<sign>=|: ?)\"?(?P<name>[^\s,;|\"]{{1,64}})")
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|%")


@dataclass(frozen=True, slots=True)
class Guess:
    """A format that was made for one text."""

    format: Format
    what: str
    """What was taken for what, as a clause."""


@dataclass(frozen=True, slots=True)
class Role:
    """What the numbers of a column are taken for."""

    place: int
    """Of the column in its template."""
    field: str
    what: FormatField
    text: str


def guess_format(lines: Sequence[str], file: str = "") -> Guess | None:
    """Returns a format for lines that repeat, None where no numbers have names and units that fit.

    Args:
        lines: of the text, a part of it.
        file: its name, for messages.
    """
    for template in find_templates(lines)[:MAX_TRIED]:
        if template.count < MIN_ROWS:
            break
        roles, place = _step_roles(template, file), "job"
        if not roles:
            roles, place = list(_serving_roles(template)), "server"
        if roles and (guess := _make_guess(template, roles, place)):
            return guess
    return _guess_from_tables(lines)


def _guess_from_tables(lines: Sequence[str]) -> Guess | None:
    """Returns a format for printed tables, None where there are none whose columns mean something."""
    tables = guess_tables(lines)
    if not tables:
        return None
    columns = join_names([text for each in tables for text in each.what], MAX_COLUMNS)
    made = _new_format(tables[0].place, tuple(each.line for each in tables))
    reader = LineReader(made, catalogue().signals)
    shown = tables[0].rows
    readings = [one for text in shown for found in reader.read(text) for one in found.readings]
    gives: list[Mapping[str, object]] = [{"signal": one.signal, "value": one.value} for one in readings]
    sample = FormatSample("\n".join(shown) + "\n", tuple(gives))
    what = f"no format is known for it; guessed from the header `{_cut(shown[0].strip())}`: {columns}"
    return Guess(replace(made, samples=(sample,)), what)


def _new_format(place: str, lines: tuple[FormatLine, ...]) -> Format:
    return Format(
        id=GUESSED_ID,
        name="Text in a guessed format",
        what="What the numbers of lines that repeat were taken for, by their names and units.",
        tool="unknown",
        versions="unknown",
        place=place,
        lines=lines,
        samples=(),
        basis="judgement: guessed from names, units and dates of the lines of one file",
    )


def render_format(guess: Guess, id_: str = GUESSED_ID) -> str:
    """Returns a guessed format as the text of a file, to be edited; `id_` counts where it can be an id."""
    empty: tuple[object, ...] = ("", False, (), {})
    fields = asdict(guess.format) | {"lines": [], "samples": []}
    fields["id"] = id_ if SLUG.fullmatch(id_) else GUESSED_ID
    del fields["file"]
    for line in guess.format.lines:
        whats = {name: {k: v for k, v in asdict(what).items() if v not in empty} for name, what in line.fields.items()}
        rows = {"table": list(line.table), "columns": dict(line.columns)} if line.table else {"pattern": line.pattern}
        parts = {"parts": list(line.parts)} if line.parts else {}
        fields["lines"].append({**rows, **parts, "fields": whats})
    fields["samples"] = [{"lines": one.lines, "gives": list(map(dict, one.gives))} for one in guess.format.samples]
    text = yaml.safe_dump({name: value for name, value in fields.items() if value}, sort_keys=False, width=116)
    return f"# Guessed: {guess.what}.\n# docs: kb/schema/format.md says what each field means.\n{text}"


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in WORD.findall(text))


def _rate_text(column: NumberColumn) -> list[str]:
    """Returns the unit and the name of a column, with `/` for `per`."""
    texts = (column.unit, column.name.rstrip(" )]").replace("(", " ").replace("[", " "))
    return [re.sub(r"[ _]per[ _]", "/", text).replace(" / ", "/").lower() for text in texts if text]


def _matches(pattern: re.Pattern[str], column: NumberColumn) -> re.Match[str] | None:
    return next((match for text in _rate_text(column) if (match := pattern.fullmatch(text))), None)


def _step_roles(template: Template, file: str) -> list[Role]:
    """Returns what the columns of lines of a training job are; none where they are not of one."""
    if SERVING_WORDS & _words(template.first):
        return []
    number = _find_step_number(template)
    roles: list[Role] = []
    if number is not None:
        roles.append(Role(number, "step", FormatField(step="number"), "the number of the step"))
        roles += _find_epoch(template, number)
    dates = _find_dates(template, number, file)
    if duration := _find_duration(template, dates, is_of_steps=number is not None):
        roles.append(duration)
        roles += _find_parts(template)
    columns = [(n, one) for n, one in enumerate(template.columns) if not one.is_bracketed]
    rates = [n for n, one in columns if not duration and _matches(STEP_RATE, one)]
    for rate in [n for n in rates if dates.fit([1.0 / max(one, LEAST_RATE) for one in template.numbers(n)])][:1]:
        roles.append(Role(rate, "rate", FormatField(step="rate"), "steps a second"))
    for samples in [n for n, one in columns if _matches(SAMPLE_RATE, one)][:1]:
        # An engine processes tokens as well, and has no steps.
        if roles or not _matches(TOKEN_RATE, template.columns[samples]) or "train" in template.columns[samples].name:
            what = FormatField(signal="step.sample_rate")
            roles.append(Role(samples, "samples", what, "what the job processes a second"))
    if number is not None and {role.what.step for role in roles} <= {"number", "epoch", "length"}:
        if not TRAINING_WORDS & _words(template.first):
            return []
        roles += [] if dates.times else _find_clock(template)
    is_timed = any(role.what.step not in ("number", "epoch", "length") for role in roles)
    return roles if number is None or dates.times or is_timed else []


def _find_step_number(template: Template) -> int | None:
    """Returns the column of whole numbers that grow and are called a step, or are a part of a total that stays."""
    best: tuple[int, float, int] | None = None
    for place, column in enumerate(template.columns):
        numbers = template.numbers(place)
        steps = list(pairwise(numbers))
        if column.unit and _matches(STEP_RATE, column):
            continue
        if any(one % 1 or one < 0 for one in numbers) or sum(b >= a for a, b in steps) < MIN_READ * len(steps):
            continue
        words = _words(column.name) - NEUTRAL
        follows = template.columns[place + 1] if place + 1 < len(template.columns) else None
        is_part = follows is not None and follows.is_total and len(set(template.numbers(place + 1))) == 1
        is_named = bool(words & STEP_WORDS) and not words & TIME_WORDS
        if numbers[-1] > numbers[0] and (is_named or (is_part and "epoch" not in words)):
            rank = int(is_named), numbers[-1] - numbers[0], -place
            best = max(best, rank) if best else rank
    return -best[2] if best else None


def _find_epoch(template: Template, number: int) -> Iterator[Role]:
    """Yields the columns of the epoch and of its steps, unless the number of the step goes on from epoch to epoch."""
    steps = template.numbers(number)
    for place, column in enumerate(template.columns):
        epochs = template.numbers(place)
        if _words(column.name) - NEUTRAL != {"epoch"} or column.is_total or any(one % 1 or one < 0 for one in epochs):
            continue
        pairs = list(zip(pairwise(epochs), pairwise(steps), strict=True))
        if any(b < a or (b > a and after > before) for (a, b), (before, after) in pairs):
            continue
        yield Role(place, "epoch", FormatField(step="epoch"), "the epoch")
        if number + 1 < len(template.columns) and template.columns[number + 1].is_total:
            yield Role(number + 1, "length", FormatField(step="length"), "the steps of an epoch")
        return


@dataclass(frozen=True, slots=True)
class _Dates:
    """The dates of the lines of a template, beside the number of the step at each."""

    times: Sequence[float]
    """Seconds since 1970; () where the lines have no dates."""
    steps: Sequence[float]

    def fit(self, seconds: Sequence[float]) -> bool:
        """Returns whether steps that took so long at each line take the time between the dates, or there are none."""
        # Dates of whole seconds say little of two lines in a row.
        apart = max(1, len(self.times) // 4)
        took = [0.0]
        for step, other, one in zip(self.steps, self.steps[1:], seconds[1:], strict=False):
            took.append(took[-1] + max(other - step, 0.0) * one)
        pairs = [(n, n + apart) for n in range(len(self.times) - apart)]
        ratios = [(self.times[b] - self.times[a]) / (took[b] - took[a]) for a, b in pairs if took[b] > took[a]]
        return not self.times or (bool(ratios) and 1 / MOST_OFF < median(ratios) < MOST_OFF)


def _find_dates(template: Template, number: int | None, file: str) -> _Dates:
    reader = LineTimes({}, file, 0.0)
    times = [reader.read(text) for text in template.lines]
    steps = template.numbers(number) if number is not None else list(map(float, range(len(times))))
    return _Dates(times if times[-1] > times[0] else (), steps)


def _find_duration(template: Template, dates: _Dates, *, is_of_steps: bool) -> Role | None:
    """Returns the column of the time of a step; what is only called a time needs a number of the step, or dates."""
    best: tuple[int, int, str] | None = None
    for place, column in enumerate(template.columns):
        score, unit = _duration_unit(column, template.numbers(place))
        if not score or column.is_bracketed:
            continue
        numbers = template.numbers(place)
        units = [unit] if unit else ["s", "ms"] if dates.times else _usual_unit(numbers)
        factors = {one: convert_unit(one, "s") or 0.0 for one in units}
        fitting = [one for one, factor in factors.items() if dates.fit([factor * each for each in numbers])]
        if fitting and (best is None or score > best[0]):
            best = score, place, fitting[0]
    if best is None or (best[0] < NAMED_AFTER_STEPS and not is_of_steps and not dates.times):
        return None
    _, place, unit = best
    is_said = bool(_duration_unit(template.columns[place], template.numbers(place))[1])
    proof = " (which their dates confirm)" if dates.times else "" if is_said else " (a unit that is assumed)"
    text = f"the time of a step in {unit}{proof}"
    return Role(place, "duration", FormatField(step="duration", unit="" if unit == "s" else unit), text)


def _duration_unit(column: NumberColumn, numbers: Sequence[float]) -> tuple[int, str]:
    """Returns how well a column is called the time of a step, 0 for not at all, and its unit, '' for none."""
    if min(numbers) < 0 or max(numbers) <= 0:
        return 0, ""
    if match := _matches(PER_STEP, column):
        return 3, SECONDS[match["unit"]]
    name, words = split_name(column.name), _words(column.name) - NEUTRAL
    unit = SECONDS.get(column.unit.lower(), name.unit if name.unit in ("s", "ms", "us") else "")
    if not unit and words and words <= frozenset(SECONDS):
        unit = SECONDS[min(words)]
    elif (column.unit and not unit) or words - STEP_WORDS - TIME_WORDS - frozenset(SECONDS) or not words & TIME_WORDS:
        return 0, ""
    if words & STEP_WORDS:
        return 2, unit
    return (0, "") if _is_clock(words, numbers) else (1, unit)


def _is_clock(words: frozenset[str], numbers: Sequence[float]) -> bool:
    """Returns whether numbers count from the begin of the job."""
    return bool(words & CLOCK_WORDS) and numbers[-1] > numbers[0] and all(b >= a for a, b in pairwise(numbers))


def _find_clock(template: Template) -> Iterator[Role]:
    """Yields the column of the seconds since the job began."""
    for place, column in enumerate(template.columns):
        words = _words(column.name) - NEUTRAL - frozenset(SECONDS)
        unit = SECONDS.get(column.unit.lower(), split_name(column.name).unit)
        if words and words <= CLOCK_WORDS and unit == "s" and _is_clock(words, template.numbers(place)):
            yield Role(place, "clock", FormatField(time="elapsed", shape="number"), "the seconds since the begin")
            return


def _usual_unit(numbers: Sequence[float]) -> list[str]:
    """Returns the unit of times that say none and have no dates beside them: programs count seconds with a fraction."""
    return ["s"] if any(one % 1 for one in numbers) else []


def _find_parts(template: Template) -> Iterator[Role]:
    """Yields the columns of parts of a step, which have a unit."""
    for signal, wanted in PARTS.items():
        for place, column in enumerate(template.columns):
            words = _words(column.name) - NEUTRAL - TIME_WORDS - frozenset(SECONDS)
            unit = SECONDS.get(column.unit.lower(), split_name(column.name).unit)
            if words and words <= wanted and convert_unit(unit, "s") and not column.is_bracketed:
                what = FormatField(signal=signal, unit="" if unit == "s" else unit)
                yield Role(place, signal.replace(".", "_"), what, catalogue().signals[signal].name.lower())
                break


def _serving_roles(template: Template) -> Iterator[Role]:
    """Yields the columns that are the load of an engine."""
    taken: set[str] = set()
    for place, column in enumerate(template.columns):
        name = split_name(f"{column.name} {column.unit}")
        signal = find_signal(name)
        if not signal.startswith("serve.") or signal in taken or column.is_bracketed:
            continue
        wanted = catalogue().signals[signal].unit
        is_share = wanted == "1" and not name.unit and max(template.numbers(place)) <= 1
        if is_share or (name.unit and convert_unit(name.unit, wanted)) or (not name.unit and wanted == "{request}"):
            taken.add(signal)
            unit = "" if name.unit in ("", PER_SECOND, wanted) else name.unit
            what = FormatField(signal=signal, unit=unit)
            yield Role(place, signal.replace(".", "_"), what, catalogue().signals[signal].name.lower())


def _make_guess(template: Template, roles: Sequence[Role], place: str) -> Guess | None:
    """Returns the format of a template, None where its pattern does not match its lines."""
    ordered = sorted(roles, key=lambda role: role.place)
    fields = {role.field: role.what for role in ordered}
    part, label = _find_member(template) if place == "server" else ("", "")
    fields |= {MEMBER_FIELD: FormatField(label=label)} if part else {}
    line = FormatLine(_pattern(template, ordered), fields, parts=(part,) if part else ())
    named = [f"{_shown_name(template.columns[role.place])} = {role.text}" for role in ordered]
    example = template.lines[0].strip()
    what = (
        f"no format is known for it; guessed from {template.count} lines such as `{_cut(example)}`: {', '.join(named)}"
    )
    made = _new_format(place, (line,))
    reader = LineReader(made, catalogue().signals)
    readings = [[one for found in reader.read(text) for one in found.readings] for text in template.lines]
    if sum(map(bool, readings)) < MIN_READ * len(readings):
        return None
    gives: list[Mapping[str, object]] = [{"signal": one.signal, "value": one.value} for one in readings[0]]
    sample = FormatSample(example, tuple(gives))
    return Guess(replace(made, samples=(sample,)), what)


def _find_member(template: Template) -> tuple[str, str]:
    """Returns the pattern and the label of the name of the engine that each line is of; '' where all are of one."""
    for match in MEMBER.finditer(template.lines[0]):
        begin = f"{match['word']}{match['sign']}"
        named = [
            one["name"] for text in template.lines for one in MEMBER.finditer(text) if one["word"] == match["word"]
        ]
        if len(named) == len(template.lines) and len(set(named)) > 1:
            return f"{begin.strip()}<{MEMBER_FIELD}>", MEMBERS[match["word"]]
    return "", ""


def _shown_name(column: NumberColumn) -> str:
    return column.name or column.unit or "the first number"


def _cut(text: str) -> str:
    bare = text.replace("`", "'")
    return bare if len(bare) <= MAX_SHOWN else f"{bare[:MAX_SHOWN]}..."


def _pattern(template: Template, roles: Sequence[Role]) -> str:
    parts = []
    end = 0
    for role in roles:
        column = template.columns[role.place]
        before = template.first[max(column.start, end) : column.number_start]
        if not before.strip():
            before = re.search(r"[^\s\w]{0,3}$", template.first[end : column.number_start])[0]  # type: ignore[index]
        follows = template.columns[role.place + 1] if role.place + 1 < len(template.columns) else None
        end = follows.number_start if follows and follows.is_total else column.end
        after = template.first[column.number_end : end]
        parts.append(f"{_escape(before)}<{role.field}>{_escape(after)}")
    return "...".join(parts)


def _escape(text: str) -> str:
    return re.sub(r"[<>{}]", lambda match: 2 * match[0], re.sub(r"\s+", " ", text))
