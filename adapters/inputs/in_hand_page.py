"""The page of what people have in hand: `python -m skewscope.adapters.inputs.in_hand_page` prints `docs/in-hand.md`.

It is run at the root of a checkout, whose `docs/artefacts` it links.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.in_hand import InHand, list_in_hand
from skewscope.adapters.inputs.recording import load
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError

INTRODUCTION = """\
# What you have in hand

Generated from the readers of inputs and the formats of the catalogue with
`python -m skewscope.adapters.inputs.in_hand_page > docs/in-hand.md`. A test runs every command and reads
what it writes.

    skewscope diagnose FILE...

Kinds are recognised by content; several files may be given at once. There are three answers: findings (exit code 1);
nothing found, with what was judged and for how long (0); too little to judge, with what is missing (3), also where a
clock fell further than its load or lies below that of its peers, and a governor may have lowered it. Of a file that
cannot be read (2), the message says which kind it is most like, the first line that does not fit, and a command that
writes one that does. What was copied along with a text (colours, prompts, quote marks, fences) is left out and counted.
A text of no known kind is read where [names and units](recordings.md#texts-of-no-known-format) explain its numbers.
"""
HEADER = "| what you have | a command that writes it | what is read of a sample |\n|---|---|---|"
MESSAGES = """\
## Messages

Messages of kernels, libraries, engines and schedulers count in every log: {count} kinds, which
`skewscope kb list events` lists. Each becomes a finding at the GPU, port, engine, rank, node or job that it names.
In the log of an unknown program a line counts that the program marks as an error, and a warning of a failure that comes
at three moments.
"""
PAGES = Path("docs", "artefacts")
STEP_SIGNALS = {"step number": "step.duration", "step duration": "step.duration", "step rate": "step.duration"}
"""Signals of a job by the parts of its steps."""
REQUEST_SIGNALS = {
    "request duration": "serve.e2e",
    "request ttft": "serve.ttft",
    "request queue": "serve.queue_time",
    "request prefill": "serve.prefill_time",
    "request transfer": "serve.kv_xfer_time",
    "request decode": "serve.decode_time",
    "request tpot": "serve.itl",
    "request prompt_tokens": "serve.prompt_len",
    "request output_tokens": "serve.output_len",
    "request code": "serve.failure",
}
"""Signals of a server by the parts of its requests."""


def format_page(kinds: Iterable[InHand], pages: Path = PAGES) -> str:
    """Returns the page with a table of the kinds, linked to those that have a page in a folder."""
    known = catalogue().formats
    rows = [(one.kind in known, _row(one, pages)) for one in kinds]
    readers, formats = ([row for is_format, row in rows if is_format == wanted] for wanted in (False, True))
    return "\n".join(
        [
            INTRODUCTION,
            "## Files and logs\n",
            HEADER,
            *readers,
            "",
            "## Outputs of commands and logs, by formats\n",
            HEADER,
            *formats,
            "",
            MESSAGES.format(count=len(catalogue().events)),
        ]
    )


def _row(one: InHand, pages: Path) -> str:
    command = f"`{one.command}`" if one.command else ""
    is_format = one.kind in catalogue().formats
    link = f"../kb/formats/{one.kind}.yaml" if is_format else f"artefacts/{one.kind}.md"
    name = f"[{one.name}]({link})" if is_format or (pages / f"{one.kind}.md").is_file() else one.name
    signals = ", ".join(f"`{each}`" for each in read_signals(one))
    return f"| {name} | {command} | {signals or ('its messages' if is_format else '')} |"


def read_signals(one: InHand) -> list[str]:
    """Returns the ids of the signals that a sample gives, sorted; none for binary kinds and samples of events."""
    if made := catalogue().formats.get(one.kind):
        given = {str(item["signal"]) for sample in made.samples for item in sample.gives}
        return sorted({(STEP_SIGNALS | REQUEST_SIGNALS).get(name, name) for name in given})
    if not one.sample:
        return []
    with TemporaryDirectory() as folder:
        path = Path(folder) / one.file
        path.parent.mkdir(exist_ok=True)
        path.write_text(one.sample, encoding="utf-8")
        try:
            data = load(draft_recording([path]).recording, catalogue())
        except InputError:
            return []
    return sorted({key.signal for key in data.table.keys})


if __name__ == "__main__":
    sys.stdout.write(format_page(list_in_hand()))
