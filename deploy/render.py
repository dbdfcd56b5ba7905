"""Writes the files of deploy/kubernetes from the chart: python deploy/render.py [FOLDER]. Needs helm (3 or later).

Kustomizations are written by hand. A file is named after the kind of its objects; configs are files of their own, from
which kustomize makes config maps.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

DEPLOY = Path(__file__).resolve().parent
CHART = DEPLOY / "chart"
RELEASE = "skewscope"
BASE = ("image.repository=skewscope", "agent.image.repository=skewscope-agent", "controller.replaceOnChange=false")
ALL = ("acting", "leaderElection", "nodeCondition", "serviceMonitor", "podMonitor", "watching")
"""Options that are rendered; the alerts are deploy/prometheus, and no second copy of them."""
PARTS = ("controller", "agent")
"""Parts that are rendered without the others, which change them; the others are named after their templates."""
SOURCE = re.compile(r"^# Source: skewscope/templates/([\w-]+)\.yaml\n", re.MULTILINE)


def render(*values: str) -> str:
    """Returns what helm makes of the chart with these values, `NAME=VALUE` each."""
    words = [word for value in (*BASE, "namespaces.controller=true", *values) for word in ("--set", value)]
    command = ["helm", "template", RELEASE, str(CHART), "--namespace", RELEASE, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def split_parts(text: str) -> Iterator[tuple[str, str]]:
    """Yields the part and the text of each object."""
    for each in re.split(r"^---\n", text, flags=re.MULTILINE):
        if found := SOURCE.match(each):
            name = yaml.safe_load(each)["metadata"]["name"]
            is_agent = found[1] == "namespaces" and name != RELEASE
            part = "agent" if is_agent else "controller" if found[1] == "namespaces" else found[1]
            yield part, each[found.end() :]


def list_files() -> dict[str, str]:
    """Returns the text of each file by its path below deploy/kubernetes."""
    plain, whole = render(), render(*(f"{name}.enabled=true" for name in ALL))
    objects = [pair for pair in split_parts(plain) if pair[0] in PARTS]
    objects += [pair for pair in split_parts(whole) if pair[0] not in PARTS]
    found: dict[str, list[str]] = {}
    for part, text in objects:
        content = yaml.safe_load(text)
        if content["kind"] == "ConfigMap":
            found |= {f"{part}/{name}": [value] for name, value in content["data"].items()}
        else:
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", content["kind"].removesuffix("Binding")).lower()
            found.setdefault(f"{part}/{name}.yaml", []).append(text.rstrip() + "\n")
    return {path: "---\n".join(texts) for path, texts in sorted(found.items())}


def main(folder: Path) -> None:
    """Writes the files below a folder."""
    for path, text in list_files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEPLOY / "kubernetes")
