"""The kinds of an adapter: modules of its folder, and modules that other packages offer as entry points."""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from types import ModuleType

from skewscope.kb.problems import SkewscopeError

MEMBERS = ("read", "build")
"""Functions that make a module a kind."""


def find_kinds(package: str, folder: Iterable[str], group: str) -> dict[str, ModuleType]:
    """Returns the modules of an adapter by kind, in the order of kinds.

    Args:
        package: the name of its package.
        folder: the package's `__path__`; the module of kind `some-kind` is `some_kind.py`.
        group: the entry points with further kinds, named as they are in configs; a kind of the folder comes first.

    Raises:
        SkewscopeError: a plug-in cannot be loaded, or is no adapter.
    """
    own = {kind: module for kind, module in _find_own(package, folder) if _is_kind(module)}
    return dict(sorted({**dict(_find_plugins(group)), **own}.items()))


def _is_kind(module: ModuleType) -> bool:
    return all(hasattr(module, name) for name in MEMBERS)


def _find_own(package: str, folder: Iterable[str]) -> Iterator[tuple[str, ModuleType]]:
    for module in pkgutil.iter_modules(folder):
        yield module.name.replace("_", "-"), importlib.import_module(f"{package}.{module.name}")


def _find_plugins(group: str) -> Iterator[tuple[str, ModuleType]]:
    for entry in entry_points(group=group):
        where = f"the plug-in {entry.name!r} ({entry.value}) of {group}"
        try:
            found = entry.load()
        except Exception as error:
            raise SkewscopeError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
        if not _is_kind(found):
            raise SkewscopeError(f"{where} is no adapter: expected a module with {' and '.join(MEMBERS)}")
        yield entry.name, found
