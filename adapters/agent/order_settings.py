"""Parses the section `orders` of an agent's configuration: what controllers may have changed on its switch."""

from pathlib import Path

from skewscope.adapters.agent.orders import OrdersConfig
from skewscope.adapters.agent.switch_commands import KINDS, MOST_RATE, NAME, SwitchRights
from skewscope.adapters.config.fields import read_number
from skewscope.adapters.formats.order_protocol import LEAST_KEY
from skewscope.kb.field_reader import FieldReader

MAX_KEY = 4096
DEFAULT_LOWEST_RATE = 1_000_000
"""kbit/s: a limit of less than 1 Gbit/s needs a decision."""


def parse_orders(fields: FieldReader, file: Path) -> OrdersConfig | None:
    """Returns the section; None where it is missing: then no order is fetched."""
    at = ("orders",)
    if fields.value_at(at) is None:
        return None
    fields.check_keys(at, ("key_file", "kinds", "bridges"), ("lowest_rate", "folder"))
    kinds = fields.texts((*at, "kinds"), choice=KINDS)
    bridges = fields.texts((*at, "bridges"))
    for index, bridge in enumerate(bridges):
        if not NAME.fullmatch(bridge):
            fields.add_problem((*at, "bridges", index), f"{bridge!r:.80}", "the name of a bridge")
    lowest = int(read_number(fields, (*at, "lowest_rate"), DEFAULT_LOWEST_RATE, (1, MOST_RATE)))
    folder = fields.text((*at, "folder")) or SwitchRights.folder
    if not folder.startswith("/") or not folder.isprintable():
        fields.add_problem((*at, "folder"), f"{folder!r:.80}", "the whole path of a folder")
    return OrdersConfig(SwitchRights(kinds, bridges, lowest, folder.rstrip("/")), _read_key(fields, file))


def _read_key(fields: FieldReader, file: Path) -> str:
    at = ("orders", "key_file")
    name = fields.text(at)
    if not name:
        return ""
    try:
        with (file.parent / name).open(encoding="ascii") as key:
            text = key.read(MAX_KEY + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        found = f"no readable file {name!r} ({getattr(error, 'strerror', None) or 'not ASCII'})"
        fields.add_problem(at, found, "a file with the key that the controller's target has too")
        return ""
    if not LEAST_KEY <= len(text) <= MAX_KEY or not text.isprintable():
        hint = "Make one with: openssl rand -hex 32"
        fields.add_problem(at, f"a key of {len(text)} characters", f"{LEAST_KEY} to {MAX_KEY} printable ones", hint)
    return text
