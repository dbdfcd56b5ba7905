"""Series are attributed to an entity only where their labels say which one; else the reason names what would decide."""

import pytest

from skewscope.adapters.formats.topology_text import format_topology
from skewscope.adapters.mapping.entities import EntityResolver, UnmappedError
from skewscope.engine.model.topology_file import parse_topology, parse_valid_topology
from skewscope.kb.yamlfile import parse

ONE_HOST = """
version: 1
nodes: [{name: n0, gpus: 8}, {name: n1, gpus: 8}]
groups:
  - {name: A, kind: tensor-parallel, members: [n0/gpu0, n0/gpu1], front_end: n0%s}
  - {name: B, kind: tensor-parallel, members: [n0/gpu2, n0/gpu3], front_end: n0%s}
  - {name: C, kind: tensor-parallel, members: [n1], front_end: n1}
"""
IDENTIFIED = """
version: 1
nodes:
  - name: n0
    aliases: [n0-dpu0, n0-dpu1, 10.9.0.1]
    gpus:
      - {uuid: GPU-aa, pci: "00000000:3B:00.0"}
      - {uuid: GPU-bb, pci: "0000:5e:00.0"}
    ports:
      - {name: ew0, network: east-west, devices: [mlx5_0, n0-dpu0/mlx5_0]}
      - {name: ew1, network: east-west, devices: [mlx5_1, n0-dpu1/mlx5_0]}
"""


def resolver(text):
    return EntityResolver(parse_valid_topology(parse(text)))


def engines(first="", second=""):
    return resolver(ONE_HOST % (first and f", engine: {first}", second and f", engine: {second}"))


@pytest.mark.parametrize(
    ("labels", "group"),
    [
        ({"instance": "n0:8000"}, "A"),
        ({"instance": "http://n0:8000"}, "A"),
        ({"instance": "n0:8001", "model_name": "large"}, "B"),
        ({"instance": "n0:8002", "replica": "B"}, "B"),
        ({"instance": "n1:9000"}, "C"),
    ],
)
def test_declared_labels_tell_two_engines_of_one_host_apart(labels, group):
    found = engines("{instance: 'n0:8000'}", "{instance: 'n0:8001', model_name: 'large*'}")
    assert found.resolve("engine", labels)[:2] == ("replica", group)


@pytest.mark.parametrize(
    ("declared", "labels", "reason"),
    [
        ((), {"instance": "n0:8000"}, "it may be of group A or B: `engine: {instance: ...}`"),
        (("{instance: 'n0:8000'}", "{instance: 'n0:8001'}"), {"instance": "n0:8002"}, "(instance)"),
        (("{pod: 'a-*'}", "{pod: 'a-1*'}"), {"pod": "a-12", "node": "n0"}, "A or B: their `engine` labels both hold"),
    ],
)
def test_an_engine_that_could_be_two_is_of_neither(declared, labels, reason):
    with pytest.raises(UnmappedError) as told:
        engines(*declared).resolve("engine", labels)
    assert reason in str(told.value)


def test_more_declared_labels_are_more_exact():
    found = engines("{model_name: m}", "{model_name: m, pod: b}")
    assert found.resolve("engine", {"model_name": "m", "pod": "b", "node": "n0"})[1] == "B"
    assert found.resolve("engine", {"model_name": "m", "pod": "a", "node": "n0"})[1] == "A"


@pytest.mark.parametrize(
    ("word", "labels", "name"),
    [
        ("gpu", {"node": "n0", "UUID": "gpu-BB"}, "n0/gpu1"),
        ("gpu", {"node": "n0", "gpu": "0", "UUID": "GPU-bb"}, "n0/gpu1"),
        ("gpu", {"node": "n0", "pci_bus_id": "0000:3b:00.0"}, "n0/gpu0"),
        ("gpu", {"node": "n0", "gpu": "1"}, "n0/gpu1"),
        ("port", {"host": "n0", "device": "mlx5_0"}, "n0/ew0"),
        ("port", {"host": "n0", "device": "mlx5_1"}, "n0/ew1"),
        ("port", {"host": "n0-dpu1", "device": "mlx5_0", "port": "1"}, "n0/ew1"),
        ("node", {"instance": "10.9.0.1:9100"}, "n0"),
        ("node", {"instance": "n0-dpu1.cluster.local:9100"}, "n0"),
    ],
)
def test_an_id_of_hardware_and_another_host_name_say_where(word, labels, name):
    assert resolver(IDENTIFIED).resolve(word, labels)[1] == name


@pytest.mark.parametrize(
    ("word", "labels", "reason"),
    [
        ("gpu", {"node": "n0", "UUID": "GPU-cc"}, "its UUID or PCI address is of no GPU"),
        ("port", {"host": "n0-dpu1", "device": "mlx5_1"}, "its device belongs to no port"),
    ],
)
def test_hardware_that_is_not_known_is_nowhere(word, labels, reason):
    with pytest.raises(UnmappedError, match=reason):
        resolver(IDENTIFIED).resolve(word, labels)


@pytest.mark.parametrize("text", [IDENTIFIED, ONE_HOST % (", engine: {pod: 'a-*'}", "")])
def test_what_identifies_is_printed_and_read_back(text):
    made = parse_valid_topology(parse(text))
    assert parse_valid_topology(parse(format_topology(made))) == made


def test_two_groups_with_the_same_engine_and_two_nodes_with_one_name_are_told():
    _, problems = parse_topology(parse(ONE_HOST % (", engine: {pod: a}", ", engine: {pod: a}")))
    assert [(each.line, each.expected) for each in problems] == [(6, "labels that no other group's engine has")]
    _, problems = parse_topology(parse("version: 1\nnodes: [{name: a}, {name: b, aliases: [a]}]"))
    assert [each.field for each in problems] == ["nodes[1].aliases[0]"]


RANKS = """
version: 1
nodes: [{name: h0, gpus: 2}, {name: h1, gpus: 2}, {name: h2}]
groups:
  - {name: gpus, kind: data-parallel, members: [h0/gpu0, h0/gpu1, h1/gpu0, h1/gpu1]}
  - {name: nodes, kind: pipeline-parallel, members: [h0, h1, h2]}
"""


@pytest.mark.parametrize(
    ("labels", "member"),
    [
        ({"group": "gpus", "rank": "1"}, "gpus:h0/gpu1"),
        ({"group": "gpus", "rank": "1", "node": "h0"}, "gpus:h0/gpu1"),
        ({"group": "gpus", "rank": "1", "nranks": "4"}, "gpus:h0/gpu1"),
        ({"group": "gpus", "rank": "1", "nranks": "16384"}, "gpus:h0/gpu1"),
        ({"group": "gpus", "rank": "1", "node": "h0", "gpu": "1"}, "gpus:h0/gpu1"),
        ({"group": "gpus", "rank": "1", "instance": "elsewhere:9100"}, "gpus:h0/gpu1"),
        ({"group": "nodes", "rank": "2", "host": "h2.example.com"}, "nodes:h2"),
    ],
)
def test_a_rank_is_a_place_among_the_members(labels, member):
    assert resolver(RANKS).resolve("rank", labels)[1] == member


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({"group": "gpus", "rank": "1", "node": "h1"}, "its rank and its node disagree"),
        ({"group": "nodes", "rank": "1", "instance": "h2:9100"}, "its rank and its node disagree"),
        ({"group": "gpus", "rank": "1", "node": "h0", "gpu": "0"}, "its rank and its GPU disagree"),
        ({"group": "gpus", "rank": "4"}, "it is a member of no group"),
        ({"group": "gpus", "rank": "1", "nranks": "5"}, "its group has another number of ranks"),
        ({"group": "gpus", "rank": "123456"}, "it is a member of no group"),
        ({"rank": "1"}, "no label says which node it is from"),
    ],
)
def test_a_rank_that_its_other_labels_contradict_is_of_no_member(labels, reason):
    with pytest.raises(UnmappedError, match=reason):
        resolver(RANKS).resolve("rank", labels)
