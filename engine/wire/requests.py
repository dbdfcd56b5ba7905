"""Derives requests and response streams at a front end's port from the turns of each connection.

A request is what a client sends when it is its turn: after the connection began, or after a response. Its response
begins with the first byte the other way. Encrypted connections keep their turns; many requests multiplexed on one
connection (HTTP/2) do not, and show as fewer and longer ones.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, I64, Mask
from skewscope.engine.wire.chunk import Chunk, PortSamples
from skewscope.engine.wire.keys import KeyTable, grow_array, hash_columns, stable_order
from skewscope.engine.wire.packets import ACK, FIN, RST, SYN, TCP
from skewscope.engine.wire.sequence import run_starts
from skewscope.engine.wire.ticks import deviations, means, quantiles

SAME_CHUNK = 0.5e-3
"""Seconds below which bytes of a response belong to one chunk: no engine streams 2,000 chunks/s to one client."""
RESPONSE_TIMEOUT = 2.0
"""Seconds of silence after which a response on a connection that stays open counts as ended."""
CLIENT, SERVER, CLOSE = 1, 2, 3
"""Role of a packet in a conversation: the client's turn, the server's turn, the end. 0: none yet."""
UNKNOWN_SIDE, SERVER_SIDE, CLIENT_SIDE = 0, 1, 2
"""The side of a connection that this port's host is on."""


@dataclass
class Conversations:
    """The state of each connection between chunks, by connection number."""

    turn: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    last_time: F64 = field(default_factory=lambda: np.zeros(0))
    """Time of the last packet that counted."""
    side: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    began: F64 = field(default_factory=lambda: np.zeros(0))
    """When the current response began; NaN where none runs."""
    chunks: F64 = field(default_factory=lambda: np.zeros(0))

    def reserve(self, length: int) -> None:
        """Extends the state to so many connections."""
        self.turn, self.side = (
            np.asarray(grow_array(self.turn, length, 0)),
            np.asarray(grow_array(self.side, length, 0)),
        )
        self.last_time, self.began = (
            np.asarray(grow_array(self.last_time, length, np.nan)),
            np.asarray(grow_array(self.began, length, np.nan)),
        )
        self.chunks = np.asarray(grow_array(self.chunks, length, 0))


@dataclass(frozen=True, slots=True)
class _Turns:
    """Packets that carry a turn in a chunk, ordered by (connection, time)."""

    conn: I64
    time: F64
    tick: I64
    role: NDArray[np.int8]
    previous_role: NDArray[np.int8]
    """[row] role of the connection's previous row."""
    since: F64
    """Seconds since that row."""
    size: F64


@dataclass
class RequestReducer:
    """Reads the conversations of one north-south port, over chunks."""

    connections: KeyTable = field(default_factory=KeyTable)
    state: Conversations = field(default_factory=Conversations)
    totals: dict[str, float] = field(default_factory=lambda: {"requests": 0.0, "bytes": 0.0, "responses": 0.0})
    open_streams: float = 0.0

    def reduce(self, chunk: Chunk, data: Mask, out: PortSamples, node: str) -> None:
        """Adds the chunk's request samples of `node` to `out`."""
        if self.connections.is_full:
            self.connections, self.state, self.open_streams = KeyTable(), Conversations(), 0.0
        turns = self._turns(chunk, data)
        if not len(self.connections):
            return
        opened = (turns.role == CLIENT) & (turns.previous_role != CLIENT)
        replied = (turns.role == SERVER) & (turns.previous_role == CLIENT)
        ended = (turns.previous_role == SERVER) & (opened | (turns.role == CLOSE))
        dropped = (turns.previous_role == CLIENT) & (turns.role == CLOSE)
        self._emit_delays(chunk, out, turns, replied, node)
        ends = self._emit_responses(chunk, out, turns, replied, ended, node)
        self._emit_counts(chunk, out, turns, (opened, ended, dropped, ends), node)

    def _turns(self, chunk: Chunk, data: Mask) -> _Turns:
        packets = chunk.packets
        closing = (packets.flags & (FIN | RST)) > 0
        rows = np.flatnonzero((packets.proto == TCP) & (data | closing | ((packets.flags & SYN) > 0)))
        p = packets.take(rows)
        tx = chunk.tx[rows]
        here, there = np.where(tx, p.src, p.dst), np.where(tx, p.dst, p.src)
        port, remote = np.where(tx, p.sport, p.dport), np.where(tx, p.dport, p.sport)
        conn = self.connections.numbers(hash_columns(here, there, port, remote))
        self.state.reserve(len(self.connections))
        self._learn_sides(conn, p.flags, tx, port, remote)
        mask = (self.state.side[conn] == SERVER_SIDE) & (data[rows] | closing[rows])
        what = np.where(closing[rows] & ~data[rows], CLOSE, np.where(tx, SERVER, CLIENT)).astype(np.int8)
        return self._order_turns(
            conn[mask], p.time[mask], chunk.tick[rows][mask], what[mask], p.length[mask].astype(float)
        )

    def _learn_sides(self, conn: I64, flags: NDArray[np.uint8], tx: Mask, port: I64, remote: I64) -> None:
        """Who opened a connection asks; where the opening was not seen, the lower port serves."""
        new = self.state.side[conn] == UNKNOWN_SIDE
        guess = np.where(port <= remote, SERVER_SIDE, CLIENT_SIDE)
        opening = (flags & (SYN | ACK)) == SYN
        self.state.side[conn[new]] = guess[new]
        self.state.side[conn[opening & tx]] = CLIENT_SIDE
        self.state.side[conn[opening & ~tx]] = SERVER_SIDE

    def _order_turns(self, conn: I64, time: F64, tick: I64, what: NDArray[np.int8], size: F64) -> _Turns:
        order = stable_order(conn)
        conn, time, tick, what, size = conn[order], time[order], tick[order], what[order], size[order]
        first = run_starts(conn)
        before, since = np.empty_like(what), np.empty_like(time)
        before[1:], since[1:] = what[:-1], time[1:] - time[:-1]
        before[first], since[first] = self.state.turn[conn[first]], time[first] - self.state.last_time[conn[first]]
        return _Turns(conn, time, tick, what, before, since, size)

    def _emit_delays(self, chunk: Chunk, out: PortSamples, turns: _Turns, replied: Mask, node: str) -> None:
        median, p95 = quantiles(turns.tick[replied], turns.since[replied], (0.5, 0.95), chunk.ticks)
        out.put("wire.first_byte_delay", median, "", "node", node)
        out.put("wire.first_byte_delay_p95", p95, "", "node", node)
        gap = (
            (turns.role == SERVER)
            & (turns.previous_role == SERVER)
            & (turns.since >= SAME_CHUNK)
            & (turns.since < RESPONSE_TIMEOUT)
        )
        at, took = turns.tick[gap], turns.since[gap]
        median, p95 = quantiles(at, took, (0.5, 0.95), chunk.ticks)
        out.put("wire.stream_gap", median, "", "node", node)
        out.put("wire.stream_gap_p95", p95, "", "node", node)
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = deviations(at, took, chunk.ticks) / means(at, took, chunk.ticks)
        out.put("wire.stream_gap_cv", spread, "", "node", node)

    def _emit_responses(
        self, chunk: Chunk, out: PortSamples, turns: _Turns, replied: Mask, ended: Mask, node: str
    ) -> I64:
        """Emits the statistics of ended responses; returns [response] the ticks of those that ended by a timeout."""
        state = self.state
        fresh = (turns.role == SERVER) & ((turns.previous_role == CLIENT) | (turns.since >= SAME_CHUNK))
        began = _carry_forward(turns.conn, np.where(replied, turns.time, np.nan), state.began)
        count = _count_chunks(turns.conn, fresh, replied, state.chunks)
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
        state.turn[who], state.last_time[who] = turns.role[last], turns.time[last]
        state.began[who], state.chunks[who] = began[last], count[last]
        silent = np.flatnonzero((state.turn == SERVER) & (chunk.until - state.last_time > RESPONSE_TIMEOUT))
        when = np.floor((state.last_time[silent] + RESPONSE_TIMEOUT - chunk.first) / chunk.step).astype(np.int64)
        state.turn[silent] = CLOSE
        return np.clip(when, 0, chunk.ticks - 1)

    def _emit_counts(
        self, chunk: Chunk, out: PortSamples, turns: _Turns, events: tuple[Mask, Mask, Mask, I64], node: str
    ) -> None:
        opened, ended, dropped, silent = events
        ticks = chunk.ticks
        arrived = np.bincount(turns.tick[opened], minlength=ticks)
        client = turns.role == CLIENT
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
        running = self.open_streams + np.cumsum(arrived - gone - lost)
        self.open_streams = max(0.0, float(running[-1]))
        out.put("wire.open_streams", np.maximum(running, 0.0), "", "node", node)


def _carry_forward(conn: I64, value: F64, held: F64) -> F64:
    """Returns [row] the latest value that is not NaN at or before it in its connection; `held` before the first."""
    if not len(conn):
        return value
    first = run_starts(conn)
    value = np.where(first & np.isnan(value), held[conn], value)
    at = np.where(~np.isnan(value) | first, np.arange(len(value)), 0)
    return np.asarray(value[np.maximum.accumulate(at)])


def _count_chunks(conn: I64, fresh: Mask, replied: Mask, held: F64) -> F64:
    """Returns [row] chunks of the current response so far, itself included; a reply restarts the count."""
    if not len(conn):
        return np.empty(0)
    total = np.cumsum(fresh).astype(float)
    first = run_starts(conn)
    start = np.where(replied, total - 1, np.where(first, total - fresh - held[conn], np.nan))
    at = np.maximum.accumulate(np.where(replied | first, np.arange(len(conn)), 0))
    return np.asarray(total - start[at])
