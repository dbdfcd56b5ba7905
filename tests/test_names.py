"""Names: public classes are unique, functions are verbs or nouns, terms stand in the glossary, imports stay shallow."""

import re
from pathlib import Path

import pytest

import skewscope
from bench.code_measures import (
    functions,
    import_levels,
    is_named_by_participle,
    parse_sources,
    public_classes,
    repeated_classes,
)

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
MAX_LEVELS = 8

# Names that a library calls, and words that are nouns or adjectives here.
CALLBACKS = {
    *("connection_made", "connection_lost", "data_received", "datagram_received", "error_received"),
    "pipe_data_received",
}
NOUNS = {"format_seen", "labelled", "load_cached", "parse_upper_bound", "rendered", "required", "windowed"}
PRIVATE_LANGUAGE = (
    "banks|board|camera|chosen|desk|door|film|ground|heir|heard|hook|laid|letter|listing|machine|messenger|nearness"
    "|nobody|nought|nowhere|office|panel|porch|reel|rhythm|roll|roster|said|scene|shelf|somebody|spoken|suspect|teller"
    "|telling|told|voice|wish|workshop"
)
TERMS = (
    "alert|alternative|assessment|attribution|baseline|block|candidate|catalogue|condition|confidence|controller|coverage"
    "|entity|evidence|explained by|fact|frame|front end|group|impact|incident|let|locality|mitigation|node-day"
    "|observability|operator|peers|policy|pool|port|rail|rank|recording|replica|root|round|rule|sample|selector|series"
    "|signal|silence|snapshot|source|suspicion|tick|topology|unknown|vantage|verdict|warm-up|window"
)


def words_of(name: str) -> set[str]:
    """Returns the words of a name in any case, in small letters."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_"))


def test_public_class_names_are_unique():
    assert not repeated_classes(parse_sources(ROOT))


def test_no_public_function_is_named_by_a_participle():
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, tree in parse_sources(ROOT).items()
        for node in functions(tree)
        if is_named_by_participle(node.name)
        and not node.name.startswith(("_", "on_"))
        and node.name not in CALLBACKS | NOUNS
    }
    assert not found


def test_no_module_is_named_by_a_participle():
    stems = {path.stem for path in parse_sources(ROOT)} - NOUNS
    assert not {stem for stem in stems if is_named_by_participle(stem)}


def test_no_module_class_or_public_function_has_a_word_of_a_private_language():
    names = {path.stem for path in parse_sources(ROOT)} | set(public_classes(parse_sources(ROOT)))
    names |= {
        node.name for tree in parse_sources(ROOT).values() for node in functions(tree) if not node.name.startswith("_")
    }
    assert not {name for name in names if words_of(name) & set(PRIVATE_LANGUAGE.split("|"))}


@pytest.mark.parametrize("term", TERMS.split("|"))
def test_the_glossary_has_the_terms_of_the_documentation(term):
    assert f"- **{term}**: " in GLOSSARY


@pytest.mark.parametrize("name", [name for name in skewscope.__all__ if name[0].isupper()])
def test_the_glossary_has_the_classes_of_the_public_interface(name):
    assert f"- **`{name}`**: " in GLOSSARY


def test_terms_of_the_glossary_are_unique_and_sorted():
    for section in GLOSSARY.split("\n## ")[1:]:
        terms = [term.strip("`").lower() for term in re.findall(r"^- \*\*(.+?)\*\*: ", section, re.MULTILINE)]
        assert terms == sorted(set(terms))
        assert len(terms) == section.count("\n- ")


def test_levels_of_imports_in_the_engine():
    levels = import_levels(ROOT, "engine")
    assert max(levels.values()) <= MAX_LEVELS, max(levels, key=levels.__getitem__)
