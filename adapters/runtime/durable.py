"""Matcher that evaluates policies with durable-rules (Rete) in a separate process.

The library's C core can hang with the interpreter's lock held, and can crash, so it never runs in this process. Every
exchange has a deadline; a worker that dies or is late is replaced and gets the current facts again. After repeated
failures, or where the library cannot be imported, the reference matcher takes over with the same conclusions. The
reference matcher always runs as well, at little cost: corrupted memory of the core shows as a difference.
"""

import json
import math
import os
import select
import subprocess
import sys
import time
import weakref
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from skewscope.engine.advice.advice import (
    CompiledPattern,
    CompiledRule,
    Conclusion,
    Fact,
    FactTest,
    Matcher,
    Program,
    ReferenceMatcher,
    build_conclusions,
    fnv1a32,
)

COMMAND = (sys.executable, "-P", "-m", "skewscope.adapters.runtime.durable_worker")
MAX_FAILURES = 3
"""Failures in a row after which the reference matcher takes over for good."""
MAX_RESTARTS = 20
MAX_OPS = 2000
"""Operations per exchange, which bounds the time of one."""
MAX_REPLY = 64 << 20

OPS = {"ne": "$neq", "lt": "$lt", "le": "$lte", "gt": "$gt", "ge": "$gte"}

JSON = dict[str, Any]


class WorkerLostError(Exception):
    """The worker died, missed a deadline, or reported an error."""


def is_available() -> bool:
    """Returns whether durable-rules can be imported; it cannot on Python 3.13 and later."""
    started = bool(sys.executable) and hasattr(select, "poll")
    return started and sys.version_info < (3, 13) and find_spec("durable_rules_engine") is not None


def best_matcher(program: Program) -> Matcher:
    """Returns the durable-rules matcher where it can run, else the reference matcher."""
    return DurableMatcher(program) if is_available() else ReferenceMatcher(program)


@dataclass
class IdAllocator:
    """Allocates short names; names in use at the same time have different 32-bit hashes."""

    prefix: str
    _next: int = 0
    _in_use: dict[int, str] = field(default_factory=dict)

    def allocate(self) -> str:
        """Returns a name whose hash no name in use has."""
        while True:
            self._next += 1
            name = f"{self.prefix}{self._next}"
            if fnv1a32(name) not in self._in_use:
                self._in_use[fnv1a32(name)] = name
                return name

    def release(self, name: str) -> None:
        """Releases a name."""
        del self._in_use[fnv1a32(name)]


def build_rulesets(program: Program) -> tuple[list[JSON], list[dict[str, list[int]]]]:
    """Returns the rulesets in the library's grammar, and per ruleset the rules that use each kind of fact."""
    rulesets: list[JSON] = []
    uses: list[dict[str, list[int]]] = []
    for numbers in program.rulesets:
        rules: JSON = {}
        kinds: dict[str, list[int]] = {}
        for n in numbers:
            rules |= _build_rule(n, program.rules[n])
            for kind in dict.fromkeys(shape.kind for shape in program.rules[n].when):
                kinds.setdefault(kind, []).append(n)
        rulesets.append(rules)
        uses.append(kinds)
    return rulesets, uses


def _build_rule(number: int, rule: CompiledRule) -> JSON:
    """Builds a rule, and for a negation a second rule that matches when the blocking fact is present."""
    when = [{f"m{n}": _build_pattern(shape, joined=n > 0)} for n, shape in enumerate(rule.when)]
    if rule.unless is None:
        return {f"r{number}": {"all": when}}
    blocker = _build_pattern(rule.unless, joined=True)
    alias = f"m{len(when)}"
    return {
        f"r{number}": {"all": [*when, {f"{alias}$not": blocker}]},
        f"b{number}": {"all": [*when, {alias: blocker}]},
    }


def _build_pattern(shape: CompiledPattern, *, joined: bool) -> JSON:
    terms = [{"k": shape.kind}, *map(_build_term, shape.tests)]
    if joined:
        terms.append({"e": {"m0": "e"}})
    return terms[0] if len(terms) == 1 else {"$and": terms}


def _build_term(test: FactTest) -> JSON:
    return {test.name: test.value} if test.op == "eq" else {OPS[test.op]: {test.name: test.value}}


class Worker:
    """One worker process; exchanges lines of JSON with a deadline each."""

    def __init__(self, program: Program, start_s: float, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(  # noqa: S603  own module, without user input
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self._finalizer = weakref.finalize(self, _kill, self.process, os.getpid())
        self._sequence = 0
        assert self.process.stdin is not None
        os.set_blocking(self.process.stdin.fileno(), False)
        rulesets, uses = build_rulesets(program)
        # The worker's own timer is longer than our deadline: it ends a worker that hangs after its parent has gone.
        try:
            self.request({"alarm": 2 * max(start_s, deadline_s), "rulesets": rulesets, "uses": uses}, start_s)
        except WorkerLostError:
            self.close()
            raise

    def request(self, message: JSON, deadline_s: float = 0.0) -> "WorkerReply":
        """Sends one message and returns the reply.

        Raises:
            WorkerLostError: no reply in time, or an invalid one.
        """
        self._sequence += 1
        data = memoryview(json.dumps({"n": self._sequence, **message}, allow_nan=False).encode() + b"\n")
        end = time.monotonic() + (deadline_s or self.deadline_s)
        reply = bytearray()
        while data or not reply.endswith(b"\n"):
            data = data[self._pump(data, reply, end - time.monotonic()) :]
        return _parse_reply(bytes(reply), self._sequence)

    def _pump(self, data: memoryview, reply: bytearray, left: float) -> int:
        """Waits for the pipes, appends what was read to `reply`, and returns the number of bytes written."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if left <= 0:
            raise WorkerLostError("no reply in time")
        to, back = self.process.stdin.fileno(), self.process.stdout.fileno()
        poll = select.poll()  # not select.select, which fails on a descriptor beyond 1023
        poll.register(back, select.POLLIN)
        if data:
            poll.register(to, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll(math.ceil(left * 1000))}
        try:
            if back in ready:
                got = os.read(back, 1 << 16)
                reply += got
                if not got or len(reply) > MAX_REPLY:
                    raise WorkerLostError("it ended" if not got else "a reply above the size limit")
            return os.write(to, data[: 1 << 16]) if to in ready else 0
        except BlockingIOError:
            return 0
        except OSError as error:
            raise WorkerLostError(str(error)) from None

    def close(self) -> None:
        """Ends the process."""
        self._finalizer()


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """The (rule, entity) pairs that became true, and those that no longer are."""

    add: frozenset[tuple[int, str]]
    drop: frozenset[tuple[int, str]]


def _parse_reply(line: bytes, sequence: int) -> WorkerReply:
    """Parses and checks a line of the worker, whose memory may be corrupt and whose libraries may print."""
    try:
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerLostError(str(answer["error"])[:500])
        if answer["n"] != sequence:
            raise WorkerLostError("a reply to another request")
        return WorkerReply(*(frozenset((int(n), str(e)) for n, e in answer[key]) for key in ("add", "drop")))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise WorkerLostError("an invalid reply") from None


def _kill(process: "subprocess.Popen[bytes]", owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork of the owner
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()


class DurableMatcher:
    """Implements the matcher protocol on a worker, which starts with the first fact that a policy uses."""

    def __init__(self, program: Program, *, start_s: float = 10.0, deadline_s: float = 5.0) -> None:
        self.program = program
        self.restarts = 0
        self.fallback_reason = ""
        """Why the reference matcher took over; '' while the worker is used."""
        self._start_s, self._deadline_s = start_s, deadline_s
        self._live_facts: dict[tuple[str, str], Fact] = {}
        self._reference = ReferenceMatcher(program)
        self._reset()

    def _reset(self) -> None:
        """Resets the state to that before the first message."""
        self._worker: Worker | None = None
        self._changed = dict.fromkeys(self._live_facts)
        self._sent: dict[tuple[str, str], JSON] = {}
        self._fact_ids, self._entity_ids = IdAllocator("f"), IdAllocator("e")
        self._token_by_entity: dict[str, str] = {}
        self._entity_by_token: dict[str, str] = {}
        self._active: set[tuple[int, str]] = set()
        self._conclusions: tuple[Conclusion, ...] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the worker; None while there is none."""
        return self._worker.process.pid if self._worker else None

    def assert_fact(self, fact: Fact) -> None:
        """Adds a fact; it replaces the one of the same kind and entity."""
        if fact.kind in self.program.by_kind:
            self._live_facts[fact.kind, fact.entity] = fact
            self._changed[fact.kind, fact.entity] = None
            self._reference.assert_fact(fact)

    def retract(self, kind: str, entity: str) -> None:
        """Removes a fact; no effect where there is none."""
        if self._live_facts.pop((kind, entity), None) is not None:
            self._changed[kind, entity] = None
            self._reference.retract(kind, entity)

    def conclusions(self) -> tuple[Conclusion, ...]:
        """Returns the conclusions, ordered by priority, policy, subject and entity, each once."""
        failures = 0
        while not self.fallback_reason:
            try:
                self._sync()
                return self._worker_conclusions()
            except WorkerLostError as lost:
                failures += 1
                self._replace_worker(str(lost), failures)
        return self._reference.conclusions()

    def _worker_conclusions(self) -> tuple[Conclusion, ...]:
        """Returns the worker's conclusions, which must equal those of the reference matcher."""
        if self._conclusions is None:
            known = range(len(self.program.rules))
            if any(n not in known or token not in self._entity_by_token for n, token in self._active):
                raise WorkerLostError("conclusions about unknown rules or entities")
            self._conclusions = build_conclusions(
                self.program, {(n, self._entity_by_token[token]) for n, token in self._active}
            )
            if self._conclusions != self._reference.conclusions():
                raise WorkerLostError("conclusions that differ from the reference")
        return self._conclusions

    def _sync(self) -> None:
        if self._changed and self._worker is None:
            try:
                self._worker = Worker(self.program, self._start_s, self._deadline_s)
            except OSError as error:
                raise WorkerLostError(str(error)) from None
        ops = [op for key in self._changed for op in self._build_ops(key)]
        self._changed.clear()
        for start in range(0, len(ops), MAX_OPS):
            assert self._worker is not None
            answer = self._worker.request({"ops": ops[start : start + MAX_OPS]})
            self._active = (self._active - answer.drop) | answer.add
            self._conclusions = None

    def _build_ops(self, key: tuple[str, str]) -> list[list[Any]]:
        """Returns the operations for a changed fact: the old one is retracted before the new one is asserted."""
        rulesets = [n for n, kinds in enumerate(self._ruleset_kinds) if key[0] in kinds]
        ops: list[list[Any]] = []
        if (old := self._sent.pop(key, None)) is not None:
            self._fact_ids.release(old["id"])
            ops += [["-", n, old] for n in rulesets]
        if (fact := self._live_facts.get(key)) is not None:
            new = {
                "id": self._fact_ids.allocate(),
                "k": fact.kind,
                "e": self._token_of(fact.entity),
                **dict(fact.values),
            }
            self._sent[key] = new
            ops += [["+", n, new] for n in rulesets]
        return ops

    @cached_property
    def _ruleset_kinds(self) -> list[frozenset[str]]:
        """Kinds of fact that each ruleset uses."""
        rules = self.program.rules
        return [frozenset(s.kind for n in numbers for s in rules[n].patterns()) for numbers in self.program.rulesets]

    def _token_of(self, entity: str) -> str:
        """Returns the token that stands for an entity, since hashes of real names could collide."""
        if entity not in self._token_by_entity:
            token = self._token_by_entity[entity] = self._entity_ids.allocate()
            self._entity_by_token[token] = entity
        return self._token_by_entity[entity]

    def _replace_worker(self, reason: str, failures: int) -> None:
        """Resets to a new worker, or falls back to the reference matcher for good."""
        started = self._worker is not None
        if self._worker:
            self._worker.close()
        self.restarts += 1
        self._reset()
        # A worker that fails to start fails again: rules and library are the same.
        if not started or failures >= MAX_FAILURES or self.restarts >= MAX_RESTARTS:
            self.fallback_reason = reason or "no reason given"

    def close(self) -> None:
        """Ends the worker and removes all facts."""
        if self._worker:
            self._worker.close()
        self._live_facts.clear()
        self._reference.close()
        self.fallback_reason = ""
        self._reset()
