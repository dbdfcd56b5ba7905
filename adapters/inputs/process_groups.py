"""Labels of ranks in PyTorch's process groups, alike for all artefacts that name them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from skewscope.adapters.inputs.labelled import LabelledSeries

RUN_LABEL = "run"
"""Label of an input: which run its ranks are of, where there are several."""
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


def label_run(series: Sequence[LabelledSeries], run: str) -> list[LabelledSeries]:
    """Returns series of ranks under the names that their groups have in a run; unchanged for the run ''."""
    if not run:
        return list(series)
    named = (dict(one.labels) for one in series)
    return [
        replace(one, labels=tuple(sorted(run_labels(labels, run).items())))
        for one, labels in zip(series, named, strict=True)
    ]


def run_labels(labels: Mapping[str, str], run: str) -> dict[str, str]:
    """Returns the labels of a series of a rank or a group in a run: two runs have groups of the same names."""
    group = labels.get("group", "")
    return {**labels, "group": f"{run}-{group}"} if group else dict(labels)


def parallelism(description: str) -> str:
    """Returns which parallelism a group's description names; '' for none."""
    text = "_".join(re.findall(r"[a-z0-9]+", description.lower()))
    words = {*text.split("_")}
    return next((kind for word, kind in PARALLELISM if word in words or ("_" in word and word in text)), "")
