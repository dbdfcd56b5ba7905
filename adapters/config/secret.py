"""Secrets of a config: read from files or the environment, never from the config, and never shown."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

ENV_PATTERN = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
MIN_LENGTH, MAX_LENGTH = 16, 4096
"""Limits on the characters of a secret."""
SECRET_HINT = "Write ${NAME} of an environment variable, or give `file` with the path of a file that holds it."  # noqa: S105 - a hint


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that messages do not show."""

    text: str

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__


def redact_secrets(text: str, *secrets: Secret | None) -> str:
    """Returns a text with the secrets replaced by ***."""
    for each in secrets:
        if each is not None and each.text:
            text = text.replace(each.text, "***")
    return text


def read_secret(fields: FieldReader, at: FieldPath, folder: Path, least: int = MIN_LENGTH) -> Secret | None:
    """Returns the secret of the fields `token: ${NAME}` or `file: PATH`; adds a problem and returns None if invalid."""
    named, file = fields.value_at((*at, "token")), fields.value_at((*at, "file"))
    if (named is None) == (file is None):
        found = "both" if named is not None else "neither"
        fields.add_problem(at, f"{found} of 'token' and 'file'", "one of them", SECRET_HINT)
        return None
    text = _read_file(fields, (*at, "file"), folder) if named is None else _read_environment(fields, (*at, "token"))
    if text is None:
        return None
    if not least <= len(text) <= MAX_LENGTH or not text.isascii() or not text.isprintable():
        where = (*at, "file" if named is None else "token")
        expected = f"{least} to {MAX_LENGTH} printable ASCII characters"
        fields.add_problem(where, f"a secret of {len(text)} characters, or with strange ones", expected)
        return None
    return Secret(text)


def _read_environment(fields: FieldReader, at: FieldPath) -> str | None:
    value = fields.value_at(at)
    match = ENV_PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        fields.add_problem(at, "a secret in plain text", "${NAME} of an environment variable", SECRET_HINT)
        return None
    text = os.environ.get(match["name"])
    if text is None:
        fields.add_problem(at, f"no environment variable {match['name']!r}", "one that is set")
    return text


def _read_file(fields: FieldReader, at: FieldPath, folder: Path) -> str | None:
    name = fields.text(at)
    if not name:
        return None
    try:
        with (folder / name).open(encoding="utf-8") as file:
            return file.read(MAX_LENGTH + 2).strip()
    except (OSError, UnicodeDecodeError) as error:
        fields.add_problem(
            at, f"no readable file {name!r} ({getattr(error, 'strerror', None) or 'not UTF-8'})", "a secret"
        )
        return None
