"""View of a remote controller: polls it once a second and reports when it does not answer."""

import http.client
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote

from skewscope.adapters.runtime.channel import Channel, ControllerResponse
from skewscope.adapters.runtime.tasks import start_thread
from skewscope.adapters.view.broadcast import ViewReceiver
from skewscope.adapters.view.builder import ViewHistory
from skewscope.engine.model.topology_file import parse_valid_topology
from skewscope.kb.problems import SkewscopeError
from skewscope.kb.yamlfile import parse

TOPOLOGY_PATH, SNAPSHOT_PATH = "/api/v1/topology", "/api/v1/scene"
MAX_TOPOLOGY_BYTES, MAX_SNAPSHOT_BYTES = 64 << 20, 32 << 20
PERIOD = 1.0
MAX_PERIOD = 10.0
"""Upper limit in seconds on the poll interval while the controller does not answer."""
MAX_ATTEMPTS = 20
"""Polls until the first snapshot must be there: a controller builds views only when asked."""
TOPOLOGY_POLLS = 60
"""Polls between two checks for a new topology."""
MAX_TROUBLE_LENGTH = 60

Progress = Callable[[str, float], None]


@dataclass
class RemoteView:
    """Polls the views of a controller into a history."""

    url: str
    channel: Channel
    history: ViewHistory
    stop_event: threading.Event = field(default_factory=threading.Event)
    """Set it to stop polling."""
    _receiver: ViewReceiver = field(default_factory=ViewReceiver)
    _etag: str = ""
    _time: float = 0.0
    _polls: int = 0

    def open(self, progress: Progress) -> None:
        """Waits for the first snapshot and starts a thread that polls from then on.

        Raises:
            SkewscopeError: the controller does not answer, or its views cannot be decoded.
        """
        self.history.live = True
        for attempt in range(MAX_ATTEMPTS):
            progress(f"ask {self.url}", attempt / MAX_ATTEMPTS)
            try:
                if self.poll():
                    break
            except (OSError, http.client.HTTPException, ValueError, SkewscopeError) as error:
                raise SkewscopeError(f"{self.url}: {_format_error(error)}") from None
            if self.stop_event.wait(PERIOD):
                return
        else:
            raise SkewscopeError(f"{self.url} has no view yet. Does it receive telemetry?")
        start_thread("attached", self._poll_loop)

    def poll(self) -> bool:
        """Polls once and returns whether the controller has a view.

        Raises:
            OSError, HTTPException, ValueError, SkewscopeError: no answer, or one that cannot be decoded.
        """
        if self._polls % TOPOLOGY_POLLS == 0:
            self._update_topology()
        self._polls += 1
        receiver = self._receiver
        query = f"?roster={quote(receiver.series_index_id)}&rows={len(receiver.series)}&after={self._time!r}"
        answer = self.channel.get(SNAPSHOT_PATH + query, "", MAX_SNAPSHOT_BYTES)
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return False
        if answer.status == HTTPStatus.NO_CONTENT:
            return True
        _check_status(answer)
        before = receiver.series_index_id
        snapshot, frame = receiver.apply(answer.body)
        self._time = snapshot.time
        self.history.topology = receiver.topology
        if before in ("", receiver.series_index_id):
            self.history.add(snapshot, frame)
        else:
            # Another index of series: frames of the old one would be shown under wrong names.
            self.history.restart(snapshot, frame)
            self._polls = 0
        return True

    def _update_topology(self) -> None:
        answer = self.channel.get(TOPOLOGY_PATH, self._etag, MAX_TOPOLOGY_BYTES)
        if answer.status != HTTPStatus.NOT_MODIFIED:
            _check_status(answer)
            self._receiver.topology = parse_valid_topology(parse(answer.body.decode("utf-8"), self.url + TOPOLOGY_PATH))
            self._etag = answer.etag

    def _poll_loop(self) -> None:
        wait = PERIOD
        while not self.stop_event.wait(wait):
            try:
                self.poll()
            except (OSError, http.client.HTTPException, ValueError, SkewscopeError) as error:
                self.history.trouble = _format_error(error)[:MAX_TROUBLE_LENGTH]
                wait = min(wait * 2, MAX_PERIOD)
            except Exception as error:
                self.history.trouble = f"unexpected {type(error).__name__}: {error}"[:MAX_TROUBLE_LENGTH]
                raise  # The thread is started again after a while.
            else:
                self.history.trouble, wait = "", PERIOD


def _check_status(answer: ControllerResponse) -> None:
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise SkewscopeError("access denied; give a token with the role read: --token-file or SKEWSCOPE_TOKEN")
    if answer.status != HTTPStatus.OK:
        raise SkewscopeError(f"it answers {answer.status}")


def _format_error(error: Exception) -> str:
    """Returns in a few words why there is no answer."""
    if isinstance(error, OSError):
        return f"no answer: {error.strerror or error}"
    return f"no answer: {error or type(error).__name__}" if not isinstance(error, SkewscopeError) else str(error)
