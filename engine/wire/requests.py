"""Requests and response streams at a front end's port, from whose turn it is on each connection.

A request is what a client sends when it is its turn: after the connection began, or after a response. Its response
begins with the first byte the other way. Encrypted connections keep their turns; many requests multiplexed on one
connection (HTTP/2) do not, and show as fewer and longer ones.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.feed import F64
from skewscope.engine.wire.chunk import I64, Chunk, Mask, Samples
from skewscope.engine.wire.keys import KeyTable, grown, mixed
from skewscope.engine.wire.packets import ACK, FIN, RST, SYN, TCP
from skewscope.engine.wire.sequence import starts
from skewscope.engine.wire.ticks import deviations, means, quantiles

SAME_CHUNK = 0.5e-3
"""Seconds: bytes of a response closer than this came in one chunk; no engine streams 2,000 chunks a second to one."""
DONE = 2.0
"""Seconds of silence after which a response on a connection that stays open counts as ended."""
CLIENT, SERVER, CLOSE = 1, 2, 3
"""What a packet is in a conversation: the client's turn, the server's turn, the end. 0: nothing yet."""
UNKNOWN, SERVES, ASKS = 0, 1, 2
"""Which side of a connection this port's host is."""


@dataclass
class Conversations:
    """The state of each connection between chunks, by connection number."""

    turn: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    heard: F64 = field(default_factory=lambda: np.zeros(0))
    """Time of the last packet that counted."""
    side: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    began: F64 = field(default_factory=lambda: np.zeros(0))
    """When the current response began; NaN where none runs."""
    chunks: F64 = field(default_factory=lambda: np.zeros(0))

    def reserve(self, length: int) -> None:
        """Make room for so many connections."""
        self.turn, self.side = np.asarray(grown(self.turn, length, 0)), np.asarray(grown(self.side, length, 0))
        self.heard, self.began = (
            np.asarray(grown(self.heard, length, np.nan)),
            np.asarray(grown(self.began, length, np.nan)),
        )
        self.chunks = np.asarray(grown(self.chunks, length, 0))


@dataclass(frozen=True, slots=True)
class _Turns:
    """What counts in the conversations of a chunk, ordered by (connection, time)."""

    conn: I64
    time: F64
    tick: I64
    what: NDArray[np.int8]
    before: NDArray[np.int8]
    """What the connection's previous row was."""
    since: F64
    """Seconds since that row."""
    size: F64


@dataclass
class RequestReducer:
    """Reads the conversations of one north-south port, over chunks."""

    connections: KeyTable = field(default_factory=KeyTable)
    state: Conversations = field(default_factory=Conversations)
    totals: dict[str, float] = field(default_factory=lambda: {"requests": 0.0, "bytes": 0.0, "responses": 0.0})
    open: float = 0.0

    def reduce(self, chunk: Chunk, data: Mask, out: Samples, node: str) -> None:
        """Put the chunk's request signals of `node` into `out`."""
        if self.connections.full:
            self.connections, self.state, self.open = KeyTable(), Conversations(), 0.0
        turns = self._turns(chunk, data)
        if not len(self.connections):
            return
        opened = (turns.what == CLIENT) & (turns.before != CLIENT)
        replied = (turns.what == SERVER) & (turns.before == CLIENT)
        ended = (turns.before == SERVER) & (opened | (turns.what == CLOSE))
        dropped = (turns.before == CLIENT) & (turns.what == CLOSE)
        self._tell_delays(chunk, out, turns, replied, node)
        ends = self._tell_responses(chunk, out, turns, replied, ended, node)
        self._tell_counts(chunk, out, turns, (opened, ended, dropped, ends), node)

    def _turns(self, chunk: Chunk, data: Mask) -> _Turns:
        packets = chunk.packets
        closing = (packets.flags & (FIN | RST)) > 0
        rows = np.flatnonzero((packets.proto == TCP) & (data | closing | ((packets.flags & SYN) > 0)))
        p = packets.take(rows)
        tx = chunk.tx[rows]
        here, there = np.where(tx, p.src, p.dst), np.where(tx, p.dst, p.src)
        port, remote = np.where(tx, p.sport, p.dport), np.where(tx, p.dport, p.sport)
        conn = self.connections.numbers(mixed(here, there, port, remote))
        self.state.reserve(len(self.connections))
        self._learn_sides(conn, p.flags, tx, port, remote)
        mask = (self.state.side[conn] == SERVES) & (data[rows] | closing[rows])
        what = np.where(closing[rows] & ~data[rows], CLOSE, np.where(tx, SERVER, CLIENT)).astype(np.int8)
        return self._ordered(conn[mask], p.time[mask], chunk.tick[rows][mask], what[mask], p.length[mask].astype(float))

    def _learn_sides(self, conn: I64, flags: NDArray[np.uint8], tx: Mask, port: I64, remote: I64) -> None:
        """Who opened a connection asks; where the opening was not seen, the lower port serves."""
        new = self.state.side[conn] == UNKNOWN
        guess = np.where(port <= remote, SERVES, ASKS)
        opening = (flags & (SYN | ACK)) == SYN
        self.state.side[conn[new]] = guess[new]
        self.state.side[conn[opening & tx]] = ASKS
        self.state.side[conn[opening & ~tx]] = SERVES

    def _ordered(self, conn: I64, time: F64, tick: I64, what: NDArray[np.int8], size: F64) -> _Turns:
        order = np.argsort(conn, kind="stable")
        conn, time, tick, what, size = conn[order], time[order], tick[order], what[order], size[order]
        first = starts(conn)
        before, since = np.empty_like(what), np.empty_like(time)
        before[1:], since[1:] = what[:-1], time[1:] - time[:-1]
        before[first], since[first] = self.state.turn[conn[first]], time[first] - self.state.heard[conn[first]]
        return _Turns(conn, time, tick, what, before, since, size)

    def _tell_delays(self, chunk: Chunk, out: Samples, turns: _Turns, replied: Mask, node: str) -> None:
        median, p95 = quantiles(turns.tick[replied], turns.since[replied], (0.5, 0.95), chunk.ticks)
        out.put("wire.first_byte_delay", median, "", "node", node)
        out.put("wire.first_byte_delay_p95", p95, "", "node", node)
        gap = (turns.what == SERVER) & (turns.before == SERVER) & (turns.since >= SAME_CHUNK) & (turns.since < DONE)
        at, took = turns.tick[gap], turns.since[gap]
        median, p95 = quantiles(at, took, (0.5, 0.95), chunk.ticks)
        out.put("wire.stream_gap", median, "", "node", node)
        out.put("wire.stream_gap_p95", p95, "", "node", node)
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = deviations(at, took, chunk.ticks) / means(at, took, chunk.ticks)
        out.put("wire.stream_gap_cv", spread, "", "node", node)

    def _tell_responses(self, chunk: Chunk, out: Samples, turns: _Turns, replied: Mask, ended: Mask, node: str) -> I64:
        """Put what ended responses were like; give the ticks of those that ended by falling silent."""
        state = self.state
        fresh = (turns.what == SERVER) & ((turns.before == CLIENT) | (turns.since >= SAME_CHUNK))
        began = _carried(turns.conn, np.where(replied, turns.time, np.nan), state.began)
        count = _counted(turns.conn, fresh, replied, state.chunks)
        at = np.flatnonzero(ended)
        previous = turns.time[at] - turns.since[at]
        out.put(
            "wire.stream_duration",
            quantiles(turns.tick[at], previous - began[at], (0.5,), chunk.ticks)[0],
            "",
            "node",
            node,
        )
        out.put("wire.stream_chunks", quantiles(turns.tick[at], count[at], (0.5,), chunk.ticks)[0], "", "node", node)
        last = (
            np.flatnonzero(np.concatenate((turns.conn[1:] != turns.conn[:-1], [True]))) if len(turns.conn) else at[:0]
        )
        who = turns.conn[last]
        state.turn[who], state.heard[who] = turns.what[last], turns.time[last]
        state.began[who], state.chunks[who] = began[last], count[last]
        silent = np.flatnonzero((state.turn == SERVER) & (chunk.until - state.heard > DONE))
        when = np.floor((state.heard[silent] + DONE - chunk.first) / chunk.step).astype(np.int64)
        state.turn[silent] = CLOSE
        return np.clip(when, 0, chunk.ticks - 1)

    def _tell_counts(
        self, chunk: Chunk, out: Samples, turns: _Turns, events: tuple[Mask, Mask, Mask, I64], node: str
    ) -> None:
        opened, ended, dropped, silent = events
        ticks = chunk.ticks
        arrived = np.bincount(turns.tick[opened], minlength=ticks)
        client = turns.what == CLIENT
        taken = np.bincount(turns.tick[client], weights=turns.size[client], minlength=ticks)
        gone = np.bincount(turns.tick[ended], minlength=ticks) + np.bincount(silent, minlength=ticks)
        lost = np.bincount(turns.tick[dropped], minlength=ticks)
        for signal, key, by_tick in (
            ("wire.requests", "requests", arrived),
            ("wire.request_bytes", "bytes", taken),
            ("wire.responses", "responses", gone),
        ):
            out.put(signal, self.totals[key] + np.cumsum(by_tick), "", "node", node)
            self.totals[key] += float(by_tick.sum())
        running = self.open + np.cumsum(arrived - gone - lost)
        self.open = max(0.0, float(running[-1]))
        out.put("wire.open_streams", np.maximum(running, 0.0), "", "node", node)


def _carried(conn: I64, value: F64, held: F64) -> F64:
    """The latest value that is not NaN at or before each row of its connection, `held` before the first."""
    if not len(conn):
        return value
    first = starts(conn)
    value = np.where(first & np.isnan(value), held[conn], value)
    at = np.where(~np.isnan(value) | first, np.arange(len(value)), 0)
    return np.asarray(value[np.maximum.accumulate(at)])


def _counted(conn: I64, fresh: Mask, replied: Mask, held: F64) -> F64:
    """Chunks of the running response before each row, itself included; a reply starts the count again."""
    if not len(conn):
        return np.empty(0)
    total = np.cumsum(fresh).astype(float)
    first = starts(conn)
    start = np.where(replied, total - 1, np.where(first, total - fresh - held[conn], np.nan))
    at = np.maximum.accumulate(np.where(replied | first, np.arange(len(conn)), 0))
    return np.asarray(total - start[at])
