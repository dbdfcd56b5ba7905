"""Emits what a member's own packets tell of its group's rounds: its pauses, its waits, its pace."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, I64
from skewscope.engine.wire.chunk import Chunk, PortSamples
from skewscope.engine.wire.pauses import REPEAT_TOLERANCE, MemberEvents, MemberRounds, PauseReader, usual_packet
from skewscope.engine.wire.ticks import deviations, means, quantiles

OPEN_TIMES = 3.0
"""Usual periods after which a round that is still open is reported."""
SETTLED = 5.0
"""Seconds for which the same bytes repeat before rounds are reported: at a start, parts of rounds repeat as well."""
MANY_PACKETS = 8
"""Rounds of fewer packets may be parts of rounds."""
IRREGULAR = 20.0
"""Seconds without bytes that repeat after which rounds of any size are reported."""
UNREADABLE = 10.0
"""Seconds with packets but without rounds after which rounds count as unreadable."""
MIN_OPEN = 1.0
"""Seconds before which it is not."""


@dataclass
class LastWords:
    """When a member last sent to each other one, and each other one to it: numbers of members, and seconds.

    A member that stops inside a round sends nothing more, while what the others owe it still comes: they go on until
    each waits. One that waits for another has sent last to that one, its part or an announcement. In 28 recordings of
    PyTorch over gloo with a stopped rank (rings and exchanges of 2 to 8), this holds of the stopped rank alone in 27;
    in one, it stopped between the announcement of a message and the message. Where all others sent after its last
    word of all, it is sure; else one that waits for two others may look the same.
    """

    told: dict[int, float] = field(default_factory=dict)
    heard: dict[int, float] = field(default_factory=dict)

    def note(self, events: MemberEvents, other: I64) -> None:
        """Takes in packets in time order; `other` [packet] is the number of the member at the other end."""
        for times, rows in ((self.told, events.is_own), (self.heard, ~events.is_own)):
            newest = np.flatnonzero(rows)[::-1]
            members, first = np.unique(other[newest], return_index=True)
            times.update(zip(members.tolist(), events.time[newest[first]].tolist(), strict=True))

    def are_newest(self, recent: float) -> bool:
        """Returns whether all others that sent since `recent`, s, have done so after the member's own last word."""
        heard = _recent(self.heard, recent).values()
        return bool(heard) and min(heard) > max(self.told.values(), default=-np.inf)

    def are_unanswered(self, recent: float) -> bool:
        """Returns whether the member has sent to none of the others since their last words, as far as both send."""
        heard = _recent(self.heard, recent)
        return bool(heard) and self.go_both_ways(recent) and all(at > self.told[one] for one, at in heard.items())

    def go_both_ways(self, recent: float) -> bool:
        """Returns whether those to which the member sent since `recent`, s, are those that sent to it since."""
        return _recent(self.told, recent).keys() == _recent(self.heard, recent).keys()


def _recent(times: Mapping[int, float], since: float) -> dict[int, float]:
    return {member: time for member, time in times.items() if time >= since}


@dataclass
class MemberReducer:
    """Reads one member's rounds at its own port, over chunks."""

    name: str
    """The group's."""
    reader: PauseReader = field(default_factory=PauseReader)
    words: LastWords = field(default_factory=LastWords)
    now: tuple[bool, bool] = (False, True)
    """Whether the next step of the open round may be this member's own, and whether it may wait for others."""
    before: tuple[bool, bool] = (False, True)
    """The same at the end of the chunk before."""
    rounds: float = 0.0
    round_bytes: float = np.nan
    """Bytes of a round, as last known."""
    known_since: float = np.inf
    """When they became known, or unknown, s."""
    unread: float = 0.0
    """Seconds with packets since a round was found."""

    def reduce(self, chunk: Chunk, mine: I64, out: PortSamples, other: I64, announced: float = 0.0) -> None:
        """Adds the samples of a chunk.

        Args:
            chunk: all packets of the port.
            mine: rows of the group's packets.
            out: receives the samples.
            other: [mine] number of the member at the other end.
            announced: see `PauseReader.read`.
        """
        packets = chunk.packets
        events = MemberEvents(packets.time[mine], chunk.tx[mine], packets.length[mine].astype(float))
        rounds = self.reader.read(events, announced)
        self.words.note(events, other)
        self.before, self.now = self.now, self._judge_open_round()
        self._note_bytes(chunk.until)
        self._emit_readable(chunk, out, mine, len(rounds))
        if self._is_settled(chunk.until, usual_packet(events.size)):
            self._emit(chunk, out, rounds)

    def _judge_open_round(self) -> tuple[bool, bool]:
        """Returns whether the next step of the open round may be this member's own, and whether it may wait for others.

        Where others never answer a member, as data go one way in a ring, it also owes a step when it has sent all
        bytes of the round. Where they do answer, one that has sent them may still wait for what it is to receive.
        """
        still = self.reader.open_round()
        if still is None:
            return False, False
        recent = still.since - max(OPEN_TIMES * self.reader.period, MIN_OPEN)
        is_own = still.is_complete and not self.words.go_both_ways(recent)
        owes = is_own or self.words.are_newest(recent)
        return owes or self.words.are_unanswered(recent), not owes

    def _note_bytes(self, now: float) -> None:
        """Notes when the bytes of a round became others than before, or unknown."""
        size, before = self.reader.pattern.bytes, self.round_bytes
        same = abs(size - before) <= REPEAT_TOLERANCE * before or (np.isnan(size) and np.isnan(before))
        if not same or self.known_since > now:
            self.round_bytes, self.known_since = size, now

    def _is_settled(self, now: float, packet: float) -> bool:
        """Returns whether the bytes of a round, of so large packets, are known, or seem to vary, for long enough."""
        if np.isnan(self.round_bytes):
            return now - self.known_since >= IRREGULAR
        return self.round_bytes >= MANY_PACKETS * packet or now - self.known_since >= SETTLED

    def _emit(self, chunk: Chunk, out: PortSamples, rounds: MemberRounds) -> None:
        at = tick_of(chunk, rounds.begin)
        pause, high, longest = quantiles(at, rounds.pause, (0.5, 0.95, 1.0), chunk.ticks)
        if np.isnan(self.round_bytes):  # pauses of several lengths, of which now this one and now that is the median
            pause = means(at, rounds.pause, chunk.ticks)
        wait = quantiles(at, rounds.wait, (0.5,), chunk.ticks)[0]
        period = self._emit_rounds(chunk, out, rounds, at)
        ends = np.asarray(chunk.first + chunk.step * np.arange(1, chunk.ticks + 1), np.float64)
        open_pause, open_wait = np.full(chunk.ticks, np.nan), np.full(chunk.ticks, np.nan)
        for since, begin, (is_own, is_waiting), ticks in self._open_spans(ends, ends[0] - chunk.step, rounds):
            open_pause[ticks] = ends[ticks] - since if is_own else np.nan
            open_wait[ticks] = ends[ticks] - since if is_waiting else np.nan
            period[ticks] = ends[ticks] - begin
        out.put("wire.own_pause", pause, self.name)
        out.put("wire.own_pause_p95", high, self.name)
        out.put("wire.own_longest_pause", longest, self.name)
        out.put("wire.own_wait", wait, self.name)
        out.put("wire.open_pause", open_pause, self.name)
        out.put("wire.open_wait", open_wait, self.name)
        emit_period(out, self.name, period)

    def _emit_readable(self, chunk: Chunk, out: PortSamples, mine: I64, rounds: int) -> None:
        """Emits whether rounds can be read, for ticks with packets of the group."""
        busy = np.bincount(chunk.tick[mine], minlength=chunk.ticks) > 0
        self.unread = 0.0 if rounds else self.unread + float(busy.sum()) * chunk.step
        is_unread = float(self.unread >= UNREADABLE)
        out.put("wire.rounds_unreadable", np.where(busy, is_unread, np.nan), self.name)

    def _emit_rounds(self, chunk: Chunk, out: PortSamples, rounds: MemberRounds, at: I64) -> F64:
        """Emits counts, bytes and durations of rounds; returns [tick] their periods, s."""
        name, ticks = self.name, chunk.ticks
        count = np.bincount(at, minlength=ticks)
        if count.any() or self.rounds:
            out.put("wire.bursts", self.rounds + np.cumsum(count), name)
        self.rounds += float(count.sum())
        seen = ~np.isnan(rounds.period)
        at = at[seen]
        if not np.isnan(self.round_bytes):  # a round whose pause was not seen belongs to the one before
            sent = rounds.sent[seen]
            each = sent / np.maximum(np.round(sent / self.round_bytes), 1.0)
            out.put("wire.own_burst_bytes", quantiles(at, each, (0.5,), ticks)[0], name)
        out.put("wire.port_exchange_time", quantiles(at, rounds.exchange[seen], (0.5,), ticks)[0], name)
        period = rounds.period[seen]
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = deviations(at, period, ticks) / means(at, period, ticks)
        out.put("wire.port_round_period_cv", spread, name)
        return np.asarray(quantiles(at, period, (0.5,), ticks)[0])

    def _open_spans(
        self, ends: F64, first: float, rounds: MemberRounds
    ) -> list[tuple[float, float, tuple[bool, bool], I64]]:
        """Returns (begin of a silence, begin of its round, as `now`, ticks) of open rounds.

        These are the ticks, given by their `ends`, up to which a silence has lasted far longer than a round. Of one
        that began before `first`, the begin of the chunk, it is known whose it may be.
        """
        if not self.reader.period > 0:
            return []
        usual = max(OPEN_TIMES * self.reader.period, MIN_OPEN)
        begins, starts = rounds.begin, rounds.begin - rounds.pause
        spans = []
        for i in np.flatnonzero((rounds.pause > usual) & ~np.isnan(rounds.period)):
            whose = (True, False) if starts[i] >= first else self.before
            spans.append((float(starts[i]), float(begins[i] - rounds.period[i]), whose, float(begins[i])))
        still = self.reader.open_round()
        if still is not None:
            spans.append((still.since, still.begin, self.now, np.inf))
        return [
            (since, begin, whose, np.flatnonzero((ends - since > usual) & (ends < until)))
            for since, begin, whose, until in spans
        ]


def tick_of(chunk: Chunk, time: F64) -> I64:
    """Returns [time] ticks; a time before the chunk counts in its first tick."""
    return np.asarray(np.clip(np.floor((time - chunk.first) / chunk.step), 0, chunk.ticks - 1).astype(np.int64))


def emit_period(out: PortSamples, name: str, period: F64) -> None:
    """Adds [tick] periods, s, and the rates that follow from them."""
    out.put("wire.port_round_period", period, name)
    out.put("wire.port_round_rate", 1.0 / np.where(period > 0, period, np.nan), name)


def emit_periods(chunk: Chunk, out: PortSamples, name: str, at: I64, period: F64) -> None:
    """Adds the periods of rounds, s, as medians by tick, and how much they vary; `at` are the rounds' ticks."""
    emit_period(out, name, quantiles(at, period, (0.5,), chunk.ticks)[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        out.put("wire.port_round_period_cv", deviations(at, period, chunk.ticks) / means(at, period, chunk.ticks), name)
