"""A copy of the catalogue that tests may damage; it is restored after each use."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from skewscope.kb.entry_kinds import builtin_folder
from skewscope.kb.problems import Problem

LOSS = "conditions/fabric-loss.yaml"
STRAGGLER = "conditions/tp-straggler.yaml"
FLAP = "conditions/link-flap.yaml"
ISOLATE = "mitigations/isolate-link.yaml"
CLEAN = "mitigations/clean-or-replace-link.yaml"
WANG = "sources/wang2019gbn.yaml"
LAG = "signals/wire.onset_lag.yaml"
THROTTLE = "signals/gpu.throttle_reasons.yaml"
DATA = "*.py", "__pycache__", "schema"


def copied(folder: Path) -> Path:
    """Copies the built-in catalogue into a folder."""
    target = folder / "kb"
    shutil.copytree(builtin_folder(), target, ignore=shutil.ignore_patterns(*DATA))
    return target


@contextmanager
def written(path: Path, content: bytes | str) -> Iterator[Path]:
    """Writes a file for the duration of a context."""
    before = path.read_bytes() if path.is_file() else None
    try:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        yield path
    finally:
        path.unlink() if before is None else path.write_bytes(before)


def replaced(path: Path, old: str, new: str) -> str:
    """Returns the text of a file with the first `old` replaced; fails without one."""
    text = path.read_text()
    assert old in text, old
    return text.replace(old, new, 1)


def block(file: str, field: str) -> str:
    """Returns the text of a field of a built-in entry, nested lines included."""
    text = (builtin_folder() / file).read_text()
    found = re.search(rf"^{field}:.*\n(?:[ -].*\n)*", text, re.MULTILINE)
    assert found, field
    return found[0]


@dataclass(frozen=True)
class Damage:
    """A change of one file, and the problem that must be reported."""

    file: str
    old: str
    new: str
    at: str
    """A text that first stands, after the change, in the line that the problem names."""
    found: str
    expected: str
    hint: str = ""

    def told(self, problems: tuple[Problem, ...], path: Path) -> list[Problem]:
        """Returns the problems with exactly this text about a file as it is now."""
        text = path.read_text()
        line = text[: text.index(self.at)].count("\n") + 1
        return [
            p
            for p in problems
            if p.file == str(path)
            and p.line == line
            and self.found in p.found
            and self.expected in p.expected
            and self.hint in p.hint
        ]
