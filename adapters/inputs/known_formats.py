"""The formats of texts that are known: those of the catalogue, and those of a user, which stand in their place.

Which ones a user has is said by an environment variable, so that processes which read in parallel know the same.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

from skewscope.adapters.formats.log_envelope import unwrap_record
from skewscope.adapters.formats.log_lines import decode_head
from skewscope.kb.document_lines import list_value_lines, parse_documents
from skewscope.kb.entry_kinds import FORMATS_VARIABLE
from skewscope.kb.line_reading import LineReader, LineReadings
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Format
from skewscope.kb.own_formats import read_formats

KIND = "text"
"""Kind of inputs of the formats that name no other one."""
MARK_WEIGHT, NUMBER_WEIGHT, STEP_WEIGHT = 1, 1000, 10_000
"""How well a line fits a format: a little where it gives nothing, better with numbers, best with the time of a step."""
CLOCK_PARTS = frozenset(("elapsed", "job_mean", "job_rate"))
STEP_TIMES = frozenset(("duration", "mean", "window", "rate")) | CLOCK_PARTS


@dataclass(frozen=True, eq=False)
class KnownFormats:
    """All formats, and which of them a text has."""

    own: Sequence[Format] = ()
    """Those of the user."""

    @cached_property
    def by_id(self) -> Mapping[str, Format]:
        """The formats by id; those of the user come last."""
        own = {one.id: one for one in self.own}
        return {id_: one for id_, one in catalogue().formats.items() if id_ not in own} | own

    @cached_property
    def by_kind(self) -> Mapping[str, tuple[Format, ...]]:
        """The formats of each kind of input."""
        found: dict[str, list[Format]] = {KIND: []}
        for one in self.by_id.values():
            found.setdefault(one.kind or KIND, []).append(one)
        return {kind: tuple(formats) for kind, formats in found.items()}

    def choose(self, head: bytes) -> Format | None:
        """Returns the format of whose lines the most are in the first bytes of a file; None for none.

        Of several that fit alike, it is one of the user, then the one whose lines come first.
        """
        id_ = _choose(self, head)
        return self.by_id[id_] if id_ else None

    def choose_own(self, head: bytes) -> Format | None:
        """Returns the same where it is one of the user, else None."""
        chosen = self.choose(head) if self.own else None
        return chosen if chosen in self.own else None

    @cached_property
    def _readers(self) -> Mapping[str, LineReader]:
        """The reader of each format, to be restarted."""
        return {id_: LineReader(one, catalogue().signals) for id_, one in self.by_id.items()}


def known_formats() -> KnownFormats:
    """Returns the formats that are known here.

    Raises:
        InputError: those of the user have problems.
    """
    return _known_formats(os.environ.get(FORMATS_VARIABLE, ""), catalogue().version)


@lru_cache(4)
def _known_formats(place: str, _version: str) -> KnownFormats:
    return KnownFormats(read_formats(Path(place), catalogue()) if place else ())


@lru_cache(8)
def _choose(known: KnownFormats, head: bytes) -> str:
    texts, fits = decode_head(head), []
    documents = parse_documents("\n".join(texts))
    list_values = cache(lambda records: list_value_lines(documents, records))
    bare = [unwrap_record(text) for text in texts]
    own = {one.id for one in known.own}
    for id_, reader in known._readers.items():  # noqa: SLF001 - a method would keep each set for ever
        one = known.by_id[id_]
        lines = list_values(one.records) if one.document else bare
        whole = "\n".join(lines)
        if not reader.may_read(whole):
            continue
        reader.restart()
        weights = [(sum(map(_weigh, reader.read(line))), -number) for number, line in enumerate(lines)]
        if weight := sum(each for each, _ in weights):
            fits.append((weight, id_ in own, next(place for each, place in weights if each), id_))
    return max(fits)[-1] if fits else ""


def _weigh(found: LineReadings) -> int:
    if not found.readings or found.evaluation:
        return MARK_WEIGHT if found.is_mark else 0
    return STEP_WEIGHT if STEP_TIMES & found.steps().keys() else NUMBER_WEIGHT
