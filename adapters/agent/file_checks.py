"""Checks the files that an agent's configuration names: whether they exist and can be used."""

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from skewscope.adapters.formats.file_kinds import has_file
from skewscope.engine.model.topology_file import parse_topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import FieldPath, read

if TYPE_CHECKING:
    from skewscope.adapters.agent.config import AgentConfig
    from skewscope.adapters.runtime.channel import ControllerEndpoint

FILE_FIELDS = ("token_file", "ca_file", "certificate_file", "key_file")
"""Fields of a controller."""
HINT = "Paths are relative to the folder of this file."


def check_files(fields: FieldReader, config: "AgentConfig") -> None:
    """Reports the problems of each file at the field that names it."""
    if has_file(Path(config.topology)):
        try:
            fields.problems += parse_topology(read(Path(config.topology)))[1]
        except InputError as error:
            fields.problems += error.problems
    places: list[tuple[FieldPath, str]] = [(("topology",), config.topology)]
    for index, controller in enumerate(config.controllers):
        at = ("controllers", index)
        places += [((*at, name), getattr(controller, name)) for name in FILE_FIELDS]
        _check_certificates(fields, at, controller)
        token = Path(controller.token_file)
        if controller.token_file and has_file(token) and not _is_printable(token):
            fields.add_problem((*at, "token_file"), "characters that do not print", "a token, in ASCII")
    for place, file in places:
        if file and not has_file(Path(file)):
            fields.add_problem(place, f"no file {file!r}", "a file that can be read", HINT)


def _is_printable(token: Path) -> bool:
    """Returns whether a token can be sent in a header."""
    try:
        text = token.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return bool(text) and text.isprintable()


def _check_certificates(fields: FieldReader, at: FieldPath, controller: "ControllerEndpoint") -> None:
    """Reports files that OpenSSL cannot use."""
    ca, certificate, key = controller.ca_file, controller.certificate_file, controller.key_file
    try:
        context = ssl.create_default_context(cafile=ca if has_file(Path(ca)) else None)
    except OSError:
        fields.add_problem((*at, "ca_file"), f"{ca!r}, which cannot be used", "certificates in PEM form")
        return
    if has_file(Path(certificate)) and has_file(Path(key)):
        try:
            context.load_cert_chain(certificate, key, password=str)
        except OSError:
            expected = "a certificate in PEM form, and its key, without a password"
            fields.add_problem(
                (*at, "certificate_file"), f"{certificate!r} and its key, which cannot be used", expected
            )
