"""A console's view of a controller elsewhere: asks each second, and says so when no answer comes."""

import http.client
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote

from skewscope.adapters.broadcast import Onlooker
from skewscope.adapters.channel import Channel, Told
from skewscope.adapters.film import Film
from skewscope.engine.topology_file import sound
from skewscope.kb.problems import SkewscopeError
from skewscope.kb.yamlfile import parse

TOPOLOGY, SCENE = "/api/v1/topology", "/api/v1/scene"
MOST_TOPOLOGY, MOST_SCENE = 64 << 20, 32 << 20
PERIOD = 1.0
SLOWEST = 10.0
"""Seconds between two questions while nobody answers, in the end."""
PATIENCE = 20
"""Questions until something has to be there to show: a controller begins to film when it is asked."""
LOOKS = 60
"""Looks between two questions whether the topology is another one."""
MOST_TROUBLE = 60

Progress = Callable[[str, float], None]


@dataclass
class Attached:
    """Keeps a film of what a controller shows."""

    url: str
    channel: Channel
    film: Film
    ended: threading.Event = field(default_factory=threading.Event)
    """Set it, and no more is asked."""
    _there: Onlooker = field(default_factory=Onlooker)
    _etag: str = ""
    _time: float = 0.0
    _looks: int = 0

    def open(self, heard: Progress) -> None:
        """Waits for the first scene, and has a thread follow from there.

        Raises:
            SkewscopeError: nobody answers, or not with what a console can show.
        """
        self.film.live = True
        for turn in range(PATIENCE):
            heard(f"ask {self.url}", turn / PATIENCE)
            try:
                if self.look():
                    break
            except (OSError, http.client.HTTPException, ValueError, SkewscopeError) as error:
                raise SkewscopeError(f"{self.url}: {_why(error)}") from None
            if self.ended.wait(PERIOD):
                return
        else:
            raise SkewscopeError(f"{self.url} has nothing to show yet. Is telemetry coming in?")
        threading.Thread(target=self._follow, name="attached", daemon=True).start()

    def look(self) -> bool:
        """Asks once; whether there was anything to show.

        Raises:
            OSError, HTTPException, ValueError, SkewscopeError: why there was no answer, or none that can be shown.
        """
        if self._looks % LOOKS == 0:
            self._learn_topology()
        self._looks += 1
        there = self._there
        query = f"?roster={quote(there.roster)}&rows={len(there.series)}&after={self._time!r}"
        answer = self.channel.get(SCENE + query, "", MOST_SCENE)
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return False
        if answer.status == HTTPStatus.NO_CONTENT:
            return True
        _must_be_good(answer)
        before = there.roster
        scene, frame = there.take(answer.text)
        self._time = scene.time
        self.film.topology = there.topology
        if before in ("", there.roster):
            self.film.add(scene, frame)
        else:
            # Another list of series: what was filmed by the old one would be shown under wrong names.
            self.film.begin(scene, frame)
            self._looks = 0
        return True

    def _learn_topology(self) -> None:
        answer = self.channel.get(TOPOLOGY, self._etag, MOST_TOPOLOGY)
        if answer.status != HTTPStatus.NOT_MODIFIED:
            _must_be_good(answer)
            self._there.topology = sound(parse(answer.text.decode("utf-8"), self.url + TOPOLOGY))
            self._etag = answer.etag

    def _follow(self) -> None:
        wait = PERIOD
        while not self.ended.wait(wait):
            try:
                self.look()
            except (OSError, http.client.HTTPException, ValueError, SkewscopeError) as error:
                self.film.trouble = _why(error)[:MOST_TROUBLE]
                wait = min(wait * 2, SLOWEST)
            else:
                self.film.trouble, wait = "", PERIOD


def _must_be_good(answer: Told) -> None:
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise SkewscopeError(
            "it does not let us in; give it a token with the role read: --token-file or SKEWSCOPE_TOKEN"
        )
    if answer.status != HTTPStatus.OK:
        raise SkewscopeError(f"it answers {answer.status}")


def _why(error: Exception) -> str:
    """In a few words, why there is no answer."""
    if isinstance(error, OSError):
        return f"no answer: {error.strerror or error}"
    return f"no answer: {error or type(error).__name__}" if not isinstance(error, SkewscopeError) else str(error)
