"""Finds the rounds of a member in its own packets, and its pause before each, whatever the collective's algorithm.

In a ring, a tree or recursive halving each step waits for a neighbour's, so that most silences before a member's
packets were ended by a packet that it needed. The one before it begins a round is its own: it computed. Three marks
tell it from a wait. No packet came just before its end. Or the member has sent all bytes of a round since the last
one: collectives of a job repeat, and so do their bytes. And it lies between packets of different messages, not between
two that a slow link sets apart. Announcements of a rendezvous count as packets too: a member that begins a round
announces itself at once, also where it cannot send yet.

A pause begins at the first silence after the member's last packet and ends with its next one: what arrives meanwhile,
from members that began earlier, does not end it.
"""

from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, I64, Mask, median, sort_unique

ANNOUNCEMENT_SHARE = 1 / 8
"""A packet of this share of the usual payload, or less, may announce data or its receiver."""
UNPROVOKED_SHARE = 0.25
"""A silence is a member's own if this share of it passed after the last packet that came."""
LINK_TIMES = 3.0
"""A silence between two packets, up to this many times what the link takes for the first of them, is the link's."""
WHOLE_SHARE = 0.95
"""Share of a round's usual bytes from which the round is complete."""
REPEAT_TOLERANCE = 0.03
"""Share of a round's bytes by which repeated rounds may differ."""
REPEATING_SHARE = 0.6
"""Share of the stretches between pauses that have to be multiples of one number of bytes, if that is to be a round."""
KEPT_SHARE = 0.3
"""The same share for a number that is known: chance alone reaches a tenth."""
GROWTH = 1.5
"""A number this much larger that repeats as well replaces the known one, which was part of a round."""
FIT_MARGIN = 0.1
"""Of the numbers that fit nearly as many stretches as the best, the largest is taken."""
MAX_MULTIPLE = 16
"""Rounds that one stretch may hold."""
REMEMBERED_PAUSES = 128
"""Pauses remembered of each octave of length, the newest."""
FORGET = 0.9
"""Weight of the time paused so far against that of the next chunk."""
REMEMBERED_STRETCHES = 64
MIN_STRETCHES = 6
"""Fewer tell nothing of what repeats."""
OUTWEIGHED_SHARE = 0.5
"""A pause is no part of the pattern once shorter ones lasted this share of it in sum."""
UNDECIDED = 0.0
"""In place of bytes that repeat."""
COMPARABLE_SHARE = 1 / 16
"""Pauses shorter than this share of those that begin rounds may be between packets, however much they sum up to."""
LONG_SHARE = 0.5
"""A pause is long from this share of the usual one before a round on."""
QUIET_SHARE = 0.5
"""Share of a long pause from which a silence after a member's last packet begins one."""
FIRST_OCTAVE, OCTAVES = -27, 40
"""Octaves of seconds: from 7.5 ns to 2.3 hours."""
USUAL_MEMORY = 0.3
"""Weight of the newest pauses in the usual pause."""


@dataclass(frozen=True, slots=True)
class MemberEvents:
    """Packets with payload between a member and its group, at the member's port, in time order."""

    time: F64
    is_own: Mask
    """[packet] whether the member sent it."""
    size: F64
    """Bytes of payload."""

    def take(self, rows: slice) -> "MemberEvents":
        """Returns a part of the packets."""
        return MemberEvents(self.time[rows], self.is_own[rows], self.size[rows])


@dataclass(frozen=True, slots=True)
class MemberRounds:
    """Rounds that a member began, in time order, each with the pause before it and what the round before it took."""

    begin: F64
    """When the member's first packet was sent, s."""
    pause: F64
    """Seconds of its own silence before."""
    period: F64
    """Seconds since the begin of the round before; NaN for the first."""
    sent: F64
    """Bytes sent in the round before; NaN where it was not seen whole."""
    wait: F64
    """Seconds of silence in the round before that others ended."""
    exchange: F64
    """Seconds from begin to last packet sent of the round before."""

    def __len__(self) -> int:
        return len(self.begin)


@dataclass(frozen=True, slots=True)
class OpenRound:
    """What a member does at the end of the packets."""

    since: float
    """Its last packet, s."""
    begin: float
    """Begin of the open round, s."""
    is_complete: bool
    """Whether it has sent all bytes of the round, so that the next step is its own."""


@dataclass(frozen=True, slots=True)
class _Silences:
    """Silences between a member's own packets, longer than the threshold, in time order."""

    end: F64
    """The member's packet that ends it."""
    before: F64
    """The member's packet before it."""
    quiet: F64
    """Where all packets ceased, at or after `before`."""
    heard: F64
    """The last packet that came, at least `quiet`."""
    ready: F64
    """When the member had all that it needed, at least `quiet`."""
    is_own: Mask
    """[silence] whether nothing that came may have ended it."""
    sent: F64
    """Bytes that the member had sent in all before its packet at `end`."""

    def __len__(self) -> int:
        return len(self.end)


@dataclass
class RoundPattern:
    """How long the pause between rounds is, and how many bytes a round has: those that repeat together.

    Between idle spells a member sends any number of bytes, and between hiccups within a round, too; between the
    pauses that begin rounds it sends the same number, or a multiple where a pause was not seen.
    """

    pauses: F64 = field(default_factory=lambda: np.empty(0))
    """The last of the member's pauses of every length, in time order, s."""
    sent: F64 = field(default_factory=lambda: np.empty(0))
    """Bytes sent before each."""
    paused: F64 = field(default_factory=lambda: np.zeros(OCTAVES))
    """Seconds paused of late, by octave of length."""
    limit: float = np.inf
    """Seconds from which a pause is long."""
    bytes: float = np.nan
    """Bytes of a round; NaN while none are known to repeat."""
    least: float = 0.0
    """Bytes that a round has at least."""

    def learn(self, pauses: F64, sent: F64, least: float = 0.0) -> float:
        """Adds a chunk's pauses, in time order, and returns the length from which one is long, s.

        `least` are the bytes of the smallest packet that carries data: what repeats and is smaller is no round.
        """
        self.least = least
        if self.bytes < least:
            self.bytes = np.nan
        kept = pauses > 0
        octave = _octaves(pauses[kept])
        self.paused = FORGET * self.paused + np.bincount(octave, weights=pauses[kept], minlength=OCTAVES)
        self._remember(pauses[kept], sent[kept])
        if not len(self.pauses):
            return self.limit
        limits = np.asarray(2.0 ** (FIRST_OCTAVE + sort_unique(_octaves(self.pauses))[::-1]), np.float64)
        repeats = self._find_repeat(limits)
        if repeats == UNDECIDED:
            self.bytes = np.nan
        elif not self._is_known(limits) or repeats > GROWTH * self.bytes or self._holds_several(repeats, limits):
            self.bytes = repeats
        self.limit = LONG_SHARE * self._usual_length(limits)
        return self.limit

    def _remember(self, pauses: F64, sent: F64) -> None:
        """Adds pauses to those remembered."""
        pauses, sent = np.concatenate((self.pauses, pauses)), np.concatenate((self.sent, sent))
        octave = _octaves(pauses)[::-1]
        order = np.argsort(octave, kind="stable")
        count = np.bincount(octave, minlength=OCTAVES)
        place = np.arange(len(octave)) - np.repeat(np.cumsum(count) - count, count)
        keep = np.zeros(len(octave), bool)
        keep[order[place < REMEMBERED_PAUSES]] = True
        self.pauses, self.sent = pauses[keep[::-1]], sent[keep[::-1]]

    def _find_repeat(self, limits: F64) -> float:
        """Returns the bytes that repeat between the longest pauses between which any do; NaN if none are known to.

        While longer ones that outweigh all shorter ones are too few to tell, it is undecided: what repeats between
        shorter ones may be packets. Longer pauses that shorter ones outweigh, and that come after many rounds, begin
        none: garbage is collected, or a checkpoint saved.
        """
        best, weight, shortest = np.nan, 0.0, 0.0
        for limit in limits.tolist():
            stretches = self._stretches(limit)
            if len(stretches) >= MIN_STRETCHES:
                size, paused = _repeated(stretches, self.bytes, self.least), self._paused_per_byte(limit)
                is_rare = best > MAX_MULTIPLE * size and paused > (1 + OUTWEIGHED_SHARE) * weight
                if (np.isnan(best) and not np.isnan(size)) or (is_rare and limit >= shortest):
                    best, weight, shortest = size, paused, COMPARABLE_SHARE * limit
                elif size == best:
                    weight = paused
            elif np.isnan(best) and self._is_recent(limit) and not self._are_rare(stretches, limit):
                return UNDECIDED if len(stretches) > 1 else np.nan
        return best

    def _paused_per_byte(self, limit: float) -> float:
        """Returns the seconds of pauses longer than `limit` for each byte sent, of late."""
        longer = np.flatnonzero(self.pauses > limit)[-REMEMBERED_STRETCHES:]
        sent = float(self.sent[longer[-1]] - self.sent[longer[0]])
        return float(self.pauses[longer[1:]].sum()) / sent if sent > 0 else 0.0

    def _is_recent(self, limit: float) -> bool:
        """Returns whether the last pause longer than `limit` still outweighs the shorter ones since."""
        last = np.flatnonzero(self.pauses > limit)[-1:]
        return len(last) > 0 and float(self.pauses[last[0] + 1 :].sum()) < OUTWEIGHED_SHARE * limit

    def _are_rare(self, stretches: F64, limit: float) -> bool:
        """Returns whether pauses longer than `limit` come after many known rounds, whose pauses outweigh them."""
        if np.isnan(self.bytes) or not len(stretches) or median(stretches) <= MAX_MULTIPLE * self.bytes:
            return False
        usual = self.limit / LONG_SHARE * float(stretches.mean()) / self.bytes
        return usual > OUTWEIGHED_SHARE * float(self.pauses[self.pauses > limit].mean())

    def _is_known(self, limits: F64) -> bool:
        """Returns whether the known number of bytes still repeats, as far as that can be told."""
        told = [t for t in map(self._stretches, limits.tolist()) if len(t) >= MIN_STRETCHES]
        return not np.isnan(self.bytes) and max((_fit(t, self.bytes) for t in told), default=1.0) >= KEPT_SHARE

    def _holds_several(self, repeats: float, limits: F64) -> bool:
        """Returns whether the known number of bytes is that of several rounds of so many bytes.

        Among the first few rounds, pauses may by chance be missed in every other one.
        """
        times = np.round(self.bytes / repeats)
        if not (times >= 2 and abs(self.bytes - times * repeats) <= REPEAT_TOLERANCE * repeats):
            return False
        told = [t for t in map(self._stretches, limits.tolist()) if len(t) >= MIN_STRETCHES]
        first = next(t for t in told if _repeated(t, self.bytes, self.least) == repeats)
        return _fit(first, self.bytes) < REPEATING_SHARE

    def _usual_length(self, limits: F64) -> float:
        """Returns the usual length of the pauses that begin rounds, s.

        Where nothing repeats, it is the one beyond which half of the paused time lies.
        """
        fits = [_fit(self._stretches(limit), self.bytes) for limit in limits.tolist()]
        if max(fits) > 0:
            return median(self.pauses[self.pauses > limits[int(np.argmax(fits))]])
        above = np.cumsum(self.paused[::-1])
        return float(1.5 * 2.0 ** (FIRST_OCTAVE + OCTAVES - 1 - np.searchsorted(above, above[-1] / 2)))

    def _stretches(self, limit: float) -> F64:
        """Returns [stretch] bytes between pauses longer than `limit`, as far back as all of them are remembered."""
        longer = self.pauses > limit
        octave, sent = _octaves(self.pauses[longer]), self.sent[longer]
        count = np.bincount(octave, minlength=1)
        full = np.flatnonzero(count == REMEMBERED_PAUSES)
        oldest = sent[[int(np.argmax(octave == o)) for o in full.tolist()]].max(initial=-np.inf)
        stretches = np.diff(sent[sent >= oldest])[-REMEMBERED_STRETCHES:]
        return np.asarray(stretches[stretches > 0])


def _octaves(lengths: F64) -> I64:
    """Returns [length] octaves, from 0 to `OCTAVES` - 1."""
    return np.asarray(np.clip(np.floor(np.log2(lengths)) - FIRST_OCTAVE, 0, OCTAVES - 1).astype(np.int64))


def _repeated(stretches: F64, known: float, least: float) -> float:
    """Returns the bytes of which most stretches are multiples, `known` ones or one of them; NaN if there are none.

    None are fewer than `least`.
    """
    tried = sort_unique(stretches if np.isnan(known) else np.append(stretches, known))
    tried = tried[tried >= least]
    if not len(tried):
        return np.nan
    fits = np.array([_fit(stretches, size) for size in tried.tolist()])
    best = np.flatnonzero(fits >= fits.max() - FIT_MARGIN)[-1]
    return float(tried[best]) if fits[best] >= REPEATING_SHARE else np.nan


def _fit(stretches: F64, size: float) -> float:
    """Returns the share of stretches that are multiples of `size`; 0 where there are too few to tell."""
    if len(stretches) < MIN_STRETCHES or np.isnan(size):
        return 0.0
    times = np.clip(np.round(stretches / size), 1, MAX_MULTIPLE)
    return float((np.abs(stretches - times * size) <= REPEAT_TOLERANCE * size).mean())


def usual_packet(sizes: F64) -> float:
    """Returns the bytes of the packets that carry most of them; 0 without any."""
    ordered = np.sort(sizes)
    total = np.cumsum(ordered)
    return float(ordered[np.searchsorted(total, total[-1] / 2)]) if len(sizes) else 0.0


@dataclass
class PauseReader:
    """Reads the rounds of a member, over chunks."""

    pattern: RoundPattern = field(default_factory=RoundPattern)
    tail: MemberEvents = field(default_factory=lambda: MemberEvents(np.empty(0), np.empty(0, bool), np.empty(0)))
    """The member's last packet and those that came after it."""
    position: float = 0.0
    """Bytes sent in all."""
    began: float = np.nan
    """Bytes sent before the open round."""
    begin: float = np.nan
    """Begin of the open round, s."""
    waited: float = 0.0
    """Seconds waited in the open round."""
    pause: float = np.nan
    """Usual pause, s."""
    period: float = np.nan
    """Usual period, s."""
    rate: float = np.nan
    """Bytes per second between packets that follow one another."""

    def read(self, events: MemberEvents, announced: float = 0.0) -> MemberRounds:
        """Returns the rounds that begin in a chunk's packets.

        Args:
            events: the packets.
            announced: bytes from which a packet is data that comes only once the member has begun its round; 0 where
                data come unasked.
        """
        whole = MemberEvents(
            np.concatenate((self.tail.time, events.time)),
            np.concatenate((self.tail.is_own, events.is_own)),
            np.concatenate((self.tail.size, events.size)),
        )
        own = np.flatnonzero(whole.is_own)
        self.position += float(events.size[events.is_own].sum())
        self.tail = whole.take(slice(int(own[-1]) if len(own) else max(0, len(whole.time) - 1), None))
        if len(own) < 2:
            return _no_rounds()
        silences = self._silences(whole, own, announced)
        rounds = self._rounds(silences)
        self._learn_usual(rounds)
        return rounds

    def open_round(self) -> OpenRound | None:
        """Returns the round that is open at the end of the packets; nothing before the first round."""
        if np.isnan(self.begin):
            return None
        is_complete = self.position - self.began >= WHOLE_SHARE * self.pattern.bytes
        return OpenRound(float(self.tail.time[0]), self.begin, is_complete)

    def _silences(self, events: MemberEvents, own: I64, announced: float) -> _Silences:
        """Returns the member's long silences, after learning how long those are."""
        time, first, last = events.time, own[:-1], own[1:]
        is_answer = last - first > 1
        heard = time[last - 1]
        link = self._link_time(events.size[first], time[last] - time[first], is_answer)
        spent = time[last] - heard
        sent = (self.position - np.cumsum(events.size[own][::-1])[::-1] + events.size[own])[:-1]
        by_itself = is_answer | (spent > link)
        limit = self.pattern.learn(spent[by_itself], sent[by_itself], announced)
        # What came early splits a pause; its parts may be shorter than a pause.
        long = np.flatnonzero(np.diff(time) > QUIET_SHARE * limit)
        start = np.append(long, len(time))[np.searchsorted(long, first)]
        rows = np.flatnonzero((start < last) & (time[last] - time[np.minimum(start, last)] > limit))
        quiet = time[start[rows]]
        pause = time[last[rows]] - quiet
        is_own = (spent[rows] > UNPROVOKED_SHARE * pause) & by_itself[rows]
        needed = np.where(~events.is_own & (events.size >= announced) & (announced > 0), time, -np.inf)
        ready = np.maximum(np.maximum.accumulate(needed)[last[rows]], quiet)
        came = np.maximum(heard[rows], quiet)
        return _Silences(time[last[rows]], time[first[rows]], quiet, came, ready, is_own, sent[rows])

    def _link_time(self, size: F64, gap: F64, is_answer: Mask) -> F64:
        """Returns [gap] seconds that a slow link may set two packets apart; 0 as long as its speed is unknown."""
        plain = np.flatnonzero(~is_answer & (gap > 0))
        if len(plain):
            slowness = gap[plain] / size[plain]
            order = np.argsort(slowness, kind="stable")
            share = np.cumsum(size[plain][order])
            now = 1.0 / float(slowness[order[np.searchsorted(share, share[-1] / 2)]])
            self.rate = now if np.isnan(self.rate) else self.rate + USUAL_MEMORY * (now - self.rate)
        return LINK_TIMES * size / self.rate if self.rate > 0 else np.zeros(len(size))

    def _rounds(self, silences: _Silences) -> MemberRounds:
        """Returns the rounds that silences begin: own ones, and those after all bytes of a round."""
        rows: list[tuple[float, ...]] = []
        columns = (silences.end, silences.before, silences.quiet, silences.heard, silences.ready, silences.sent)
        for (end, before, quiet, heard, ready, sent), own in zip(
            np.stack(columns, axis=1).tolist(), silences.is_own.tolist(), strict=True
        ):
            if np.isnan(self.began):
                self.begin, self.began = end, sent
                continue
            bytes_sent = sent - self.began
            if own or bytes_sent >= WHOLE_SHARE * self.pattern.bytes:
                rows.append((end, end - ready, end - self.begin, bytes_sent, self.waited, before - self.begin))
                self.begin, self.began, self.waited = end, sent, 0.0
            else:
                self.waited += heard - quiet
        return MemberRounds(*np.array(rows).T) if rows else _no_rounds()

    def _learn_usual(self, rounds: MemberRounds) -> None:
        for name, values in (("pause", rounds.pause), ("period", rounds.period[~np.isnan(rounds.period)])):
            if len(values):
                now, before = median(values), getattr(self, name)
                setattr(self, name, now if np.isnan(before) else before + USUAL_MEMORY * (now - before))


def _no_rounds() -> MemberRounds:
    return MemberRounds(*(np.empty(0) for _ in range(6)))
