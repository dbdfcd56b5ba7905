"""Lines of requests in a format of the catalogue, put together to the requests that a server answered."""

from collections.abc import Mapping

from skewscope.adapters.inputs.request_fields import server_name
from skewscope.adapters.inputs.request_rows import NAN, OK, PARTS, RequestCollector, ServedRequest, outcome_of
from skewscope.kb.line_reading import LineReadings

ENDING = frozenset(("duration", "code"))
"""Parts of which the line has one with which a request ends; lines before it say more of the same request."""


class RequestLines:
    """Collects the requests of one file. Lines without their end wait for the one that has it, by what they name."""

    def __init__(self, collector: RequestCollector) -> None:
        self.collector = collector
        self._waiting: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}

    def read(self, found: LineReadings, time: float | None, number: int, *, is_arrival: bool = False) -> None:
        """Adds what a line says of a request.

        Args:
            found: the parts of a request, and the labels that hold at the line.
            time: the date of the line, seconds since 1970; None for none.
            number: of the line.
            is_arrival: whether the date is that of the arrival, and not of the end.

        Raises:
            InputError: there are too many requests or servers.
        """
        key = tuple(sorted(found.labels.items()))
        parts = self._waiting.setdefault(key, {})
        parts |= {name: one.value for name, one in found.requests().items()}
        if ENDING & parts.keys():
            del self._waiting[key]
            server = server_name(found.labels.get("instance"))
            self.collector.add(_make_request(parts, server, time, is_arrival=is_arrival), number)


def _make_request(parts: Mapping[str, float], server: str, time: float | None, *, is_arrival: bool) -> ServedRequest:
    took = parts.get("duration", 0.0)
    arrival = 0.0 if time is None else time if is_arrival else time - took
    return ServedRequest(
        arrival,
        arrival + took,
        server,
        outcome_of(int(parts["code"])) if "code" in parts else OK,
        parts.get("ttft", NAN),
        parts.get("prompt_tokens", NAN),
        parts.get("output_tokens", NAN),
        parts.get("tpot", NAN),
        {name: parts[name] for name in PARTS if name in parts},
    )
