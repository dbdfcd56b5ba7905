"""Commands of mitigations: their placeholders, filling them in safely for a shell, and what a shell would read."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace

from skewscope.kb.command_tools import COMMAND_TOOLS
from skewscope.kb.model import MitigationCommand

FILLED_PLACEHOLDERS: Mapping[str, str] = {
    "condition": "id of the condition",
    "device": "network interface of the port",
    "gpu": "index of the GPU on its node",
    "gpu_pci": "PCI address of the GPU",
    "group": "parallel group",
    "incident": "id of the incident",
    "node": "node",
    "peer_node": "node at the other end of the port's link",
    "pool": "pool of replicas",
    "port": "port as the topology names it",
    "rack": "rack of the node",
    "rank": "rank as the topology names it",
    "rdma_device": "RDMA device of the port",
    "replica": "replica",
    "switch": "switch that the port is connected to",
}
"""Placeholders that an incident and the topology fill in."""

GIVEN_PLACEHOLDERS: Mapping[str, str] = {
    "adapter_pci": "PCI address of the adapter",
    "address": "address and port that the command needs",
    "backend": "backend of the load balancer",
    "bridge_pci": "PCI address of the PCIe bridge",
    "bridge": "bridge of Open vSwitch",
    "command": "the program with its arguments as they are",
    "devlink_port": "port of devlink, as DEVICE/INDEX",
    "deployment": "Deployment of Kubernetes",
    "file": "file as it is named in the deployment",
    "former": "the value before, noted before the change",
    "job": "id of the scheduler's job",
    "key": "name of the setting",
    "lid": "LID of the switch",
    "memory_node": "number of the NUMA domain",
    "namespace": "namespace of Kubernetes",
    "number": "a number, chosen for the deployment",
    "pod": "pod of Kubernetes",
    "priority": "number of the priority",
    "process": "name or id of the process",
    "rate": "a rate, chosen for the deployment",
    "router": "host and port of the router",
    "seconds": "a time in seconds",
    "server": "server of the load balancer",
    "service": "service of the node",
    "share": "a share between 0 and 1",
    "spare": "a node without work",
    "size": "a size, chosen for the deployment",
    "switch_port": "port of the switch",
    "value": "a value, chosen for the deployment",
    "worker": "id that the router gave the replica",
    "worker_url": "address under which the router knows the replica",
}
"""Placeholders that only the operator knows; they stay open."""

PLACES: Mapping[str, str] = {
    "login": "on a login machine",
    "node": "on {node}",
    "dpu": "on the DPU of {node}",
    "switch": "on {switch}",
    "job": "in the start script of the job",
    "engine": "at the start of {replica}",
    "router": "at the router",
}
"""Where a command is run or written, in words, by its `where`."""

PLACEHOLDERS = frozenset(FILLED_PLACEHOLDERS) | frozenset(GIVEN_PLACEHOLDERS)

_PLACE_NAMES: Mapping[str, Mapping[str, str]] = {
    "node": {
        "node": "node {}",
        "rank": "the machine of {}",
        "replica": "a machine of replica {}",
        "group": "a machine of group {}",
    },
    "switch": {"switch": "switch {}"},
    "replica": {
        "replica": "the engine of {}",
        "pool": "the engines of pool {}",
        "group": "the engine of group {}",
        "node": "the engine on node {}",
    },
}
"""By placeholder of a place: what names it, the first that is known, and in which words."""

COMMAND_TEXTS = ("do", "undo", "check", "former")
"""The fields of a command that are typed."""

_placeholder = re.compile(r"\{([a-z_]+)\}")
_OPERATORS = frozenset("();<>|&")
MAX_VALUE_LENGTH = 200


def placeholders(template: str) -> tuple[str, ...]:
    """Returns the names of the placeholders of a template, each once, in order."""
    return tuple(dict.fromkeys(_placeholder.findall(template)))


def fill_template(template: str, values: Mapping[str, str], tool: str = "") -> str:
    """Returns the template with each known value quoted for a shell; what is unknown or unsafe stays as `NAME`.

    In capitals and without brackets: a shell would read `<name>` as a redirection from one file and to another.
    """

    def quote(match: re.Match[str]) -> str:
        value = values.get(match[1], "")
        return shlex.quote(value) if is_safe_value(value, tool) else match[1].upper()

    return _placeholder.sub(quote, template)


def is_safe_value(value: str, tool: str = "") -> bool:
    """Returns whether a name can be an argument, quoted: not empty, no option, no control, one entity to the tool."""
    known = COMMAND_TOOLS.get(tool)
    if not value.strip() or not value.isprintable() or value.startswith("-") or len(value) > MAX_VALUE_LENGTH:
        return False
    return known is None or (not set(value) & set(known.ambiguous) and value.lower() not in known.every)


def fill_command(command: MitigationCommand, values: Mapping[str, str]) -> MitigationCommand:
    """Returns a command with its placeholders filled in as far as the values are known, and its place in words."""
    do, undo, check, former = (fill_template(getattr(command, name), values, command.tool) for name in COMMAND_TEXTS)
    place, do, undo = describe_place(command.where, values), _add_start(do, command), _add_start(undo, command)
    return replace(command, where=place, do=do, undo=undo, check=check, former=former)


def describe_place(where: str, values: Mapping[str, str]) -> str:
    """Returns where a command is run, in words: `on node n2`, or `on the machine of rank10` without a node."""

    def name(match: re.Match[str]) -> str:
        unknown = next(iter(_PLACE_NAMES[match[1]].values())).format(match[1].upper())
        return name_place(match[1], values) or unknown

    return _placeholder.sub(name, PLACES[where])


def name_place(placeholder: str, values: Mapping[str, str]) -> str:
    """Returns in words what stands for a placeholder of a place; '' where nothing that names it is known."""
    known = ((values.get(name), words) for name, words in _PLACE_NAMES[placeholder].items())
    return next((words.format(value) for value, words in known if value), "")


def _add_start(options: str, command: MitigationCommand) -> str:
    """Returns options behind the start command that they are added to; three dots stand for those that it has now."""
    tool = COMMAND_TOOLS.get(command.tool)
    return f"{tool.start} ... {options}" if options and tool is not None and tool.start else options


def find_shell_faults(template: str) -> tuple[str, ...]:
    """Returns what of a command line a shell would read as more than one plain command, in words."""
    faults = []
    if _has_quoted_placeholder(template):
        faults.append("a placeholder inside quotes")
    bare = _placeholder.sub("x", template)
    if any(mark in bare for mark in "$`\\"):
        faults.append("a variable, a substitution or a backslash")
    try:
        lexer = shlex.shlex(bare, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        found = [word for word in lexer if word and set(word) <= _OPERATORS]
    except ValueError:
        return (*faults, "quotes that do not close")
    return (*faults, *(f"the operator {word!r}" for word in found))


def _has_quoted_placeholder(template: str) -> bool:
    open_quote = ""
    for part in re.findall(r"\{[a-z_]+\}|.", template):
        if len(part) > 1 and open_quote:
            return True
        if part in ("'", '"') and part in (open_quote or part):
            open_quote = "" if open_quote else part
    return False


def first_word(text: str) -> str:
    """Returns the first word of a command line."""
    return text.split(maxsplit=1)[0] if text.split() else ""
