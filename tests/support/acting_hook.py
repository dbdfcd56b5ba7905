"""A hook that keeps its members in a file, by the contract of docs/acting-hooks.md. Reads a request, prints the answer.

The name of the file is the first argument; the second is a way to misbehave.
"""

import json
import sys
import time
from pathlib import Path


def answer(request: dict, members: dict, how: str = "") -> dict:
    """Returns the answer to a request, and changes the members as asked."""
    verb = request["verb"]
    if verb == "state":
        return {"members": members}
    change = request["change"]
    member = members[change["member"]]
    owners = member.setdefault("owners", {})
    if verb == "verify":
        done = (change["kind"] in owners) == (request["wanted"] == "made")
        return {"done": done}
    if verb == "undo":
        assert request["before"]["weight"] == 100
        del owners[change["kind"]]
        member["serving"] = request["before"]["serving"]
        return {}
    if owners.get(change["kind"]):
        return {"error": "held by another", "conflict": True}
    if verb == "plan" or how == "ignores":
        return {}
    owners[change["kind"]] = change["action"]
    member["serving"] = False
    return {}


if __name__ == "__main__":
    file, how = Path(sys.argv[1]), "".join(sys.argv[2:])
    if how == "hangs":
        time.sleep(60)
    if how == "fails":
        sys.exit("no such cluster")
    asked = json.loads(sys.stdin.read())
    content = json.loads(file.read_text())
    sys.stdout.write(json.dumps(answer(asked, content, how)))
    file.write_text(json.dumps(content))
