"""Worker process that runs durable-rules: reads JSON lines, writes JSON lines.

`adapters.runtime.durable` starts it. It imports nothing of this package, so that it starts fast. A timer signal ends
the process when a command exceeds its time limit: a hang in the C core holds the interpreter's lock.

First line in:   {"n": 1, "alarm": seconds, "rulesets": [{rule: {"all": [...]}}...], "uses": [{kind: [numbers]}...]}
Each line after: {"n": n, "ops": [["+" or "-", ruleset, {"id", "k", "e", ...}]...]}
Each line out:   {"n": n, "add": [[number, entity]...], "drop": [...]}, or {"error": text} as the last.
A rule is `r<number>`; `b<number>` matches when the fact that blocks it is present.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

JSON = dict[str, Any]


def _load_host() -> type:
    from durable import engine  # noqa: PLC0415  here, so that a missing library gives an error reply

    class Host(engine.Host):  # type: ignore[misc]  # the library has no types
        """Host without background threads, which race with the caller inside the C core."""

        def _run(self) -> None:
            pass

    return Host


class Session:
    """The rulesets, and the (rule, entity) pairs that are true."""

    def __init__(self, rulesets: list[JSON], uses: list[dict[str, list[int]]]) -> None:
        self.uses = uses
        self.active: set[tuple[int, str]] = set()
        self._stored: set[str] = set()
        host = _load_host()
        self._rulesets: list[Any] = []
        for n, rules in enumerate(rulesets):
            definition = {name: {**rule, "run": self._action(name)} for name, rule in rules.items()}
            self._rulesets.append(host({f"policies{n}": definition}))

    def _action(self, name: str) -> Callable[[Any], None]:
        number, put = int(name[1:]), self.active.add if name[0] == "r" else self.active.discard

        def run(context: Any) -> None:
            put((number, context.m0.e))

        return run

    def apply(self, op: str, n: int, fact: JSON) -> None:
        """Asserts or retracts one fact; a retracted fact takes its conclusions with it."""
        name = f"policies{n}"
        if op == "+":
            self._call_library(self._rulesets[n].assert_fact, name, fact)
            return
        for number in self.uses[n].get(fact["k"], ()):
            self.active.discard((number, fact["e"]))
        key = f"{n} {fact['id']}"
        if key in self._stored:
            self._stored.remove(key)
            self._rulesets[n].retract_fact(name, fact)

    def _call_library(self, call: Callable[[str, JSON], Any], name: str, fact: JSON) -> None:
        from durable.engine import MessageNotHandledException  # noqa: PLC0415

        try:
            state = call(name, dict(fact))
        except MessageNotHandledException:
            return  # no pattern matches it, so it was not stored
        if isinstance(state, dict) and "exception" in state:
            raise RuntimeError(state["exception"])
        self._stored.add(f"{name.removeprefix('policies')} {fact['id']}")


def serve(lines: Any, out: Any) -> None:
    """Replies to every line until the end of input."""
    first = json.loads(next(lines))
    alarm = float(first["alarm"])
    signal.setitimer(signal.ITIMER_REAL, alarm)
    session = Session(first["rulesets"], first["uses"])
    _write_reply(out, {"n": first["n"], "add": [], "drop": []})
    for line in lines:
        signal.setitimer(signal.ITIMER_REAL, alarm)
        before, message = set(session.active), json.loads(line)
        for op, n, fact in message["ops"]:
            session.apply(op, n, fact)
        _write_reply(
            out, {"n": message["n"], "add": sorted(session.active - before), "drop": sorted(before - session.active)}
        )


def _write_reply(out: Any, reply: JSON) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    out.write(json.dumps(reply) + "\n")
    out.flush()


def main() -> None:
    """Serves standard input until it ends; the last line reports a failure."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ends with its parent, which may still send after Ctrl-C
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # output of the library must not mix with replies
    try:
        serve(sys.stdin, out)
    except Exception as error:  # noqa: BLE001  the parent needs any error
        _write_reply(out, {"error": f"{type(error).__name__}: {error}"[:500]})


if __name__ == "__main__":
    main()
