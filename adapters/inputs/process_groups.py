"""Labels of ranks in PyTorch's process groups, alike for all artefacts that name them."""

import re
from collections.abc import Sequence

UNDESCRIBED = frozenset({"", "undefined"})
PARALLELISM = (
    ("expert_data", "data"),
    ("expert", "expert"),
    ("ep", "expert"),
    ("pipeline", "pipeline"),
    ("pp", "pipeline"),
    ("data", "data"),
    ("dp", "data"),
    ("fsdp", "data"),
    ("tensor", "tensor"),
    ("tp", "tensor"),
)
"""Words of a group's description and what they say of it; the first that occurs counts."""


def rank_labels(name: str, description: str, ranks: Sequence[int], rank: int) -> dict[str, str]:
    """Returns the labels of a rank of the job in a group; none where it is no member.

    Args:
        name: name of the group in its job.
        description: what the program calls it, '' for nothing.
        ranks: members, as ranks in the job, in the order of their ranks in the group.
        rank: the rank in the job.
    """
    if rank not in ranks:
        return {}
    return {
        "group": f"{description}-{name}" if description not in UNDESCRIBED else name,
        "rank": str(ranks.index(rank)),
        "nranks": str(len(ranks)),
        "global_rank": str(rank),
        "parallelism": parallelism(description),
    }


def parallelism(description: str) -> str:
    """Returns which parallelism a group's description names; '' for none."""
    text = "_".join(re.findall(r"[a-z0-9]+", description.lower()))
    words = {*text.split("_")}
    return next((kind for word, kind in PARALLELISM if word in words or ("_" in word and word in text)), "")
