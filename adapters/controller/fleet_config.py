"""Parses the section `fleet` of the controller's config."""

from pathlib import Path

from skewscope.adapters.config.fields import read_number
from skewscope.adapters.fleet.fleet_settings import FleetSettings
from skewscope.engine.model.shards import ShardSizes
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath, type_label

OPTIONAL = ("ray", "nodes", "least", "most", "cpus", "host", "sites")
UNUSABLE = {
    "sources": "Shards read rows of agents only.",
    "record": "Shards record nothing; their journals are no recordings.",
    "leader": "Start one controller; the shards go on while it is away.",
    "targets": "Acting needs the whole fleet in one process.",
}
"""Sections that a fleet in shards cannot have, and why."""
MAX_NODES = 20_000


def read_fleet(fields: FieldReader, folder: Path) -> FleetSettings | None:
    """Returns the settings, None without the section; problems are added to `fields`."""
    at = ("fleet",)
    if fields.value_at(at) is None:
        return None
    fields.check_keys(at, ("state",), OPTIONAL)
    for name, why in UNUSABLE.items():
        if fields.value_at((name,)):
            fields.add_problem((name,), f"{name} beside fleet", "one of the two", why)
    known = ShardSizes()
    sizes = ShardSizes(
        int(read_number(fields, (*at, "least"), known.least, (1.0, MAX_NODES))),
        int(read_number(fields, (*at, "nodes"), known.aim, (1.0, MAX_NODES))),
        int(read_number(fields, (*at, "most"), known.most, (1.0, MAX_NODES))),
    )
    if not sizes.least <= sizes.aim <= sizes.most:
        found = f"least {sizes.least}, nodes {sizes.aim}, most {sizes.most}"
        fields.add_problem(at, found, "numbers of nodes in this order")
    settings = FleetSettings(folder / (fields.text((*at, "state")) or "shards"), sizes=sizes)
    return FleetSettings(
        settings.state,
        fields.text((*at, "ray")) or settings.ray,
        sizes,
        read_number(fields, (*at, "cpus"), settings.cpus, (0.0, 64.0)),
        fields.text((*at, "host")) or settings.host,
        _read_sites(fields, (*at, "sites")),
    )


def _read_sites(fields: FieldReader, at: FieldPath) -> dict[str, str]:
    value = fields.value_at(at)
    if value is None:
        return {}
    if not isinstance(value, dict):
        fields.add_problem(at, type_label(value), "a resource of Ray for each fleet of the topology")
        return {}
    return {name: fields.required_text((*at, name)) for name in value if isinstance(name, str)}
