"""The table of functions in rule.md: `python -m skewscope.rules.reference_table` renews it."""

import re

from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.schema_validation import SCHEMA_FOLDER
from skewscope.rules.signatures import RESULT_LABELS

REFERENCE = SCHEMA_FOLDER / "rule.md"
BEGIN = "<!-- functions: generated with `python -m skewscope.rules.reference_table`, checked by a test -->"
END = "<!-- /functions -->"


def format_table() -> str:
    """Returns the table of functions in Markdown."""
    rows = [
        f"| `{function.usage}` | {RESULT_LABELS.get(function.result, function.result)} | {function.description} |"
        for function in FUNCTIONS.values()
    ]
    return "\n".join(["| function | gives | what |", "|---|---|---|", *rows])


def renew_table(page: str) -> str:
    """Returns the language reference with the current table."""
    fence = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return fence.sub(lambda _: f"{BEGIN}\n\n{format_table()}\n\n{END}", page)


if __name__ == "__main__":
    REFERENCE.write_text(renew_table(REFERENCE.read_text(encoding="utf-8")), encoding="utf-8")
