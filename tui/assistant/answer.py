"""An answer for an assistant: what was concluded, the text that says why, and whether it was cut."""

from collections.abc import Mapping
from dataclasses import dataclass

MAX_TEXT = 24_000
"""Characters of an answer: an assistant reads it as a whole, at a cost."""
MEANINGS: Mapping[int, str] = {
    0: "nothing found",
    1: "findings",
    2: "could not run",
    3: "too little to judge",
}
"""What the exit codes of the commands mean. The last one is no all-clear."""


@dataclass(frozen=True)
class Answer:
    """What a tool returns. Without slots, of which the SDK can make no schema."""

    conclusion: str
    """One of MEANINGS, or `answered` for a question that has no findings."""
    text: str
    is_cut: bool = False
    """Whether the text is only the beginning."""


def build_answer(conclusion: str, text: str) -> Answer:
    """Returns an answer of bounded size, which ends at a line."""
    text = text.strip()
    if len(text) <= MAX_TEXT:
        return Answer(conclusion, text)
    head = text[:MAX_TEXT].rpartition("\n")[0] or text[:MAX_TEXT]
    return Answer(conclusion, f"{head}\n(cut: {len(text) - len(head)} more characters)", is_cut=True)
