"""Secrets of a config: they stand in files or in the environment, never in the config, and are never shown."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

ENV = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
LEAST, MOST = 16, 4096
"""Characters of a secret."""
HOW = "Write ${NAME} of an environment variable, or give `file` with the path of a file that holds it."


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that no message shows."""

    text: str

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__


def hidden(text: str, *secrets: Secret | None) -> str:
    """A text of somebody else, who may have been told these secrets, without them."""
    for each in secrets:
        if each is not None and each.text:
            text = text.replace(each.text, "***")
    return text


def secret(fields: Fields, at: Path_, folder: Path, least: int = LEAST) -> Secret | None:
    """The secret that the fields `token: ${NAME}` or `file: PATH` of a mapping name; None with a fault."""
    named, file = fields.at((*at, "token")), fields.at((*at, "file"))
    if (named is None) == (file is None):
        found = "both" if named is not None else "neither"
        fields.fault(at, f"{found} of 'token' and 'file'", "one of them", HOW)
        return None
    text = _of_file(fields, (*at, "file"), folder) if named is None else _of_environment(fields, (*at, "token"))
    if text is None:
        return None
    if not least <= len(text) <= MOST or not text.isascii() or not text.isprintable():
        where = (*at, "file" if named is None else "token")
        expected = f"{least} to {MOST} printable ASCII characters"
        fields.fault(where, f"a secret of {len(text)} characters, or with strange ones", expected)
        return None
    return Secret(text)


def _of_environment(fields: Fields, at: Path_) -> str | None:
    value = fields.at(at)
    match = ENV.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        fields.fault(at, "a secret in the open", "${NAME} of an environment variable", HOW)
        return None
    text = os.environ.get(match["name"])
    if text is None:
        fields.fault(at, f"no environment variable {match['name']!r}", "one that is set")
    return text


def _of_file(fields: Fields, at: Path_, folder: Path) -> str | None:
    name = fields.text(at)
    if not name:
        return None
    try:
        with (folder / name).open(encoding="utf-8") as file:
            return file.read(MOST + 2).strip()
    except (OSError, UnicodeDecodeError) as error:
        fields.fault(at, f"no readable file {name!r} ({getattr(error, 'strerror', None) or 'not UTF-8'})", "a secret")
        return None
