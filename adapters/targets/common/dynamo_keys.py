"""Keys of Dynamo's discovery in a folder: which workers are there, and what we have kept of removed ones."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.key_files import create_key, list_keys
from skewscope.adapters.targets.common.marks import ACTION_PATTERN
from skewscope.engine.actions.change import MemberState, TargetState

INSTANCES, CARDS, KEPT = Path("v1/instances"), Path("v1/mdc"), Path("skewscope")
"""Folders of the keys of endpoints, of the cards of models, and of what we have removed."""
MAX_ACTIONS = 1000


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of an endpoint, as its key says."""

    key: str
    """Name of the file."""
    content: str
    id: str
    """In hexadecimal digits, as in metrics."""
    address: str
    """HOST:PORT."""
    owner: str = ""
    """The action that removed the key; '' for a key in place."""

    def answers_to(self, member: str) -> bool:
        """Returns whether a name of the config, HOST or HOST:PORT, stands for it."""
        return member in (self.address, self.address.rpartition(":")[0])


def read_folder(root: Path, endpoint: str, members: Sequence[str]) -> TargetState:
    """Returns the state of workers by the keys of a discovery folder.

    Raises:
        TargetError: the folder cannot be read, or a name stands for several workers.
    """
    if not root.is_dir():
        raise TargetError(f"{root}: no such folder")
    live = list(_list_instances(list_keys(root / INSTANCES), endpoint))
    kept = list(_list_kept(root / KEPT, endpoint))
    cards = set(list_keys(root / CARDS))
    return TargetState({member: _to_member(member, live, kept, cards) for member in members})


def _to_member(member: str, live: Sequence[Instance], kept: Sequence[Instance], cards: set[str]) -> MemberState:
    mine = [one for one in live if one.answers_to(member)]
    if len(mine) > 1:
        addresses = ", ".join(sorted(one.address for one in mine)[:4])
        raise TargetError(f"{member}: {len(mine)} workers ({addresses}); write HOST:PORT")
    removed = [one for one in kept if one.answers_to(member) and (not mine or one.key == mine[0].key)]
    removed.sort(key=lambda one: (one.key not in cards, one.owner))
    if not mine and not removed:
        return MemberState(member, serving=False)
    found = (mine or removed)[0]
    details = {
        "alive": "yes" if found.key in cards or mine else "no",
        "content": found.content,
        "id": found.id,
        "key": found.key,
    }
    owner = removed[0].owner if removed else ""
    return MemberState(member, bool(mine), owner=owner, details=tuple(sorted(details.items())))


def _list_kept(folder: Path, endpoint: str) -> Iterable[Instance]:
    try:
        actions = sorted(each.name for each in folder.iterdir() if ACTION_PATTERN.fullmatch(each.name))
    except FileNotFoundError:
        return
    except OSError as error:
        raise TargetError(f"{folder}: cannot be read: {error.strerror or error}") from None
    for action in actions[:MAX_ACTIONS]:
        yield from _list_instances(list_keys(folder / action), endpoint, action)


def _list_instances(keys: dict[str, str], endpoint: str, owner: str = "") -> Iterable[Instance]:
    """Returns the instances of an endpoint; keys that cannot be read, such as half-written ones, are left out."""
    for key, content in sorted(keys.items()):
        try:
            data = json.loads(content)
            named = "/".join(data[name] for name in ("namespace", "component", "endpoint"))
            address = data["transport"]["tcp"].partition("/")[0]
            id_ = format(int(data["instance_id"]), "x")
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            continue
        if named == endpoint:
            yield Instance(key, content, id_, address, owner)


def clear_keys(root: Path) -> None:
    """Removes all keys of endpoints and cards of a folder.

    Raises:
        TargetError: a key cannot be removed.
    """
    for folder in (root / CARDS, root / INSTANCES):
        for key in list_keys(folder):
            try:
                (folder / key).unlink(missing_ok=True)
            except OSError as error:
                raise TargetError(f"{folder / key}: cannot be removed: {error.strerror or error}") from None


def offer_worker(root: Path, key: str, content: str, card: str) -> None:
    """Creates the keys of one worker in a folder.

    Raises:
        TargetError: the worker has no card any more, or a key cannot be created.
    """
    if not card:
        raise TargetError(f"{key}: the worker has ended")
    try:
        create_key(root / INSTANCES / key, content, root)
        create_key(root / CARDS / key, card, root)
    except OSError as error:
        raise TargetError(f"{root}: cannot be written: {error.strerror or error}") from None
