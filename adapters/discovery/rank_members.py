"""Members of a group out of the labels of its ranks: the member at place N is that of rank N.

A rank without data, such as one whose file was lost, keeps its place: without it the data of all later ranks would be
that of the rank before.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from skewscope.adapters.discovery.draft import GUESS, LIKELY, Assumption
from skewscope.adapters.mapping.entities import GPU_LABELS, GPU_PATTERN
from skewscope.engine.model.topology_file import NODE_WITHOUT
from skewscope.kb.problems import join_names

PARALLELISM = {
    "tensor": "tensor-parallel",
    "pipeline": "pipeline-parallel",
    "data": "data-parallel",
    "expert": "expert-parallel",
}
MAX_RANKS = 100_000
MAX_UNSEEN = 4096
"""Ranks without data that have a place; later ones have none, and those between have one first."""
MAX_DIGITS = 5
"""Digits of a rank's number."""
MAX_BLOCK = 128
"""Ranks of one node."""
MAX_NAMED = 4
"""Ranks that an assumption names."""


@dataclass
class RankLabels:
    """What the series of one group say of its ranks."""

    nodes: dict[str, str] = field(default_factory=dict)
    """Node of each rank, '' where no label gives it; of rank '' for series of the group."""
    gpus: dict[str, int] = field(default_factory=dict)
    global_ranks: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    hosts: set[str] = field(default_factory=set)
    """Nodes with series that name the group but no rank."""
    run: str = ""
    """The run of the job, where there are several."""
    size: int = 0
    """Number of ranks by the label `nranks`; 0 where no series has it."""

    def add(self, labels: Mapping[str, str], node: str) -> None:
        """Adds the labels of a series."""
        self.kind = self.kind or PARALLELISM.get(labels.get("parallelism", "").removesuffix("-parallel"), "")
        self.size = max(self.size, min(_number(labels.get("nranks", ""), 9), MAX_RANKS))
        self.run = self.run or labels.get("run", "")
        rank = _canonical_rank(labels.get("rank") or labels.get("member") or "")
        if not rank or (rank not in self.nodes and len(self.nodes) >= MAX_RANKS):
            return
        if node or rank not in self.nodes:
            self.nodes[rank] = node
        if text := _canonical_rank(labels.get("global_rank", "")):
            self.global_ranks[rank] = text
        gpu = GPU_PATTERN.fullmatch(next((labels[label] for label in GPU_LABELS if labels.get(label)), ""))
        if gpu:
            self.gpus[rank] = int(gpu[1])

    @property
    def ranks(self) -> list[str]:
        """Names of ranks with data, numbers in their order first."""
        return sorted((rank for rank in self.nodes if rank), key=_rank_key)


@dataclass
class RankMembers:
    """The members of one group."""

    members: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    """Ranks without data, each with a place among the members."""
    beyond: list[str] = field(default_factory=list)
    """Ranks with data behind too many without, which have no place."""
    shared: dict[str, list[str]] = field(default_factory=dict)
    """Ranks that name the same node or GPU, by it: none of them is placed."""
    assumptions: list[Assumption] = field(default_factory=list)


class RankNames:
    """Names of nodes for ranks that no label places.

    Args:
        groups: all groups.
        nodes: names of nodes that have data.
    """

    def __init__(self, groups: Mapping[str, RankLabels], nodes: Iterable[str]) -> None:
        self._is_alone = len(groups) == 1
        self._taken = {*nodes}
        for group, labels in groups.items():
            self._taken |= {node or self.rank_node(group, labels, rank) for rank, node in labels.nodes.items() if rank}

    def rank_node(self, group: str, labels: RankLabels, rank: str) -> str:
        """Returns the node of a rank with data."""
        own = f"rank{labels.global_ranks.get(rank) or rank}"
        job = labels.run if self._is_alone or labels.global_ranks else group
        return _node_name(".".join(filter(None, (job, own))))

    def placeholder_node(self, group: str, labels: RankLabels, rank: str) -> str:
        """Returns the node of a rank without data.

        Its number in the job is that in the group only where this is so of all others, and no other rank has it.
        """
        is_whole = self._is_alone or bool(labels.global_ranks)
        is_whole = is_whole and all(own == other for own, other in labels.global_ranks.items())
        name = _node_name(".".join(filter(None, (labels.run, f"rank{rank}"))))
        return name if is_whole and name not in self._taken else _node_name(f"{group}.rank{rank}")


def place_ranks(group: str, labels: RankLabels, names: RankNames) -> RankMembers:
    """Returns the members of a group: a node, a GPU of a node, or a node of its own for each rank."""
    found = RankMembers()
    placed = _place_seen(group, labels, names, found)
    _drop_shared(placed, found)
    numbered = [rank for rank in labels.ranks if _number(rank) >= 0]
    count = _count_places([int(rank) for rank in numbered], labels.size)
    found.beyond = [rank for rank in numbered if int(rank) >= count]
    places = [str(number) for number in range(count)]
    found.unseen = [rank for rank in places if rank not in labels.nodes]
    found.members = [placed.get(rank) or names.placeholder_node(group, labels, rank) for rank in places]
    # A rank that is a name is found by it, whatever its place.
    found.members += [member for rank in labels.ranks[len(numbered) :] if (member := placed.get(rank))]
    return found


def unseen_assumptions(found: Mapping[str, RankMembers]) -> list[Assumption]:
    """Returns what is assumed of ranks without data, and which ranks have no place, by name of the group."""
    told = [
        *_tell_ranks("a place for {ranks}, of which there is no data", {g: each.unseen for g, each in found.items()}),
        *_tell_ranks(
            f"no place for {{ranks}}, behind {MAX_UNSEEN} without data", {g: each.beyond for g, each in found.items()}
        ),
    ]
    basis = "the highest rank, and the label `nranks`"
    shared = [
        Assumption(f"no place for ranks {join_names(ranks, MAX_NAMED)} of {group}", f"all of them name {place}", GUESS)
        for group, each in found.items()
        for place, ranks in each.shared.items()
    ]
    return [*(Assumption(text, basis, GUESS) for text in told), *shared[:MAX_NAMED]]


def _tell_ranks(text: str, ranks: Mapping[str, list[str]]) -> list[str]:
    """Returns a text on ranks of all groups; none where there are no ranks."""
    some = {group: each for group, each in ranks.items() if each}
    if not some:
        return []
    (group, first), count = next(iter(some.items())), sum(map(len, some.values()))
    word = "rank" if count == 1 else "ranks"
    if len(some) > 1:
        return [text.format(ranks=f"{count} {word} of {len(some)} groups")]
    return [text.format(ranks=f"{word} {join_names(first, MAX_NAMED)} of {group}")]


def _place_seen(group: str, labels: RankLabels, names: RankNames, found: RankMembers) -> dict[str, str]:
    """Returns the member of each rank with data."""
    by_node: dict[str, list[str]] = defaultdict(list)
    for rank in labels.ranks:
        by_node[labels.nodes[rank]].append(rank)
    size, local = _local_numbers(labels, by_node)
    placed: dict[str, str] = {}
    for rank in labels.ranks:
        node = labels.nodes[rank]
        if _number(rank) < 0:
            placed[rank] = rank
        elif not node:
            placed[rank] = names.rank_node(group, labels, rank)
            found.assumptions.append(Assumption("a node for each rank", "no label of a host on ranks", GUESS))
        elif rank in labels.gpus or size > 1 or len(by_node[node]) > 1:
            placed[rank] = f"{node}/gpu{labels.gpus.get(rank, local[rank])}"
        else:
            placed[rank] = node
    if any(node and len(ranks) > 1 for node, ranks in by_node.items()) and not labels.gpus:
        found.assumptions.append(Assumption("ranks of a node are its GPUs in order", "the label `rank`", LIKELY))
    return placed


def _drop_shared(placed: dict[str, str], found: RankMembers) -> None:
    """Removes the members that several ranks name."""
    times = Counter(placed.values())
    for rank, member in list(placed.items()):
        if times[member] > 1:
            found.shared.setdefault(member, []).append(rank)
            del placed[rank]


def _count_places(seen: list[int], size: int) -> int:
    """Returns the number of places: all ranks, or as many as have not too many without data among them."""
    count = 0
    if not seen:
        return 0
    for place, number in enumerate(seen):
        if number - place > MAX_UNSEEN:
            return count
        count = number + 1
    return max(count, min(size, len(seen) + MAX_UNSEEN))


def _local_numbers(labels: RankLabels, by_node: Mapping[str, list[str]]) -> tuple[int, dict[str, int]]:
    """Returns how many successive ranks each node has (0: unknown), and the place of each rank among those of its node.

    Where the number is known, ranks without data keep their places.
    """
    size = _block_size({node: [_number(rank) for rank in ranks] for node, ranks in by_node.items() if node})
    if size:
        return size, {rank: _number(rank) % size for rank in labels.ranks}
    return 0, {rank: place for ranks in by_node.values() for place, rank in enumerate(ranks)}


def _block_size(by_node: Mapping[str, list[int]]) -> int:
    """Returns how many successive ranks each node has; 0 where the ranks do not say it.

    They say it where some node has all of its ranks, or where it is a power of two, as the GPUs of a node mostly are.
    """
    span = max((ranks[-1] - ranks[0] + 1 for ranks in by_node.values()), default=0)
    most = max(map(len, by_node.values()), default=0)
    for size in range(span, min(2 * span, MAX_BLOCK + 1)):
        blocks = {node: {rank // size for rank in ranks} for node, ranks in by_node.items()}
        used = [block for some in blocks.values() for block in some]
        if len(used) == len(blocks) == len(set(used)) and (size == most or size.bit_count() == 1):
            return size
    return 0


def _node_name(text: str) -> str:
    return "".join(c if c not in NODE_WITHOUT and c.isprintable() else "-" for c in text)


def _number(text: str, digits: int = MAX_DIGITS) -> int:
    """Returns the number that a text is, of at most so many digits; -1 for other texts."""
    return int(text) if text.isdecimal() and len(text) <= digits else -1


def _canonical_rank(rank: str) -> str:
    """Returns a rank without leading zeros."""
    return str(_number(rank)) if _number(rank) >= 0 else rank


def _rank_key(rank: str) -> tuple[bool, int, str]:
    return _number(rank) < 0, _number(rank), rank
