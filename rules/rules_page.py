"""The page that lists every rule: `python -m skewscope.rules.rules_page` prints it, `docs/rules.md` holds it."""

import sys
from collections.abc import Iterable

from skewscope.rules.model import Rule

INTRODUCTION = """\
# Rules

All rules, generated with `python -m skewscope.rules.rules_page > docs/rules.md`. `skewscope rules show ID` prints one
with its evidence; [rule.md](../rules/schema/rule.md) describes the language.
"""


def format_page(rules: Iterable[Rule]) -> str:
    """Returns a Markdown page with a table of the rules, sorted by id."""
    rows = [
        f"| [{rule.id}](../rules/{rule.id}.yaml) | {rule.title} | `{rule.condition}` | {rule.scope} | {rule.vantage} |"
        for rule in sorted(rules, key=lambda rule: rule.id)
    ]
    return "\n".join(
        [INTRODUCTION, "| id | title | condition | judges each | vantage |", "|---|---|---|---|---|", *rows, ""]
    )


if __name__ == "__main__":
    from skewscope.kb.loader import catalogue
    from skewscope.rules.loader import load_strict

    sys.stdout.write(format_page(load_strict(catalogue()).values()))
