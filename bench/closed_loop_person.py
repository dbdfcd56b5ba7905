"""The person of a closed loop: approves what a controller proposes."""

import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path

WHY = "the fault is known: the bench made it"
TOKEN = "the-person-0123456789abcdef"


def write_token(folder: Path) -> list[dict[str, str]]:
    """Writes the person's token; returns the tokens of a controller's config."""
    file = folder / "person"
    file.write_text(TOKEN)
    file.chmod(0o600)
    return [{"name": "person", "role": "admin", "file": file.name}]


@dataclass(frozen=True, slots=True)
class Person:
    """An operator with access to a controller."""

    url: str
    token: str = TOKEN

    def ask(self, path: str, body: bytes | None = None) -> bytes | None:
        """Returns the controller's answer to a GET, or to a POST of a body; None for none."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, body, headers), timeout=10) as answer:
                return bytes(answer.read())
        except OSError:
            return None

    def approve_proposals(self) -> None:
        """Approves every action that waits for a person."""
        listed = self.ask("/api/v1/actions?live=1")
        for action in json.loads(listed)["actions"] if listed else ():
            if action["state"] == "proposed":
                self.ask(f"/api/v1/actions/{action['id']}/approve", json.dumps({"why": WHY}).encode())
