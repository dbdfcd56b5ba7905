"""The kinds of entries as frozen values. The schema of each kind (`schema/*.json`) describes its fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from skewscope.kb.site_files import SiteFiles


@dataclass(frozen=True, slots=True)
class Claim:
    """One number or statement from the literature, and how it was seen."""

    text: str
    source: str
    seen: str
    scale: str = ""


@dataclass(frozen=True, slots=True)
class Lookalike:
    """Another condition that looks the same, and the test that separates the two."""

    condition: str
    separate_by: str
    basis: str = "literature"


@dataclass(frozen=True, slots=True)
class Observability:
    """What can be seen of a condition in one deployment, and why."""

    deployment: str
    verdict: str
    reason: str
    basis: str
    needs: tuple[str, ...] = ()
    same_as: str = ""
    """The deployment that the reason, and whatever the file does not override, is taken from."""

    @property
    def short_reason(self) -> str:
        """Returns the reason, or a reference to the deployment that has the same one."""
        return f"Same as {self.same_as}." if self.same_as else self.reason


@dataclass(frozen=True, slots=True)
class CausalLink:
    """An edge of the causal graph, from this condition."""

    condition: str
    why: str
    basis: str = "judgement"
    siblings: bool = False
    """Whether it reaches the other replicas of a pool as well."""


@dataclass(frozen=True, slots=True)
class MissingRuleReason:
    """Why no rule recognises a condition."""

    status: str
    """not yet, or never."""
    reason: str


@dataclass(frozen=True, slots=True)
class SignatureItem:
    """How a condition shows in one signal at the place of the condition."""

    signal: str
    direction: str
    """up, down, stops, begins, uneven or silent."""
    against: str
    """What it is compared with: past, peers, siblings or nominal."""
    shows: str
    """How often: always, usually or sometimes."""
    basis: str = ""
    """'' where it is the condition's `signature_basis`."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What goes wrong."""

    id: str
    name: str
    aliases: tuple[str, ...]
    group: str
    scope: tuple[str, ...]
    phases: tuple[str, ...]
    parallelism: tuple[str, ...]
    kind: str
    what: str
    why: tuple[str, ...]
    signature: tuple[SignatureItem, ...]
    """The signals in which it shows, and how."""
    causes: tuple[CausalLink, ...]
    effects: tuple[CausalLink, ...]
    impacts: tuple[Claim, ...]
    lookalikes: tuple[Lookalike, ...]
    mitigations: tuple[str, ...]
    observability: tuple[Observability, ...]
    grade: str
    maturity: str
    notes: tuple[str, ...] = ()
    withdrawn: str = ""
    without_rule: "MissingRuleReason | None" = None
    file: str = ""
    paper_row: str = ""
    """unverified: named after a row of khan2025dpu, to be checked against the PDF; additional: not in that paper."""
    paper_note: str = ""
    lookalikes_outside: tuple[Lookalike, ...] = ()
    """Look-alikes without an entry in the catalogue."""
    signature_basis: str = ""
    prevalence: str = ""
    """How often it occurs among the conditions: common, occasional or rare."""
    prevalence_basis: str = ""
    sentence: str = ""
    """What goes wrong at a place, with `{where}` and perhaps `{group}` in it; '' for none."""

    @property
    def signature_signals(self) -> tuple[str, ...]:
        """Returns the ids of the signals of the signature, each once."""
        return tuple(dict.fromkeys(item.signal for item in self.signature))

    def visibility(self, deployment: str) -> str:
        """Returns the verdict of a deployment: visible, partial, relayed or not_visible; '' where none is given."""
        return next((o.verdict for o in self.observability if o.deployment == deployment), "")


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a signal is judged by itself: what is bad about it, and what it is compared with."""

    role: str
    """What it measures: time-per-work, wait, latency, progress, throughput, capacity, errors, loss, ..."""
    bad: str
    """up, down, both, stops, begins or none. A counter is judged by its rate."""
    basis: str
    against: tuple[str, ...] = ()
    """What it is compared with: past, peers, siblings (parallel links) or nominal."""
    least: float = 0.0
    """Least relative change that matters: 0.1 is 1.1 times as much, or as little as 1/1.1."""
    floor: float = 0.0
    """Least absolute change that matters, in the signal's unit (of a counter: per second); 0 where any does."""
    nominal: float | None = None
    """The good value, or the limit of the good ones; of a bitmask, the sum of the bits that are set in health."""
    given: str = ""
    """Id of the signal that must show load in the same comparison for it to count; '' where it always counts."""
    least_load: float = 0.0
    """Share of that from which on it no longer depends on the load; 0 where it always does."""
    part_of: str = ""
    """Id of the signal of which it is a part, at the same place or in its group; '' where it stands alone."""
    least_part: float = 0.0
    """Least part of that which matters."""
    share_of: str = ""
    """Id of the signal of which it is a share, at the same place; '' where it has no limit of that kind."""
    most_share: float = 0.0
    """Share of that beyond which it is bad, whatever its past; of what is bad when low, below which it is."""
    reciprocal_of: str = ""
    """Id of the signal that rises where this one falls; '' where there is none."""
    symptom: str = ""
    """Id of the symptom that a bad deviation shows; '' where nothing is bad."""
    severity: str = ""
    """Severity of that symptom here, where it is worse than the symptom's own: critical of a fatal event; else ''."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What can be measured, and its real name in each exporter."""

    id: str
    name: str
    unit: str
    """UCUM-like: s, By, 1, 1/s, {packet}/s, Cel, W, ..."""
    type: str
    """counter, gauge, histogram, state, bitmask, info or event."""
    entity: str
    vantage: tuple[str, ...]
    dpu_access: str
    sources: Mapping[str, tuple[str, ...]]
    scale: Mapping[str, float] = field(default_factory=dict)
    """By exporter: the factor that converts the raw value to `unit`."""
    width_bits: int = 64
    fold: str = "max"
    """How several series of one entity are combined: sum, max, min or mean."""
    note: str = ""
    file: str = ""
    saturates: bool = False
    """A counter that stops at its end instead of wrapping."""
    min_period: float | None = None
    """Seconds; reading it more often returns the same value."""
    window: float | None = None
    """Seconds that each sample covers, where the source says so."""
    range: tuple[float, float] | None = None
    bits: Mapping[str, int] = field(default_factory=dict)
    """Of a bitmask: value by name."""
    unverified: tuple[str, ...] = ()
    """Exporters whose names for it were not confirmed."""
    unused: str = ""
    """Why no condition needs it."""
    judged: Judgement | None = None

    @property
    def metric(self) -> str:
        """Returns the canonical metric name."""
        return "skewscope_" + self.id.replace(".", "_")

    @property
    def is_printed_time(self) -> bool:
        """Returns whether it is the duration of a step, or of a part, that a job prints: each sample is one step."""
        is_time = self.judged is not None and self.judged.role in ("time-per-work", "wait") and self.unit == "s"
        # What is measured on the wire has a sample each second.
        return is_time and set(self.vantage) == {"host"}


@dataclass(frozen=True, slots=True)
class DpuCapability:
    """Which part of a mitigation a DPU in the node could carry out."""

    can: str
    """itself, part or no."""
    how: str


@dataclass(frozen=True, slots=True)
class TargetChange:
    """A change at a router, scheduler or switch."""

    kind: str
    """deweight, limit, mark, mirror, drain, requeue, block or evict."""
    of: str
    """replica, node or port."""


@dataclass(frozen=True, slots=True)
class StartValue:
    """A value to begin with for a placeholder that is the operator's: one of the tool's documentation, or computed."""

    placeholder: str
    why: str
    value: str = ""
    """The value; '' where it is computed..."""
    before: str = ""
    """...as the level from which an incident's impact began, where it is in this unit..."""
    per: str = ""
    """...for each `replica` of the pool, or once."""


@dataclass(frozen=True, slots=True)
class MitigationCommand:
    """A command line, or a setting, that carries out a step of a mitigation. `{name}` is a placeholder."""

    where: str
    """Where it is run or written: login, node, dpu, switch, job, engine or router; once filled in, in words."""
    tool: str
    """A key of COMMAND_TOOLS, which says in what form `do` and `undo` are written."""
    do: str
    version: str
    """Tool and version in which it was seen to exist; older ones may lack it."""
    basis: str
    undo: str = ""
    undo_by_hand: str = ""
    """How it is taken back where no command does, or why it cannot be."""
    check: str = ""
    """A command line that only reads, to see whether it took effect."""
    former: str = ""
    """A command line that prints the value that `undo` needs, before the change; '' where `check` does."""
    needs: str = ""
    """What it needs to work: rights, hardware, a restart."""
    reads: bool = False
    """Whether it changes nothing."""
    prepares: bool = False
    """Whether it helps with the next fault only, and mends nothing now."""
    errors: tuple[int, ...] = ()
    """Driver errors of a GPU (Xids) that it is for; () for any."""
    start: tuple[StartValue, ...] = ()
    """Values to begin with."""


@dataclass(frozen=True, slots=True)
class Mitigation:
    """What to do about a condition."""

    id: str
    name: str
    what: str
    actor: str
    """What carries it out: dpu, fabric, router, scheduler, host or operator."""
    dpu: "DpuCapability"
    effect: str
    claims: tuple[Claim, ...]
    cost: str
    risk: str
    """low, medium or high."""
    undo: str
    verify: str
    basis: str
    changes: tuple["TargetChange", ...] = ()
    """Changes at a target that carry it out, the mildest first; empty where it is done by hand."""
    commands: tuple["MitigationCommand", ...] = ()
    """What to type, in order."""
    no_command: str = ""
    """Why there is nothing to type."""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """One citable work, with how it was seen."""

    id: str
    title: str
    authors: str
    year: int
    kind: str
    seen: str
    locator: str
    """arXiv id, DOI, URL or repository issue."""
    venue: str = ""
    note: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A result of the literature that concerns more than one condition."""

    id: str
    name: str
    kind: str
    """negative, positive, separation, threshold, system or gap."""
    text: str
    basis: str
    value: str = ""
    """Of a threshold, as published."""
    consequence: str = ""
    sources: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    seen: str = ""
    """How the least closely read of its sources was seen."""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Symptom:
    """What is abnormal, before its cause is known."""

    id: str
    name: str
    what: str
    severity: str
    """info or warning."""
    title: str
    """Template of the sentence that is reported; fields: entity, signal, ratio, before, after, unit,
    since, and compared, which says what the healthy value is."""
    roles: tuple[str, ...]
    """Roles of the signals that can show it."""
    basis: str
    instead: Mapping[str, str] = field(default_factory=dict)
    """By pattern of the finding (past, peers, moving, zero, less, repeats, start): id of the symptom told instead."""
    file: str = ""


@dataclass(frozen=True, slots=True)
class FormatField:
    """What a field of a line is: a number of a signal, a label, a part of a step or of a request, or a time."""

    signal: str = ""
    """Id of the signal that it measures."""
    unit: str = ""
    """Unit of the number, where it is not the signal's."""
    unit_of: str = ""
    """The field whose unit it names."""
    label: str = ""
    """Label of the series of this line, and of those that follow where the line `holds`."""
    step: str = ""
    """A part of a step of a training job; `line_reading.STEP_PARTS` has all."""
    request: str = ""
    """A part of a request to a server; `line_reading.REQUEST_PARTS` has all."""
    time: str = ""
    """date (any date with a time), epoch (seconds since 1970), epoch-ms, or elapsed (seconds since the first)."""
    shape: str = ""
    """number, word, text, hex or pci; '' for a number where it is measured, else a word."""
    words: Mapping[str, float | str] = field(default_factory=dict)
    """Numbers, labels or units by the word that stands for them."""
    only: str = ""
    """The text with which alone the line counts, where it has the field; `<name>` for that of another field."""
    above: str = ""
    """The field whose number its own must exceed, or the line does not count."""
    complement: float = 0.0
    """What the number is taken from: 100 where what is idle says how much is busy; 0 for none."""
    suffixes: Mapping[str, float] = field(default_factory=dict)
    """Of a quantity: the factor of each unit that may stand behind the number, in the unit of the signal."""
    highest: bool = False
    """Whether of several numbers of one reading the highest counts."""
    adds: bool = False
    """Whether several fields of one reading add up, as the bits of a mask do."""
    counts: bool = False
    """Whether the numbers of all lines add up: what happened since the file began."""
    rates: bool = False
    """Whether the number is a mean for each second since the line before, of a signal that counts."""
    of: tuple[str, ...] = ()
    """Fields of whose sum the number is a share."""
    less: str = ""
    """The field whose number is taken off its own; '' for none."""

    @property
    def is_measured(self) -> bool:
        """Whether it is a number: of a signal, a step or a request."""
        return bool(self.signal or self.step or self.request)


@dataclass(frozen=True, slots=True)
class FormatLine:
    """One kind of line."""

    pattern: str = ""
    """'' for the rows of a table."""
    fields: Mapping[str, FormatField] = field(default_factory=dict)
    table: tuple[str, ...] = ()
    """Names that the header of a table has; () for other lines."""
    unless: tuple[str, ...] = ()
    """Texts with which the line, or the header, is another one."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The column of each field of a table; '' for the time of day before each row."""
    parts: tuple[str, ...] = ()
    """Patterns that the line may have anywhere, in any order."""
    evaluation: str = ""
    """during or end: the line is of an evaluation, and no step."""
    arrival: bool = False
    """Whether the line's time is that at which its request arrived, and not the one at which it ended."""
    each: bool = False
    """Whether it counts once for each place where the pattern stands in it."""
    fallback: bool = False
    """Whether the line counts only as long as no other one of the format has come."""
    whole: bool = False
    """Whether the pattern stands for the whole line."""
    holds: bool = False
    """Whether its labels and its time hold for the lines that follow, until the same ones come again."""
    section: str = ""
    """Name of the section that the line begins."""
    within: str = ""
    """Name of the section in which alone the line counts."""


@dataclass(frozen=True, slots=True)
class FormatSample:
    """Lines of a file of the format, and the numbers and labels that they must give."""

    lines: str
    gives: tuple[Mapping[str, Any], ...] = ()
    """For each number: `signal` (or `step` and its part), `value`, and `labels` that it must have."""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of text that a tool writes, and what its lines mean."""

    id: str
    name: str
    what: str
    tool: str
    versions: str
    place: str
    """What a file is of, where no line says it: node, server, job or none."""
    lines: tuple[FormatLine, ...]
    samples: tuple[FormatSample, ...]
    basis: str
    others: tuple[str, ...] = ()
    """Lines that look like it and are not."""
    command: str = ""
    """The command that writes such a file."""
    kind: str = ""
    """Kind of inputs of a recording that several formats share; '' for `text`."""
    exporter: str = ""
    """The exporter that delivers the same signals live."""
    document: bool = False
    """Whether the text is JSON, YAML or XML, whose values are the lines."""
    interval: float = 0.0
    """Seconds between readings that have no time, where nothing else says it; 0 where each reading has one."""
    records: tuple[str, ...] = ()
    """Of a document: lines that are put together from several values of one object."""
    file: str = ""


OTHER_AREA = "other."
"""Begin of the ids of signals for numbers of which only the words of their names are known."""
EVENT_PREFIX = "event."
"""Begin of the id of a signal that counts an event."""


@dataclass(frozen=True, slots=True)
class EventSign:
    """A condition that an event is a sign of."""

    condition: str
    shows: str
    """always, usually or sometimes: how often the event is reported where the condition is present."""


@dataclass(frozen=True, slots=True)
class EventCodes:
    """Codes of an event that mean the same."""

    severity: str
    first: str
    names: Mapping[str, str]
    """What each code means, by its words."""
    signs: tuple[EventSign, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """A message of a kernel, an engine, a library or a scheduler."""

    id: str
    name: str
    what: str
    entity: str
    """What it is about: gpu, port, node, engine, rank, group."""
    severity: str
    """As its maker states it: info, warning, error or fatal."""
    patterns: tuple[str, ...]
    first: str
    """What to do first."""
    basis: str
    samples: tuple[str, ...]
    others: tuple[str, ...] = ()
    fields: Mapping[str, FormatField] = field(default_factory=dict)
    signs: tuple[EventSign, ...] = ()
    place: str = "node"
    symptom: str = ""
    """Id of the symptom that it shows, whose title is the message; '' for that of every message."""
    code: tuple[str, ...] = ()
    """Fields whose words are looked up in `codes`."""
    called: str = ""
    """What its makers call such a code."""
    codes: tuple[EventCodes, ...] = ()
    unlisted: str = "reported"
    """Whether a message with another code is the event itself: reported or ignored."""
    unless: tuple[str, ...] = ()
    """Messages of the same place which say that it means nothing..."""
    despite: tuple[str, ...] = ()
    """...and messages which say that those do not count."""
    least: int = 1
    """Moments with a message of one wording in a file of which fewer are only counted."""
    general: bool = False
    """Whether it counts only in lines that are no other event."""
    metrics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By exporter: the metrics that say it, which are above 0 while it is so."""
    by_code: Mapping[str, "Event"] = field(default_factory=dict)
    """The event of each code."""
    file: str = ""

    @property
    def is_reported(self) -> bool:
        """Whether it is something by itself, and not only counted."""
        return self.severity != "info"

    @property
    def variants(self) -> tuple["Event", ...]:
        """The event itself, where other codes are reported, and those of its codes."""
        return (*(() if self.codes and self.unlisted == "ignored" else (self,)), *self.by_code.values())

    @property
    def conditions(self) -> tuple[str, ...]:
        """Ids of the conditions that it, or one of its codes, is a sign of, sorted."""
        return tuple(sorted({sign.condition for variant in self.variants for sign in variant.signs}))

    @property
    def signal(self) -> str:
        """Id of the signal that counts it."""
        return EVENT_PREFIX + self.id.replace("-", "_")


@dataclass(frozen=True)
class Catalogue:
    """All entries by kind and id, each kind in the order of ids."""

    conditions: Mapping[str, Condition]
    signals: Mapping[str, Signal]
    mitigations: Mapping[str, Mitigation]
    sources: Mapping[str, Source]
    findings: Mapping[str, Lesson] = field(default_factory=dict)
    symptoms: Mapping[str, Symptom] = field(default_factory=dict)
    formats: Mapping[str, Format] = field(default_factory=dict)
    events: Mapping[str, Event] = field(default_factory=dict)
    version: str = ""
    """Three numbers; with the knowledge of a site, also its fingerprint, as in `1.2.3+site.0f1e2d3c`."""
    site: SiteFiles | None = None
    """The files of a site whose entries are among these; its rules, policies and mapping count with them."""

    @cached_property
    def by_metric(self) -> dict[str, Signal]:
        """Returns the signals by canonical metric name."""
        return {signal.metric: signal for signal in self.signals.values()}
