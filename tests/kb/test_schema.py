"""The schemas are sound, agree with each other, and the prose beside each tells of the same fields."""

import re

import pytest
from jsonschema import Draft202012Validator

from skewscope.kb.entry_kinds import KINDS, builtin_folder
from skewscope.kb.loader import catalogue
from skewscope.kb.schema_validation import schema, validate_entry
from skewscope.kb.units import NAMED_UNITS
from skewscope.kb.yamlfile import parse

SINGULAR = [kind.removesuffix("s") for kind in KINDS]


def resolved(prop: dict, kind: str) -> dict:
    """A property with what it refers to."""
    if "$ref" not in prop:
        return prop
    return {**schema(kind)["$defs"][prop["$ref"].removeprefix("#/$defs/")], **prop}


def row(name: str, kind: str) -> str:
    """The row of a field in the prose beside its schema."""
    prop = resolved(schema(kind)["properties"][name], kind)
    choice = prop.get("enum") or resolved(prop.get("items", {}), kind).get("enum") or []
    text = prop["description"]
    if not all(str(word) in text for word in choice):
        text += f" {'One' if 'enum' in prop else 'Some'} of {', '.join(f'`{word}`' for word in choice)}."
    return f"| `{name}` | {'yes' if name in schema(kind)['required'] else ''} | {text} |"


def prose(kind: str) -> str:
    return (builtin_folder() / f"schema/{kind}.md").read_text()


@pytest.mark.parametrize("kind", SINGULAR)
def test_a_schema_is_one(kind):
    Draft202012Validator.check_schema(schema(kind))
    assert schema(kind)["$schema"].endswith("2020-12/schema")


def mappings(value: object) -> list[dict]:
    """Every mapping with named fields inside a schema."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    own = [value] if isinstance(value, dict) and isinstance(value.get("properties"), dict) else []
    return own + [one for child in inner for one in mappings(child)]


@pytest.mark.parametrize("kind", SINGULAR)
def test_no_mapping_takes_fields_that_nobody_reads(kind):
    found = mappings(schema(kind))
    assert found
    assert all(one["additionalProperties"] is False for one in found)
    assert all(set(one["required"]) <= set(one["properties"]) for one in found)


def test_what_several_schemas_define_they_define_alike():
    seen: dict[str, object] = {}
    for kind in SINGULAR:
        for name, shape in schema(kind).get("$defs", {}).items():
            assert seen.setdefault(name, shape) == shape, name


@pytest.mark.parametrize("kind", SINGULAR)
def test_every_field_has_its_row_in_the_prose_and_every_row_its_field(kind):
    fields = list(schema(kind)["properties"])
    rows = [line for line in prose(kind).splitlines() if line.startswith("| `")]
    assert rows == [row(name, kind) for name in fields]


@pytest.mark.parametrize("kind", SINGULAR)
def test_the_example_in_the_prose_is_an_entry(kind):
    example = re.findall(r"```yaml\n(.*?)```", prose(kind), re.DOTALL)[0]
    assert validate_entry(kind, parse(example)) == ()


@pytest.mark.parametrize("kind", SINGULAR)
def test_every_field_is_in_use_or_waits_for_its_first_withdrawal(kind):
    used = {key for path in (builtin_folder() / f"{kind}s").iterdir() for key in parse(path.read_text()).data}
    unused = set(schema(kind)["properties"]) - used
    assert unused <= {"withdrawn", "causes", "adapters"}


def test_units_that_have_a_name_are_used_or_are_steps_of_one_that_is():
    used = {signal.unit for signal in catalogue().signals.values()}
    dimensions = {NAMED_UNITS[name].dimension for name in used if name in NAMED_UNITS}
    assert {NAMED_UNITS[name].dimension for name in ("s", "By", "1", "J", "W", "Cel", "Hz")} <= dimensions
