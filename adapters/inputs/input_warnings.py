"""Sentences on what was read of the inputs of a recording, and what was not."""

from collections.abc import Iterable, Iterator, Sequence

from skewscope.kb.problems import Problem, join_names

MAX_NAMED = 3


def problem_text(problem: Problem) -> str:
    """Returns a problem without the file and its folder, which the text around it names."""
    place = ", ".join(filter(None, (f"line {problem.line}" if problem.line else "", problem.field)))
    return f"{place}: {problem.found}" if place else problem.found


def unread_text(name: str, problems: Sequence[Problem]) -> str:
    """Returns that an input was not read, and the first of its problems."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{name} is left out: {problem_text(problems[0])}{more}"


def group_warnings(warnings: Iterable[tuple[str, str, Sequence[str]]]) -> Iterator[str]:
    """Yields the warnings of all inputs; one that several inputs share names the first of them.

    Args:
        warnings: of each input its path, with which some of its warnings begin, what it is called, and its warnings.
    """
    names: dict[str, list[str]] = {}
    for path, name, texts in warnings:
        for text in texts:
            rest = text.removeprefix(f"{path}: ")
            names.setdefault(rest, []).append("" if rest == text else name)
    for text, some in names.items():
        named = sorted({name for name in some if name})
        yield f"{join_names(named, MAX_NAMED)}: {text}" if named else text
