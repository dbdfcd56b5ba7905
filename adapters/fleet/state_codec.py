"""The state of a running engine as bytes, and back, exactly: the next ticks of both give the same results.

The format is a pickle that may name only what this module lists: classes and functions of the engine, which is pure,
some state of the controller, and arrays. What the code itself says (catalogue, rules, topology, functions) is stored
by name and taken from the process that loads it. Arrays that share memory share it again.
"""

import hashlib
import importlib
import io
import pickle
import platform
import types
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock, RLock
from typing import IO, Any, TypeVar, cast

import numpy as np
import zstandard

import skewscope
from skewscope.adapters.controller.agent_receiver import AgentTable
from skewscope.adapters.fleet.key_pool import KeyPool
from skewscope.engine.features.counter_store import CounterWindows
from skewscope.engine.features.evaluator import Evaluator
from skewscope.engine.features.operators.peers import PeerCount
from skewscope.engine.ingest.feed import SeriesTable
from skewscope.engine.ingest.series_state import SeriesState
from skewscope.kb.garbage import pause_collection
from skewscope.kb.model import Catalogue
from skewscope.rules.model import Rule

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview

PURE_MODULES = ("skewscope.engine.", "skewscope.kb.model", "skewscope.rules.expression", "skewscope.rules.model")
"""Modules all of whose classes and functions may be named: none reads a file or starts anything."""
KNOWN_NAMES: Mapping[str, frozenset[str]] = {
    "builtins": frozenset({"range", "slice", "set", "frozenset", "complex", "bytearray"}),
    "collections": frozenset({"deque", "Counter", "OrderedDict", "defaultdict"}),
    "functools": frozenset({"partial"}),
    "array": frozenset({"_array_reconstructor", "array"}),
    "numpy": frozenset({"ndarray", "dtype"}),
    "numpy._core.multiarray": frozenset({"_reconstruct", "scalar"}),
    "numpy._core.numeric": frozenset({"_frombuffer"}),
    "numpy.core.multiarray": frozenset({"_reconstruct", "scalar"}),
    "numpy.core.numeric": frozenset({"_frombuffer"}),
    "skewscope.adapters.controller.agent_receiver": frozenset(
        {"AgentReceiver", "AgentState", "AgentBoot", "AgentTable"}
    ),
    "skewscope.adapters.controller.work_allowance": frozenset({"WorkAllowance"}),
    "skewscope.adapters.controller.batcher": frozenset({"Batcher", "_ColumnMapping", "_EntityRanks"}),
    "skewscope.adapters.mapping.engines": frozenset({"CounterWatch", "EngineLedger", "EnginePlace", "EngineSpan"}),
    "skewscope.adapters.sources.common.base": frozenset({"BatchSink", "SourceBatch"}),
    "skewscope.adapters.runtime.runtime": frozenset({"TelemetryCoverage", "LackingSignals"}),
    "skewscope.adapters.view.snapshot": frozenset({"SourceState"}),
    "skewscope.adapters.fleet.shard_engine": frozenset({"_ShardState"}),
    "skewscope.adapters.fleet.shard_report": frozenset({"ShardTick"}),
}
"""What else may be named."""
STORED_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType)
BUILTIN_METHODS = frozenset({"__getitem__", "get", "__contains__"})
"""Methods of dictionaries that the engine keeps as functions."""
LARGE_BYTES = 1 << 16
"""Bytes of an array from which on it is not copied."""
FINGERPRINTED = (
    "kb",
    "rules",
    "engine",
    "adapters/controller",
    "adapters/fleet",
    "adapters/runtime",
    "adapters/mapping",
)
"""Folders whose code and data a state depends on."""


class StateError(Exception):
    """Bytes that are no state of this code and fleet."""


def name_objects(catalogue: Catalogue, rules: Mapping[str, Rule], **others: Any) -> dict[str, Any]:
    """Returns what a state refers to by name: the catalogue and its entries, rules, expressions, and some others."""
    found: dict[str, Any] = {"catalogue": catalogue, **others}
    for kind in ("signals", "conditions", "symptoms", "mitigations"):
        entries: Mapping[str, Any] = getattr(catalogue, kind)
        found |= {f"{kind} {id_}": entry for id_, entry in entries.items()}
    for rule in rules.values():
        found[f"rule {rule.id}"] = rule
        for n, expr in enumerate(rule.expressions):
            found |= {f"expression {rule.id} {n} {m}": node for m, node in enumerate(expr.walk())}
    return found


def fingerprint(*more: str) -> str:
    """Returns a hash of the code, rules and catalogue in use, and of what else a state depends on."""
    return hashlib.sha256("\n".join((_code_fingerprint(), *more)).encode()).hexdigest()


@cache
def _code_fingerprint() -> str:
    root, total = Path(skewscope.__file__).parent, hashlib.sha256()
    total.update(f"{platform.python_version()} {np.__version__}".encode())
    for folder in FINGERPRINTED:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".yaml", ".json"):
                total.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def encode_state(root: object, named: Mapping[str, Any], pool: KeyPool) -> list[Buffer]:
    """Returns a state as buffers, the first of which says how the others are used. Large arrays are not copied.

    The first one is packed while it is written: it would take a tenth of the memory of a large shard.

    Args:
        root: the state.
        named: what is stored by name.
        pool: numbers the series keys; it only grows.

    Raises:
        StateError: the state holds an object of a class that no state may name.
    """
    arrays: list[memoryview] = []
    text = io.BytesIO()
    packer = zstandard.ZstdCompressor(level=1).stream_writer(text, closefd=False)

    def keep(buffer: pickle.PickleBuffer) -> bool:
        """Keeps a large array apart; returns whether it is small."""
        raw = buffer.raw()
        if len(raw) < LARGE_BYTES:
            return True
        arrays.append(raw)
        return False

    with pause_collection(), packer:
        _StateWriter(packer, named, pool, keep).dump(root)
    return [text.getvalue(), *arrays]


def decode_state(buffers: Sequence[Buffer], named: Mapping[str, Any], pool: KeyPool) -> Any:
    """Returns the state in some buffers, which must be writable except the first; it uses their memory.

    Raises:
        StateError: the bytes name what no state may name, or are damaged.
    """
    unpacker = zstandard.ZstdDecompressor().stream_reader(buffers[0])
    reader = _StateReader(io.BufferedReader(cast("io.RawIOBase", unpacker)), named, pool, buffers[1:])
    try:
        with pause_collection():
            return reader.load()
    except StateError:
        raise
    except Exception as error:
        raise StateError(f"a damaged state: {type(error).__name__}: {error}") from error


# --- writing


class _StateWriter(pickle.Pickler):
    def __init__(
        self,
        file: Any,
        named: Mapping[str, Any],
        pool: KeyPool,
        keep: Callable[[pickle.PickleBuffer], object],
    ) -> None:
        super().__init__(file, 5, buffer_callback=keep)
        self._names = {id(one): name for name, one in named.items()}
        self._pool = pool

    def reducer_override(self, one: Any) -> Any:
        """Returns how an object is made again; NotImplemented for the usual way."""
        name = self._names.get(id(one))
        if name is not None:
            return named_object, (name,)
        if isinstance(one, STORED_BY_NAME):
            _check_name(one)
        reduce = REDUCERS.get(type(one))
        if reduce is not None:
            return reduce(one)
        if type(one) is SeriesTable:
            return series_table, (self._pool.numbers(one, one.keys),)
        if type(one) is AgentTable:
            return agent_table, (one.name, one.owner, self._pool.numbers(one, one.keys))
        return NotImplemented


def _check_name(one: Any) -> None:
    """Checks a class or function that is stored by its name, so that what cannot be loaded is not stored."""
    owner = getattr(one, "__self__", None)
    is_local = "<" in one.__qualname__ or (owner is not None and not isinstance(owner, types.ModuleType))
    if not is_local and one.__module__ != __name__ and not is_known(one.__module__, one.__qualname__):
        raise StateError(f"a state must not hold {one.__module__}.{one.__qualname__}")


def _reduce_array(one: np.ndarray) -> Any:
    """Views are stored as views: what is written to one is seen in the other."""
    base: Any = one.base
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if one.dtype.hasobject or not isinstance(base, np.ndarray | bytearray):
        return NotImplemented
    begin: Any = np.frombuffer(base, np.uint8) if type(base) is bytearray else base
    offset = one.__array_interface__["data"][0] - begin.__array_interface__["data"][0]
    return array_view, (base, offset, one.shape, one.strides, one.dtype.str, one.flags.writeable)


def _reduce_function(one: types.FunctionType) -> Any:
    if "<" not in one.__qualname__:
        return NotImplemented
    cells = tuple(cell.cell_contents for cell in one.__closure__ or ())
    state = (cells, one.__defaults__, one.__kwdefaults__)
    made = local_function, (one.__module__, _code_paths(one.__module__)[one.__code__], one.__qualname__)
    return (*made, state, None, None, fill_function)


@dataclass(frozen=True)
class _ByIdentity:
    """A dictionary by the identity of objects, which are others after loading."""

    pairs: list[tuple[Any, Any]]


def _with_state(one: object, **others: Any) -> Any:
    """Returns how an object is made again with other values of some attributes."""
    made, args, state, *_ = cast("tuple[Any, ...]", one.__reduce_ex__(5))
    assert isinstance(state, dict)
    assert state.keys() >= others.keys()
    return made, args, state | others


def _reduce_evaluator(one: Evaluator) -> Any:
    state = vars(one)
    stores = [*(op.store for op in state["_operators"] if op.store is not None), *state["_windows"].buffers.values()]
    numbers = state["_source_of"]
    pairs = {id(store): (store, numbers[id(store)]) for store in stores if id(store) in numbers}
    assert len(pairs) == len(numbers)
    return _with_state(one, _source_of=_ByIdentity(list(pairs.values())))


def _reduce_series_state(one: SeriesState) -> Any:
    pairs = [(layout.schema, layout) for layout in vars(one)["_layouts"].values()]
    return _with_state(one, _layouts=_ByIdentity(pairs))


REDUCERS: Mapping[type, Callable[[Any], Any]] = {
    np.ndarray: _reduce_array,
    types.FunctionType: _reduce_function,
    types.MethodType: lambda one: (bound_method, (one.__self__, one.__func__.__name__)),
    types.BuiltinMethodType: lambda one: (
        NotImplemented if isinstance(one.__self__, types.ModuleType) else (bound_builtin, (one.__self__, one.__name__))
    ),
    Evaluator: _reduce_evaluator,
    CounterWindows: lambda one: _with_state(one, _lanes_cache={}),
    PeerCount: lambda one: _with_state(one, _input_key=(-1, ())),
    SeriesState: _reduce_series_state,
    _ByIdentity: lambda one: (identity_dictionary, (one.pairs,)),
    types.MappingProxyType: lambda one: (mapping_proxy, (dict(one),)),
    weakref.WeakKeyDictionary: lambda one: (weak_dictionary, (list(one.items()),)),
    weakref.ref: lambda one: (weak_reference, (one(),)),
    type(Lock()): lambda _: (new_lock, ()),
    type(RLock()): lambda _: (new_reentrant_lock, ()),
}


@cache
def _code_at(module: str) -> Mapping[tuple[int, ...], types.CodeType]:
    return {path: code for code, path in _code_paths(module).items()}


@cache
def _code_paths(module: str) -> Mapping[types.CodeType, tuple[int, ...]]:
    """Returns where each piece of code of a module is: numbers of constants, from the outermost."""
    found = importlib.import_module(module).__spec__
    loader: Any = found.loader if found else None
    code = loader.get_code(module) if loader else None
    return dict(_walk_code(code, ())) if code is not None else {}


def _walk_code(code: types.CodeType, path: tuple[int, ...]) -> Iterator[tuple[types.CodeType, tuple[int, ...]]]:
    yield code, path
    for n, inner in enumerate(code.co_consts):
        if isinstance(inner, types.CodeType):
            yield from _walk_code(inner, (*path, n))


# --- reading


class _StateReader(pickle.Unpickler):
    def __init__(self, file: IO[bytes], named: Mapping[str, Any], pool: KeyPool, buffers: Iterable[Buffer]) -> None:
        super().__init__(file, buffers=buffers)
        own: Mapping[str, Callable[..., Any]] = {
            "named_object": named.__getitem__,
            "series_table": lambda numbers: _fill_table(pool.keys_at(numbers)),
            "agent_table": lambda name, owner, numbers: _fill_agent_table(name, owner, pool.keys_at(numbers)),
        }
        self._own = {**{one.__name__: one for one in MAKERS}, **own}

    def find_class(self, module: str, name: str) -> Any:
        """Returns a class or function that a state may name.

        Raises:
            StateError: it may not be named.
        """
        if module == __name__:
            if name in self._own:
                return self._own[name]
            raise StateError(f"a state that names {module}.{name}")
        if not is_known(module, name):
            raise StateError(f"a state that names {module}.{name}")
        return super().find_class(module, name)


def is_known(module: str, name: str) -> bool:
    """Returns whether a state may name a class or function."""
    if any(part.startswith("__") for part in name.split(".")):
        return False
    if name in KNOWN_NAMES.get(module, ()):
        return True
    if module == "numpy":
        return isinstance(getattr(np, name, None), np.ufunc)
    return module.startswith(PURE_MODULES) and _is_defined_in(module, name)


def _is_defined_in(module: str, name: str) -> bool:
    """Returns whether a name is a class or function of the module itself: what it imports may not be named."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return isinstance(found, type | types.FunctionType | np.ufunc) and (
        isinstance(found, np.ufunc) or found.__module__ == module
    )


# --- what makes the objects of a state


def named_object(name: str) -> Any:
    """Stands for an object that is stored by name."""
    raise NotImplementedError(name)


def series_table(numbers: Sequence[np.ndarray]) -> SeriesTable:
    """Stands for a series table."""
    raise NotImplementedError


def agent_table(name: str, owner: str, numbers: Sequence[np.ndarray]) -> AgentTable:
    """Stands for the table of an agent."""
    raise NotImplementedError


def _fill_table(keys: list[Any]) -> SeriesTable:
    return SeriesTable(keys, {key: n for n, key in enumerate(keys)})


def _fill_agent_table(name: str, owner: str, keys: list[Any]) -> AgentTable:
    found = AgentTable(name, owner)
    found.keys = keys
    return found


def array_view(
    base: np.ndarray | bytearray,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    writeable: bool,
) -> np.ndarray:
    """Returns an array that uses the memory of another one; both ends must lie within it."""
    if 0 in shape:
        # It may begin behind the end of an empty one.
        return np.empty(shape, np.dtype(dtype))
    if isinstance(base, bytearray):
        flat = np.frombuffer(base, np.uint8)
    else:
        flat = (base if base.flags.c_contiguous else base.T).reshape(-1).view(np.uint8)
    found: np.ndarray = np.ndarray(shape, np.dtype(dtype), flat, offset, strides)
    found.flags.writeable = writeable and bool(found.flags.writeable)
    return found


def local_function(module: str, path: tuple[int, ...], qualname: str) -> types.FunctionType:
    """Returns a function that is defined within another one, with empty cells.

    Raises:
        StateError: it is no function of the engine.
    """
    if not module.startswith(PURE_MODULES):
        raise StateError(f"a state that names a function of {module}")
    code = _code_at(module).get(tuple(path))
    if code is None:
        raise StateError(f"a state that names a function that {module} lacks")
    cells = tuple(types.CellType() for _ in code.co_freevars)
    found = types.FunctionType(code, vars(importlib.import_module(module)), code.co_name, None, cells)
    found.__qualname__ = qualname
    return found


def fill_function(made: types.FunctionType, state: tuple[tuple[Any, ...], Any, Any]) -> None:
    """Fills the cells of a function, and sets its defaults."""
    cells, made.__defaults__, made.__kwdefaults__ = state
    for cell, value in zip(made.__closure__ or (), cells, strict=True):
        cell.cell_contents = value


def bound_method(one: Any, name: str) -> Any:
    """Returns a method of an object of the engine.

    Raises:
        StateError: it is of another class.
    """
    owner = one if isinstance(one, type) else type(one)
    if not owner.__module__.startswith(PURE_MODULES) or name.startswith("__"):
        raise StateError(f"a state that names {owner.__module__}.{owner.__qualname__}.{name}")
    return getattr(one, name)


def bound_builtin(one: Any, name: str) -> Any:
    """Returns a method of a dictionary that reads it.

    Raises:
        StateError: it is another one.
    """
    if type(one) is not dict or name not in BUILTIN_METHODS:
        raise StateError(f"a state that names {type(one).__name__}.{name}")
    return getattr(one, name)


def identity_dictionary(pairs: Iterable[tuple[Any, T]]) -> dict[int, T]:
    """Returns a dictionary by the identity of objects."""
    return {id(one): value for one, value in pairs}


def mapping_proxy(content: dict[Any, T]) -> Mapping[Any, T]:
    """Returns a mapping that cannot be changed."""
    return types.MappingProxyType(content)


def weak_dictionary(items: Iterable[tuple[Any, T]]) -> "weakref.WeakKeyDictionary[Any, T]":
    """Returns a dictionary that keeps no key alive."""
    return weakref.WeakKeyDictionary(dict(items))


def weak_reference(one: Any) -> Any:
    """Returns a reference that keeps nothing alive; to nothing where its object was gone."""
    return weakref.ref(one if one is not None else _Gone())


def new_lock() -> Any:
    """Returns a lock that nobody holds."""
    return Lock()


def new_reentrant_lock() -> Any:
    """Returns a lock that nobody holds, and that its holder may take again."""
    return RLock()


class _Gone:
    """What a dead reference referred to."""


MAKERS: tuple[Callable[..., Any], ...] = (
    *(array_view, local_function, fill_function, bound_method, bound_builtin),
    *(identity_dictionary, mapping_proxy, weak_dictionary, weak_reference, new_lock, new_reentrant_lock),
)
_ = array  # its reconstructor is named in states
