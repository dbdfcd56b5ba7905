"""nginx: weights and drains of servers of an `upstream` block, through its file and a reload.

nginx does not report its upstreams, so the file tells the state. The owner mark is a comment before the server, which
also says whether the reload was made: a change that was written, but not reloaded, is finished or undone later. What
runs on a server that is `down` may finish. The upstream should have a file of its own, which the configuration
includes: a file with blocks of another language is refused. Tested with nginx 1.22.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from skewscope.adapters.config.fields import read_path
from skewscope.adapters.runtime.blocking_calls import FILES
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call, CommandCall, FileCall
from skewscope.adapters.targets.common.marks import (
    OWNER,
    MarkedValue,
    check_action,
    clean_reason,
    compare_mark,
    lower_whole_weight,
)
from skewscope.adapters.targets.common.probe import ProbeSettings, measure_probe
from skewscope.adapters.targets.common.settings import (
    COMMON_FIELDS,
    PROBE_FIELDS,
    NamedTarget,
    TargetSettings,
    check_addresses,
    read_command,
    read_common,
    read_probe,
)
from skewscope.adapters.targets.common.transports import read_file, replace_file, run_command
from skewscope.engine.actions.change import (
    DEWEIGHT,
    DRAIN,
    FOREIGN,
    OURS,
    Change,
    ChangeSupport,
    MemberState,
    TargetState,
)
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

RELOAD = ("nginx", "-s", "reload")
MAKING, MADE, UNDOING = "making", "made", "undoing"
"""Phases of a change: written but not reloaded; done; taken back in the file but not reloaded."""
TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<comment>\#[^\n]*)|(?P<end>[;{}])|(?P<word>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|"""
    r"""(?:\\.|\$\{[^}\s]*\}|[^\s;{}"'\\])(?:\\.|\$\{[^}\s]*\}|[^\s;{}\\])*)"""
)
WEIGHT = re.compile(r"[0-9]{1,9}")
MARK = re.compile(rf"# {OWNER} (\{{.*\}})")
MAX_TEXT = 1 << 20


@dataclass(frozen=True, slots=True)
class NginxSettings:
    """Settings of one upstream of one nginx."""

    common: TargetSettings
    file: str
    upstream: str
    reload: tuple[str, ...] = RELOAD
    probe: ProbeSettings | None = None


def read(fields: FieldReader, at: FieldPath, name: str) -> NginxSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "file", "upstream", "members"), (*COMMON_FIELDS, *PROBE_FIELDS, "reload"))
    common = read_common(fields, at, name)
    check_addresses(fields, (*at, "members"), common.members)
    # A link, such as those of sites-enabled, has to stay a link.
    file = read_path(fields, (*at, "file"))
    return NginxSettings(
        common,
        str(Path(file).resolve()) if file else "",
        fields.required_text((*at, "upstream"), without=" ;{}#\"'\\"),
        read_command(fields, (*at, "reload"), RELOAD),
        read_probe(fields, at),
    )


def build(settings: NginxSettings) -> "NginxTarget":
    """Creates the target."""
    return NginxTarget(settings)


class Token(NamedTuple):
    """A part of the file that is no white space."""

    kind: str
    """`word`, `end` (one of ;{}) or `comment`."""
    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset behind it."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class ServerLine:
    """A `server` directive of the upstream."""

    words: tuple[Token, ...]
    """`server`, the address, the parameters."""
    mark: Token | None
    """The comment with our mark."""

    @property
    def address(self) -> str:
        """HOST:PORT; the port is 80 where the file has none."""
        text = self.words[1].text.strip("\"'")
        return text if text.startswith("unix:") or re.search(r":\d+$", text) else f"{text}:80"

    @property
    def is_down(self) -> bool:
        """Returns whether it gets no requests."""
        return any(word.text == "down" for word in self.words[2:])

    @property
    def weight(self) -> Token | None:
        """The parameter of its weight."""
        return next((word for word in self.words[2:] if word.text.startswith("weight=")), None)

    @property
    def marks(self) -> dict[str, dict[str, str]]:
        """The owner marks, by kind of change."""
        if self.mark is None:
            return {}
        try:
            found = json.loads(self.mark.text.partition(OWNER)[2])
        except (ValueError, RecursionError):
            return {}
        return {str(kind): each for kind, each in found.items() if isinstance(each, dict)}

    def value(self, kind: str) -> str:
        """Returns what a kind of change sets: `down` or '', or the weight; '' for the weight that is the default."""
        if kind == DRAIN:
            return "down" if self.is_down else ""
        return self.weight.text.removeprefix("weight=") if self.weight else ""


@dataclass
class NginxTarget(NamedTarget):
    """One upstream of one nginx."""

    settings: NginxSettings
    support: Mapping[str, ChangeSupport] = field(
        default_factory=lambda: {DEWEIGHT: ChangeSupport(), DRAIN: ChangeSupport()}
    )

    async def read_state(self) -> TargetState:
        """Returns the servers of the file; nginx itself does not tell them."""
        return self._parse(await FILES.run(read_file, self.settings.file))

    def _parse(self, text: str) -> TargetState:
        servers = list_servers(text, self.settings.file, self.settings.upstream)
        return TargetState({address: make_member(line) for address, line in servers.items()}, text=text)

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the new file, the reload, and the file whose mark says that it was reloaded."""
        if change.kind not in self.support:
            raise TargetError(f"{self.name}: nginx cannot {change.kind}")
        server = self._find(change, state)
        mark = server.marks.get(change.kind, {})
        if mark.get("action") != check_action(change):
            wanted = self._wanted(change, make_member(server))
            mark = {"action": change.action, "phase": MAKING, "reason": clean_reason(change)}
            return self._reload(state, change, [self._edit(state.text, change, wanted, mark)], {**mark, "phase": MADE})
        return self._reload(state, change, [], {**mark, "phase": MADE}) if mark.get("phase") == MAKING else ()

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the file with the former value, the reload, and the file without our mark."""
        if state.member(change.member) is None:
            return ()
        server = self._find(change, state)
        mark = server.marks.get(change.kind, {})
        if mark.get("action") != change.action:
            return ()
        if mark.get("phase") == UNDOING:
            return self._reload(state, change, [], None)
        if server.value(change.kind) != self._wanted(change, before):
            # Somebody else changed the value since: only our mark goes.
            return (FileCall(self.settings.file, state.text, self._edit(state.text, change, None, None)),)
        text = self._edit(state.text, change, before.detail(change.kind), {**mark, "phase": UNDOING})
        return self._reload(state, change, [text], None)

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the servers of the file that the change writes last."""
        calls = self.render_change(change, state)
        return self._parse(calls[-1].after) if calls and isinstance(calls[-1], FileCall) else state

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands: by the mark, its phase and the value in the file."""
        member = state.member(change.member)
        if member is None or change.kind not in self.support:
            return FOREIGN
        owner, phase = member.detail(f"mark.{change.kind}"), member.detail(f"phase.{change.kind}")
        if owner == change.action and phase == UNDOING:
            # nginx may still run with what we gave it.
            return OURS
        now, was = member.detail(change.kind), before.detail(change.kind)
        reloaded = None if owner != change.action else phase == MADE
        return compare_mark(MarkedValue(owner, now, was, self._wanted(change, before), reloaded), change.action)

    async def make_call(self, call: Call) -> None:
        """Replaces the file, or reloads nginx."""
        if isinstance(call, FileCall) and call.path == self.settings.file:
            await FILES.run(replace_file, call)
        elif call == CommandCall(self.settings.reload):
            await run_command(CommandCall(self.settings.reload), self.settings.common.timeout)
        else:
            raise TargetError(f"{self.name}: a call that is neither a change of {self.settings.file} nor the reload")

    async def read_work(self) -> Mapping[str, float]:
        """Returns nothing: nginx does not count requests by server."""
        return {}

    async def probe(self, member: str) -> float | None:
        """Returns the seconds of a probe of a server; None without `probe` in the config."""
        if self.settings.probe is None:
            return None
        if member not in self.members.values():
            raise TargetError(f"{self.name}: no member {member!r:.80}")
        return await measure_probe(self.settings.probe, f"http://{member}", FetchOptions())

    def _find(self, change: Change, state: TargetState) -> ServerLine:
        found = list_servers(state.text, self.settings.file, self.settings.upstream).get(change.member)
        if found is None:
            raise TargetError(f"{self.name}: the upstream {self.settings.upstream} has no server {change.member!r:.80}")
        return found

    def _wanted(self, change: Change, member: MemberState) -> str:
        if change.kind == DRAIN:
            return "down"
        return str(lower_whole_weight(member, float(member.detail(DEWEIGHT) or 1), change.share))

    def _edit(self, text: str, change: Change, value: str | None, mark: Mapping[str, str] | None) -> str:
        """Returns the text with another value, None for the same one, and with another mark of a server."""
        servers = list_servers(text, self.settings.file, self.settings.upstream)
        if value is not None:
            text = set_value(text, servers[change.member], change.kind, value)
            servers = list_servers(text, self.settings.file, self.settings.upstream)
        return set_mark(text, servers[change.member], change.kind, mark)

    def _reload(
        self, state: TargetState, change: Change, texts: list[str], mark: Mapping[str, str] | None
    ) -> tuple[Call, ...]:
        """Returns the calls that write a text, if any, reload, and write the mark of the end."""
        first = texts[0] if texts else state.text
        last = self._edit(first, change, None, mark)
        files = [FileCall(self.settings.file, state.text, text) for text in texts]
        return (*files, CommandCall(self.settings.reload), FileCall(self.settings.file, first, last))


def list_servers(text: str, file: str, upstream: str) -> dict[str, ServerLine]:
    """Returns the servers of an upstream by address, from the text of a configuration file.

    Raises:
        TargetError: the text cannot be read, or has no such upstream, or a server twice.
    """
    if len(text) > MAX_TEXT:
        raise TargetError(f"{file}: {len(text)} characters, expected at most {MAX_TEXT}")
    found = list(_walk_servers(text, file, upstream))
    if not found:
        raise TargetError(f"{file}: no server in a block `upstream {upstream}`")
    by_address = {line.address: line for line in found}
    if len(by_address) < len(found):
        raise TargetError(f"{file}: the upstream {upstream} lists a server twice")
    return by_address


def _walk_servers(text: str, file: str, upstream: str) -> Iterator[ServerLine]:
    words: list[Token] = []
    mark: Token | None = None
    blocks: list[bool] = []
    for token in _split_tokens(text, file):
        if token.kind == "comment":
            mark = token if MARK.fullmatch(token.text) and not words else mark
        elif token.kind == "word":
            words.append(token)
        else:
            names = [word.text for word in words]
            if token.text == "{":
                blocks.append(names == ["upstream", upstream])
            elif token.text == "}" and not blocks:
                raise TargetError(f"{file}: a }} without its {{")
            elif token.text == "}":
                blocks.pop()
            elif blocks and blocks[-1] and names[:1] == ["server"] and len(names) > 1:
                yield ServerLine(tuple(words), mark)
            words, mark = [], None


def _split_tokens(text: str, file: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise TargetError(f"{file}:{text.count(chr(10), 0, at) + 1}: cannot be read as a configuration of nginx")
        kind = str(match.lastgroup)
        if kind != "space":
            yield Token(kind, match[0], at)
        at = match.end()


def set_value(text: str, server: ServerLine, kind: str, value: str) -> str:
    """Returns the text with `down`, or with a weight, of a server; '' removes it."""
    word = f"weight={value}" if kind == DEWEIGHT else value
    old = server.weight if kind == DEWEIGHT else next((w for w in server.words[2:] if w.text == "down"), None)
    if old is not None:
        start, end = old.start, old.end
        if not value:
            start = len(text[:start].rstrip())
        return text[:start] + (word if value else "") + text[end:]
    if not value:
        return text
    at = (server.words[1] if kind == DEWEIGHT else server.words[-1]).end
    return f"{text[:at]} {word}{text[at:]}"


def set_mark(text: str, server: ServerLine, kind: str, mark: Mapping[str, str] | None) -> str:
    """Returns the text with another mark of one kind of change in the comment before a server; None for no mark."""
    marks = {key: each for key, each in {**server.marks, kind: mark}.items() if each is not None}
    start = server.words[0].start
    if server.mark is not None:
        text = text[: server.mark.start] + text[start:]
        start = server.mark.start
    if not marks:
        return text
    before = text[:start]
    column = start - before.rfind("\n") - 1
    return f"{before}# {OWNER} {json.dumps(marks, sort_keys=True)}\n{' ' * column}{text[start:]}"


def make_member(server: ServerLine) -> MemberState:
    """Returns the state of a server, as the file has it.

    Raises:
        TargetError: its weight is no number.
    """
    weight = server.value(DEWEIGHT) or "1"
    if not WEIGHT.fullmatch(weight):
        raise TargetError(f"{server.address}: the weight {weight!r:.40}, expected a whole number")
    details = {kind: server.value(kind) for kind in (DEWEIGHT, DRAIN)}
    for kind in (DEWEIGHT, DRAIN):
        mark = server.marks.get(kind, {})
        details |= {f"mark.{kind}": str(mark.get("action", "")), f"phase.{kind}": str(mark.get("phase", ""))}
    owner = details[f"mark.{DRAIN}"] or details[f"mark.{DEWEIGHT}"]
    return MemberState(server.address, not server.is_down, float(weight), owner, tuple(sorted(details.items())))
