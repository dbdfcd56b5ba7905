"""A minimal controller: receives what agents push, stores it, and answers by the protocol."""

import json

from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame, SeriesFrame, decode
from skewscope.engine.ingest.feed import SeriesKey
from tests.support.loopback import Asked, Says, Server

ETAG = {"ETag": '"1"'}


class Taken:
    """The rows received, and the known series."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[float, dict[SeriesKey, float]]] = {}
        """Time and values by sequence."""
        self.tables: dict[tuple[str, int], dict[int, SeriesKey]] = {}

    def take(self, body: bytes) -> tuple[int, bytes]:
        """Returns status and text of the answer."""
        frames = list(decode(body))
        hello = frames[0]
        assert isinstance(hello, HelloFrame)
        unknown, last = set(), 0
        for frame in frames:
            if isinstance(frame, SeriesFrame):
                self._announced(hello.boot, frame)
            elif isinstance(frame, RowFrame):
                columns = self.tables.get((hello.boot, frame.table), {})
                if not columns.keys() >= set(range(len(frame.values))):
                    unknown.add(frame.table)
                elif not unknown:
                    some = {columns[n]: v for n, v in enumerate(frame.values.tolist()) if v == v}
                    self.rows[frame.sequence] = (frame.time, some)
                    last = frame.sequence
        if unknown:
            return 409, json.dumps({"unknown": sorted(unknown)}).encode()
        return 200, json.dumps({"taken": last}).encode()

    def _announced(self, boot: str, frame: SeriesFrame) -> None:
        columns = self.tables.setdefault((boot, frame.table), {})
        columns.update(enumerate(frame.series, frame.first))

    def values(self, signal: str) -> list[float]:
        """Returns all values of a signal, in the order sent."""
        return [v for _, (_, row) in sorted(self.rows.items()) for key, v in row.items() if key.signal == signal]


class Receiver(Taken):
    """Listens on a port until closed; its known series are lost with it, as in a restart."""

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0), topology: str = "") -> None:
        super().__init__()
        self.tokens: set[str] = set()
        self.paths: list[str] = []
        self.topology = topology
        self.server = Server(self._answer, address)
        self.url, self.close = self.server.url, self.server.close

    def _answer(self, asked: Asked) -> Says:
        if asked.method == "POST":
            self.tokens.add(asked.headers.get("authorization", ""))
            status, text = self.take(asked.body)
            return Says(status, text, ETAG)
        self.paths.append(asked.path)
        if asked.headers.get("if-none-match") == ETAG["ETag"]:
            return Says(304, headers=ETAG)
        return Says(200 if self.topology else 404, self.topology.encode(), ETAG)
