"""A commented `skewscope.yaml` to begin with: what it sets is the default or asked for; the rest stands in comments."""

TOPOLOGY_HINT = "skewscope topology discover --prometheus URL > topology.yaml"
TEMPLATE = """\
# The config of a controller: skewscope run --config {name}
# Check it after each change:  skewscope config check {name}
# Lines that begin with `#` and a letter are settings to uncomment; all others in comments are explanations.
# All fields: docs/controller.md
version: 1

# Nodes, ports, groups and pools. Paths are relative to this file.
# A draft from what you have:  {hint}
topology: {topology}

# Where the API listens. On loopback everyone on this machine may read, and agents may push.
listen: {{host: 127.0.0.1, port: 8470}}

# Incidents survive a restart in this file. Resolved ones are deleted after so many days; 0 keeps them.
store: {{path: skewscope.db, retention_days: 90}}

# --- Telemetry beyond that of agents (docs/sources.md).

# Pages of exporters and engines, read every `period` seconds.
#sources:
#  - {{kind: scrape, name: engines, targets: ["127.0.0.1:8000"], period: 5}}
#  - {{kind: scrape, name: gpus, targets: ["127.0.0.1:9400"], period: 5}}

# --- Who is notified (docs/notifications.md).

# Kinds: alertmanager, cloudevents, chat (needs the extra `chat`), nvsentinel (needs the extra of that name).
#tell:
#  - {{kind: alertmanager, name: alerts, urls: ["http://127.0.0.1:9093"]}}

# --- Access from other machines: tokens first, then `host: 0.0.0.0` above, and TLS (`tls`).

# A token has at least 16 characters and comes from the environment or a file.
#auth:
#  anonymous: none
#  tokens:
#    - {{name: ops, role: admin, token: "${{OPS_TOKEN}}"}}
#    - {{name: dashboards, role: read, token: "${{READ_TOKEN}}"}}

# --- Recordings of what was received, for `skewscope replay`.

#record: {{path: recorded, retention_hours: 24, retention_gib: 50}}

# --- Rules and entries of your own (docs/site-knowledge.md): a folder, checked by `skewscope knowledge check FOLDER`.

#knowledge: site

# --- Acting (docs/acting.md). Without it nothing is ever changed; `propose` plans changes and waits for a person.

#actions:
#  mode: observe
"""
EXAMPLE_TOPOLOGY = """\
# Two nodes as an example: replace them. A draft from what you have:
#   {hint}
# All fields: docs/topology.md
version: 1
nodes:
  - {{name: n0, rack: r0}}
  - {{name: n1, rack: r0}}
groups:
  - {{name: job, kind: data-parallel, members: [n0, n1]}}
"""


def config_template(name: str, topology: str) -> str:
    """Returns the text of a config file with this name, beside a topology file with this one."""
    return TEMPLATE.format(name=name, topology=topology, hint=TOPOLOGY_HINT)


def example_topology() -> str:
    """Returns the text of a topology file that the config can be checked with."""
    return EXAMPLE_TOPOLOGY.format(hint=TOPOLOGY_HINT)
