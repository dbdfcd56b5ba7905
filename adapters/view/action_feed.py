"""The actions of a remote controller: polled beside its view, and the requests of a person about them."""

import http.client
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from skewscope.adapters.actions.action_json import MAX_ACTIONS, MitigationOutcomes, parse_action_json, parse_outcomes
from skewscope.adapters.runtime.channel import Channel, ControllerEndpoint
from skewscope.adapters.runtime.tasks import start_thread
from skewscope.engine.actions.action import Action
from skewscope.kb.problems import SkewscopeError

ACTIONS_PATH, OUTCOMES_PATH = "/api/v1/actions", "/api/v1/actions/outcomes"
INCIDENTS_PATH = "/api/v1/incidents"
LISTED = 200
"""Actions that are polled: those that may still change something, and the latest of the others."""
MAX_BYTES = 8 << 20
PERIOD, MAX_PERIOD = 2.0, 20.0
"""Seconds between two polls, and their upper limit while the controller does not answer."""
OUTCOME_POLLS = 30
"""Polls between two readings of the outcomes."""
MAX_TROUBLE = 80


@dataclass(frozen=True)
class ActionList:
    """What is known of a controller's actions at one time; replaced as a whole."""

    mode: str = ""
    """observe, propose or act; '' before the first answer."""
    is_leader: bool = True
    actions: tuple[Action, ...] = ()
    """Latest first."""
    outcomes: Mapping[str, MitigationOutcomes] = field(default_factory=dict)
    trouble: str = ""
    """Why there is no newer answer; '' where there is."""
    freeze: str = ""
    """Who froze all actions, until when and why; '' where they are not frozen."""


@dataclass
class ActionFeed:
    """Polls the actions of one controller, and sends requests about them."""

    endpoint: ControllerEndpoint
    latest: ActionList = field(default_factory=ActionList)
    stop_event: threading.Event = field(default_factory=threading.Event)
    """Set it to stop polling."""
    _polls: int = 0
    _channel: Channel | None = None

    @property
    def has_token(self) -> bool:
        """Whether requests carry a token: without one nobody is named who approved."""
        return bool(self.endpoint.token_file or os.environ.get(self.endpoint.token_env or "-", ""))

    def start(self) -> None:
        """Starts a thread that polls from now on."""
        start_thread("actions", self._poll_loop)

    def poll(self) -> None:
        """Polls once. What goes wrong is told by `latest.trouble`; the last answer stays."""
        if self._channel is None:
            self._channel = Channel(self.endpoint)
        try:
            answer = self._get(self._channel, f"{ACTIONS_PATH}?limit={LISTED}")
            latest = ActionList(
                str(answer.get("mode", ""))[:20],
                answer.get("leader") is not False,
                tuple(parse_action_json(one) for one in answer["actions"][:MAX_ACTIONS]),
                self.latest.outcomes,
                freeze=str((answer.get("freeze") or {}).get("text", ""))[:200],
            )
            if self._polls % OUTCOME_POLLS == 0:
                outcomes = self._get(self._channel, OUTCOMES_PATH)["outcomes"]
                latest = replace(latest, outcomes=parse_outcomes(outcomes))
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError) as error:
            self._polls = 0
            self._set_latest(replace(self.latest, trouble=_describe_error(error)))
        except Exception as error:
            self._set_latest(replace(self.latest, trouble=f"unexpected {type(error).__name__}: {error}"[:200]))
            raise  # The thread is started again after a while.
        else:
            self._polls += 1
            self._set_latest(latest)

    def _set_latest(self, latest: ActionList) -> None:
        """Takes over an answer; an equal one is not new, so nothing is drawn again for it."""
        if latest != self.latest:
            self.latest = latest

    def _get(self, channel: Channel, path: str) -> dict[str, Any]:
        answer = channel.get(path, "", MAX_BYTES)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise ValueError("this controller is of a version without actions")
        if answer.status != HTTPStatus.OK:
            raise ValueError(f"it answers {answer.status}")
        found = json.loads(answer.body)
        if not isinstance(found, dict):
            raise ValueError("an answer that is no object")  # noqa: TRY004
        return found

    def send(self, id_: str, verb: str, why: str) -> Action:
        """Asks for `approve`, `refuse`, `undo` or `done` of an action; returns it as it is then.

        Raises:
            SkewscopeError: the controller does not answer, or says no.
        """
        channel = Channel(self.endpoint)
        try:
            answer = channel.send("POST", f"{ACTIONS_PATH}/{quote(id_, safe='')}/{verb}", {"why": why})
            found = json.loads(answer.body)
            if answer.status != HTTPStatus.OK:
                told = found.get("error") if isinstance(found, dict) else None
                raise SkewscopeError(str(told or f"the answer {answer.status}")[:200])
            action = parse_action_json(found)
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise SkewscopeError(f"no usable answer: {_describe_error(error)}") from None
        finally:
            channel.close()
        self._set_latest(
            replace(self.latest, actions=tuple(action if one.id == id_ else one for one in self.latest.actions))
        )
        return action

    def acknowledge(self, incident: str, is_acknowledged: bool) -> None:
        """Notes at the controller that the holder of the token looks after an incident, or withdraws that.

        Raises:
            SkewscopeError: the controller does not answer, or says no.
        """
        channel = Channel(self.endpoint)
        path = f"{INCIDENTS_PATH}/{quote(incident, safe='')}/acknowledge"
        try:
            answer = channel.send("POST", path, {"acknowledged": is_acknowledged})
            if answer.status != HTTPStatus.OK:
                found = json.loads(answer.body)
                told = found.get("error") if isinstance(found, dict) else None
                raise SkewscopeError(str(told or f"the answer {answer.status}")[:200])
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise SkewscopeError(f"no usable answer: {_describe_error(error)}") from None
        finally:
            channel.close()

    def _poll_loop(self) -> None:
        wait = PERIOD
        while True:
            self.poll()
            wait = min(wait * 2, MAX_PERIOD) if self.latest.trouble else PERIOD
            if self.stop_event.wait(wait):
                return


def _describe_error(error: Exception) -> str:
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return (text or type(error).__name__)[:MAX_TROUBLE]
