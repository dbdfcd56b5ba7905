"""Reads a pipeline at the port of one stage: how long it works, how it waits, and what it has not handed on."""

from dataclasses import dataclass, field, replace

import numpy as np

from skewscope.engine.model.arrays import F64, I64, Mask
from skewscope.engine.wire.bursts import BurstCutter, Bursts, GapThreshold
from skewscope.engine.wire.chunk import Chunk, PortSamples
from skewscope.engine.wire.member import MIN_OPEN, OPEN_TIMES, LastWords, emit_periods, tick_of
from skewscope.engine.wire.pauses import ANNOUNCEMENT_SHARE, MemberEvents, usual_packet
from skewscope.engine.wire.stages import INPUT, OUTPUT, StageHandovers, StageReader, TurnReader
from skewscope.engine.wire.ticks import quantiles
from skewscope.engine.wire.view import GroupView, members_of

QUEUED_SHARE = 0.05
"""Share of the usual silence that still separates bursts in a pipeline, where queued hand-overs follow closely."""
PACKET_MEMORY = 10.0
"""Half-life of the usual payload, s."""
CLOCK_STEP = 1e-6
"""Resolution of the time of a packet, s."""
SILENCE_TIMES = 2.0
"""Times the longest silence of late from which a silence is unusual."""
SILENCE_MEMORY = 60.0
"""Half-life of the longest silence of late, s."""
REPLY_SHARE = 0.1
"""Share of a wait for a receiver that an output may follow its reply by: the receiver alone was waited for."""


@dataclass
class StageDebt:
    """Whether a stage has an input that it has not handed on, while it has been silent for unusually long.

    Inputs are passed on in both directions: activations to the stage after, gradients to the stage before. A stage that
    stops leaves the last one where it is, while all others hand on what they have and wait. The last stage answers the
    one before it. Of the first it cannot be told: one without work looks the same as one that stopped.
    """

    stages: int
    own: int
    words: LastWords = field(default_factory=LastWords)
    """When this stage last sent anything to each other one, and when the last input came from each."""
    is_given: Mask = field(init=False)
    """[stage] whether it was ever sent inputs."""
    packet: float = 0.0
    """Usual payload of late, bytes."""
    last: float = np.nan
    """The stage's own last packet, s."""
    longest: float = 0.0
    """Longest silence of late, s."""

    def __post_init__(self) -> None:
        self.is_given = np.zeros(self.stages, bool)

    def note(self, chunk: Chunk, mine: I64, other: I64) -> None:
        """Takes in a chunk's packets with payload; `mine` are their rows, `other` [mine] the other stage of each."""
        length, time, tx = chunk.packets.length[mine].astype(float), chunk.packets.time[mine], chunk.tx[mine]
        keep = 0.5 ** (chunk.ticks * chunk.step / PACKET_MEMORY)
        self.packet = max(keep * self.packet, usual_packet(length))
        is_input = length >= ANNOUNCEMENT_SHARE * self.packet
        words = tx | is_input
        self.words.note(MemberEvents(time[words], tx[words], length[words]), other[words])
        self.is_given[other[tx & is_input]] = True

    def is_end(self) -> bool:
        """Returns whether the stage is the first or last of several, and gets its inputs back from its one neighbour.

        Gradients come back to the first stage, and the last answers activations with them; in a ring, the last stage
        hands on to the first.
        """
        last = self.stages - 1
        if self.own not in {0, last}:
            return False
        near, far = (1, last) if self.own == 0 else (last - 1, 0)
        heard = self.words.heard
        is_ring = near != far and (far in heard or self.is_given[far])
        return bool(near in heard and self.is_given[near] and not is_ring)

    def owes(self) -> bool:
        """Returns whether an input came after the last word to where it is to be handed on."""
        if self.own == 0:
            return False
        before, after = self.own - 1, (self.own + 1) % self.stages
        ways = ((before, after), (after, before)) if self.is_given[after] else ((before, before),)
        told, heard = self.words.told, self.words.heard
        return any(self.is_given[goes] and heard.get(comes, -np.inf) > told[goes] for comes, goes in ways)

    def open_since(self, chunk: Chunk, sent: F64, period: float) -> F64:
        """Returns [tick] s since the stage owes a hand-over; NaN where it does not, or is not silent for long.

        Args:
            chunk: the chunk, whose packets were noted.
            sent: times of the stage's own packets in it, ascending, s.
            period: usual time between hand-overs, s; NaN where unknown.
        """
        usual = max(OPEN_TIMES * period if period > 0 else 0.0, SILENCE_TIMES * self.longest, MIN_OPEN)
        ends = np.asarray(chunk.first + chunk.step * np.arange(1, chunk.ticks + 1), np.float64)
        self._learn_silence(chunk, sent, usual)
        if not self.owes():
            return np.full(chunk.ticks, np.nan)
        age = ends - self.last
        return np.where(age > usual, age, np.nan)

    def _learn_silence(self, chunk: Chunk, sent: F64, usual: float) -> None:
        """Notes the longest silence that ended in the chunk, as far as it was not unusual, and the last packet."""
        self.longest *= 0.5 ** (chunk.ticks * chunk.step / SILENCE_MEMORY)
        if len(sent):
            silences = np.diff(sent, prepend=sent[0] if np.isnan(self.last) else self.last)
            self.longest = max(self.longest, min(float(silences.max()), usual))
            self.last = float(sent[-1])


@dataclass
class PipelineReducer:
    """A group whose members send in turn."""

    group: GroupView
    cutter: BurstCutter = field(default_factory=lambda: BurstCutter(GapThreshold(usual_share=QUEUED_SHARE)))
    reader: StageReader = field(default_factory=StageReader)
    turns: TurnReader = field(default_factory=TurnReader)
    debt: StageDebt = field(init=False)
    words: F64 = field(default_factory=lambda: np.empty(0))
    """Times of the packets to where outputs go, of the last chunk with any, s."""
    replies: F64 = field(default_factory=lambda: np.empty(0))
    """Times of the small packets from there, likewise."""
    sent: float = 0.0

    def __post_init__(self) -> None:
        self.debt = StageDebt(len(self.group.nodes), self.group.own)

    def reduce(self, chunk: Chunk, data: Mask, out: PortSamples) -> None:
        """Adds the group's samples of a chunk to `out`; `data` [packet] marks first transmissions that carry data."""
        packets, stages = chunk.packets, len(self.group.nodes)
        other = members_of(self.group, np.where(chunk.tx, packets.dst, packets.src))
        before, after = (self.group.own - 1) % stages, (self.group.own + 1) % stages
        near = np.flatnonzero(data & ((other == before) | (other == after)))
        self.debt.note(chunk, near, other[near])
        is_end = self.debt.is_end()
        comes, goes = self._neighbours(before, after, is_end=is_end)
        is_input = data & chunk.rx & (other == comes)
        if is_end:
            is_input &= packets.length >= ANNOUNCEMENT_SHARE * self.debt.packet
        is_output = data & chunk.tx & (other == goes)
        mine = np.flatnonzero(is_input | is_output)
        bursts = self.cutter.cut(
            np.where(is_output[mine], OUTPUT, INPUT),
            packets.time[mine], packets.length[mine].astype(float), chunk.until, chunk.ticks * chunk.step,
        )  # fmt: skip
        steps = self.turns.read(bursts) if is_end else self.reader.read(bursts)
        is_reply = data & chunk.rx & (other == goes) & (packets.length < ANNOUNCEMENT_SHARE * self.debt.packet)
        steps = self._end_at_announcement(steps, packets.time[is_output], packets.time[is_reply])
        self._emit_steps(chunk, out, steps, is_end=is_end)
        self._emit_outputs(chunk, out, bursts.take(bursts.stream == OUTPUT))
        sent = packets.time[near[chunk.tx[near]]]
        out.put("wire.open_pause", self.debt.open_since(chunk, sent, self.reader.period), self.group.name)

    def _end_at_announcement(self, steps: StageHandovers, sent: F64, replies: F64) -> StageHandovers:
        """Returns the steps without the wait for a receiver that was not ready, where hand-overs are announced.

        The first packet after a stage could begin may announce that it is done. It does where its receiver replies, and
        the output follows at once; a stage may as well send something small before it begins to work.

        Args:
            steps: hand-overs of the chunk.
            sent: times of all packets of the chunk to where outputs go, s.
            replies: times of small packets from there, s.
        """
        words, answers = np.concatenate((self.words, sent)), np.concatenate((self.replies, replies))
        self.words, self.replies = sent if len(sent) else self.words, replies if len(replies) else self.replies
        ready = steps.time - steps.duration
        first = np.append(words, np.inf)[np.searchsorted(words, ready + CLOCK_STEP, side="right")]
        reply = np.append(-np.inf, answers)[np.searchsorted(answers, steps.time)]
        is_announced = (reply > first) & (steps.time - reply <= REPLY_SHARE * (steps.time - first))
        return replace(steps, duration=np.where(is_announced, first, steps.time) - ready)

    def _neighbours(self, before: int, after: int, *, is_end: bool) -> tuple[int, int]:
        """Returns (where inputs come from, where outputs go); an end of the pipeline has one neighbour for both."""
        if not is_end:
            return before, after
        return (after, after) if self.group.own == 0 else (before, before)

    def _emit_steps(self, chunk: Chunk, out: PortSamples, steps: StageHandovers, *, is_end: bool) -> None:
        """Emits how long the stage worked and waited; an end of the pipeline does other work than the rest."""
        name, at = self.group.name, tick_of(chunk, steps.time)
        worked = quantiles(at, steps.duration, (0.5,), chunk.ticks)[0]
        if is_end:
            out.put("wire.own_turn_time", worked, name)
            return
        out.put("wire.stage_time", worked, name)
        out.put("wire.stage_wait", quantiles(at, steps.wait, (0.5,), chunk.ticks)[0], name)
        known = ~np.isnan(steps.period)
        emit_periods(chunk, out, name, at[known], steps.period[known])

    def _emit_outputs(self, chunk: Chunk, out: PortSamples, sent: Bursts) -> None:
        name, begun = self.group.name, tick_of(chunk, sent.begin)
        out.put("wire.own_burst_bytes", quantiles(begun, sent.size, (0.5,), chunk.ticks)[0], name)
        out.put("wire.port_exchange_time", quantiles(begun, sent.end - sent.begin, (0.5,), chunk.ticks)[0], name)
        if len(sent) or self.sent:
            count = np.bincount(begun, minlength=chunk.ticks)
            out.put("wire.bursts", self.sent + np.cumsum(count), name)
        self.sent += len(sent)
