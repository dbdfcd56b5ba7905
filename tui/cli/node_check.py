"""The command `check`: whether nodes may be used, for the prolog of a scheduler."""

import os
from collections.abc import Iterator

import click

from skewscope.adapters.health_client import Health, HealthAnswer
from skewscope.kb.problems import InputError, Problem, join_names
from skewscope.tui.cli.controller import ControllerCommand
from skewscope.tui.cli.controller_client import ControllerAddress, connection_options
from skewscope.tui.cli.options import json_option
from skewscope.tui.cli.terminal import EXIT_OK, EXIT_PROBLEMS, EXIT_TOO_LITTLE, print_json
from skewscope.tui.console.launcher import TOKEN_VARIABLE
from skewscope.tui.render import text

PASS, FAIL, UNKNOWN = "PASS", "FAIL", "UNKNOWN"
KINDS = ("node", "gpu", "group", "replica")
TIMEOUT_S = 5.0
MAX_REASONS = 3


@click.command("check", cls=ControllerCommand)
@click.argument("names", nargs=-1, required=True, metavar="NODE...")
@click.option("--kind", type=click.Choice(KINDS), default="node", help="What the names are of (default: node).")
@click.option("--least", type=click.FloatRange(0, 1), default=0.8, help="Health from which on one passes (0.8).")
@json_option
@connection_options
@click.pass_context
def check(
    ctx: click.Context, /, names: tuple[str, ...], kind: str, least: float, as_json: bool, controller: ControllerAddress
) -> None:
    """Say whether nodes may be used: PASS, FAIL or UNKNOWN, with reasons.

    Exit code: 0 where all pass, 1 where one fails, 3 where one is unknown and none fails. What sends no telemetry, is
    gone, or is asked of a controller that does not answer is unknown.
    """
    client = _client(controller)
    found = [(answer, judge_health(answer, least)) for answer in (client.query(kind, name) for name in names)]
    if as_json:
        print_json([_as_json(answer, verdict) for answer, verdict in found])
    else:
        for answer, verdict in found:
            click.echo(text.sanitise(f"{verdict:7} {answer.name}  {'; '.join(list_reasons(answer))}".rstrip()))
    verdicts = {verdict for _, verdict in found}
    ctx.exit(EXIT_PROBLEMS if FAIL in verdicts else EXIT_TOO_LITTLE if UNKNOWN in verdicts else EXIT_OK)


def judge_health(answer: HealthAnswer, least: float) -> str:
    """Returns PASS, FAIL or UNKNOWN: what is not known is neither of the others."""
    if answer.score is None:
        return UNKNOWN
    return PASS if answer.at_least(least) else FAIL


def list_reasons(answer: HealthAnswer) -> Iterator[str]:
    """Yields what lowers the health, or why it is not known."""
    if answer.trouble:
        yield answer.trouble
    if answer.reasons:
        named = (f"{one.get('condition', '?')} ({one.get('severity', '?')})" for one in answer.reasons)
        yield join_names(list(named), MAX_REASONS)
    if answer.score is not None and answer.coverage is not None and answer.coverage < 1:
        yield f"{answer.coverage:.0%} of its telemetry arrives"


def _client(controller: ControllerAddress) -> Health:
    """Returns a client; a token is sent only to an address that was named."""
    token = ""
    if controller.is_named:
        file = controller.token_file
        try:
            token = file.read_text("ascii").strip() if file else os.environ.get(TOKEN_VARIABLE, "")
        except (OSError, UnicodeDecodeError):
            raise InputError(
                [Problem("--token-file", 0, "", f"an unreadable file, {file}", "a file with a token")]
            ) from None
    return Health(controller.url, token, TIMEOUT_S, ca_file=os.environ.get("SSL_CERT_FILE", ""))


def _as_json(answer: HealthAnswer, verdict: str) -> dict[str, object]:
    return {
        "kind": answer.kind,
        "name": answer.name,
        "verdict": verdict,
        "score": answer.score,
        "coverage": answer.coverage,
        "reasons": list(list_reasons(answer)),
    }
