"""One route of the API: its path, who may use it, its handler, and what its description says."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

if TYPE_CHECKING:
    from skewscope.adapters.controller.api import ApiContext

Handler = Callable[[Request, "ApiContext"], Awaitable[Response]]


@dataclass(frozen=True)
class Route:
    """One route of the API."""

    path: str
    role: str
    """The required role; '' for none."""
    summary: str
    handler: Handler
    content_type: str = "application/json"
    query: tuple[tuple[str, str], ...] = ()
    """Query parameters and their meaning."""
    allows_agents: bool = False
    """Whether agents may use it too."""
    may_be_missing: bool = False
    """Whether the object may not exist."""
    method: str = "GET"
    success_status: str = "200"
    """Status of a successful answer."""
    other_statuses: tuple[tuple[str, str], ...] = ()
    """Further statuses and their meaning."""
    takes_slashes: bool = False
    """Whether the last part of its path may hold slashes, as the name of a GPU does."""
    is_page: bool = False
    """Whether a session of a browser may read it too, and who lacks access is asked for a token."""

    @property
    def pattern(self) -> str:
        """Returns the path as the server matches it."""
        return f"{self.path.removesuffix('}')}:path}}" if self.takes_slashes else self.path
