"""A program of the user that carries out changes, by the contract of docs/acting-hooks.md. There is no shell.

The program gets a small environment of its own, so that secrets of the controller do not reach it.
"""

import re
from dataclasses import dataclass

from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call, CommandCall
from skewscope.adapters.targets.common.external import EXTERNAL_FIELDS, ExternalSettings, ExternalTarget, read_external
from skewscope.adapters.targets.common.settings import read_command
from skewscope.adapters.targets.common.transports import pick_environment, run_command
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

VARIABLE_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True)
class ExecSettings:
    """Settings of one program."""

    external: ExternalSettings
    command: tuple[str, ...]
    environment: tuple[str, ...] = ()
    """Names of further variables that it gets."""

    def render(self, body: str) -> Call:
        """Returns the command with a body as its standard input."""
        return CommandCall(self.command, body)

    async def send(self, call: Call) -> str:
        """Runs the program and returns its standard output.

        Raises:
            TargetError: it fails, or takes too long.
        """
        if not isinstance(call, CommandCall) or call.arguments != self.command:
            raise TargetError(f"{self.external.common.name}: a call of another program than {self.command[0]}")
        return await run_command(call, self.external.common.timeout, pick_environment(*self.environment))


def read(fields: FieldReader, at: FieldPath, name: str) -> ExecSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "command", "changes", "members"), (*EXTERNAL_FIELDS, "environment"))
    names = fields.texts((*at, "environment"))
    for each in names:
        if not VARIABLE_PATTERN.fullmatch(each):
            fields.add_problem((*at, "environment"), f"{each!r:.80}", "the name of an environment variable")
    return ExecSettings(read_external(fields, at, name), read_command(fields, (*at, "command")), names)


def build(settings: ExecSettings) -> ExternalTarget:
    """Creates the target."""
    return ExternalTarget(settings.external, settings)
