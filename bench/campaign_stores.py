"""Other programs that read the stores of controllers while these are killed, reloaded and started again.

They export incidents, show and verify the audit log, and copy stores by our command and by SQLite's. An audit log must
be whole each time, also in every copy, and must never become shorter.
"""

import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bench.campaign_forks import refused_seconds
from skewscope.adapters.controller.audit import AuditFilter
from skewscope.adapters.controller.audit_head import AuditHead
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.controller.store_copy import back_up
from skewscope.adapters.history.export import export_store
from skewscope.engine.model.topology import Topology
from skewscope.kb.problems import InputError

MAX_PAUSE_S = 0.5
"""Seconds between two visits at most."""
BUSY_S = 10.0
"""Seconds that SQLite waits for a lock of others."""
HEAL_S = 30.0
"""Seconds within which a controller must have written a store anew whose log was removed."""
LOG_ENDS = "-wal", "-shm"


@dataclass
class StoreVisitor:
    """Reads some stores in all ways, one after the other, in a thread of its own."""

    stores: Sequence[Path]
    folder: Path
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _heads: dict[Path, AuditHead] = field(default_factory=dict)
    """The newest line that was seen of each store."""
    _visiting: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to read."""
        self.folder.mkdir()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """Ends it, after the visit under way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        ways = (self._export, self._show, self.verify, self._connect, self._copy_by_sqlite, self._copy_by_command)
        while not self._stop.wait(self.chance.uniform(0.0, MAX_PAUSE_S)):
            store, way = self.chance.choice(self.stores), self.chance.choice(ways)
            if not store.exists():
                continue
            with self._visiting:
                self._visit(store, way)
            self.done[f"visits: {way.__name__.strip('_')}"] += 1

    def _visit(self, store: Path, way: Callable[[Path], None]) -> None:
        try:
            way(store)
        except (InputError, sqlite3.Error, OSError) as error:
            self.faults.append(f"{way.__name__.strip('_')} of {store}: {type(error).__name__}: {error}")

    def remove_log(self, store: Path, log: Path, pid: int) -> None:
        """Removes the log of a store under its controller, and waits until that has written the store anew.

        Nobody reads meanwhile: what was in the log is not in the file until then. Seconds in which the controller
        waits for a processor do not count.
        """
        mark = "it was written anew, with all that it had"
        with self._visiting:
            before = log.read_text(errors="replace").count(mark)
            for end in LOG_ENDS:
                store.with_name(store.name + end).unlink(missing_ok=True)
            since = time.time() - refused_seconds(pid)
            while log.read_text(errors="replace").count(mark) == before:
                if time.time() - refused_seconds(pid) > since + HEAL_S:
                    self.faults.append(f"{store}: its log was removed, and it was not written anew in {HEAL_S:.0f} s")
                    return
                time.sleep(0.1)
        self.done["logs removed"] += 1

    def verify(self, store: Path) -> None:
        """Verifies the audit log of a store, and that it still has what it had.

        Raises:
            InputError: it is not whole.
        """
        before = self._heads.get(store)
        self._heads[store] = max(self._check(store, before), before or AuditHead(0, ""))

    def _check(self, store: Path, before: AuditHead | None) -> AuditHead:
        """Returns the newest line of a store or a copy; one that lost what was there before is a fault."""
        newest = AuditHead(*StoreReader(store).verify_audit())
        if before is not None and newest.number < before.number:
            self.faults.append(f"{store}: {newest.number} audit lines, and {before.number} before")
        return newest

    def _export(self, store: Path) -> None:
        export_store(store, Topology(), self.folder / "history")

    def _show(self, store: Path) -> None:
        lines = StoreReader(store).audit_lines(AuditFilter(), 50)
        numbers = [line.number for line in lines]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers)) if numbers else ()):
            self.faults.append(f"{store}: audit lines {numbers}")

    def _connect(self, store: Path) -> None:
        """Reads as any program does, through a connection that may write: as it closes, SQLite may clean up."""
        with closing(sqlite3.connect(store, timeout=BUSY_S)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def _copy_by_sqlite(self, store: Path) -> None:
        copy, before = self._name_copy(), self._heads.get(store)
        with closing(sqlite3.connect(store, timeout=BUSY_S)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target, pages=self.chance.choice((-1, 20)))
        self._check_copy(copy, before)

    def _copy_by_command(self, store: Path) -> None:
        copy, before = self._name_copy(), self._heads.get(store)
        back_up(store, copy)
        self._check_copy(copy, before)

    def _name_copy(self) -> Path:
        for left in self.folder.glob("copy*"):
            left.unlink()
        return self.folder / f"copy{sum(self.done.values())}.db"

    def _check_copy(self, copy: Path, before: AuditHead | None) -> None:
        with closing(sqlite3.connect(copy)) as connection:
            (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'audit'").fetchone()
        if result != "ok":
            self.faults.append(f"{copy}: {result}")
        if tables:
            self._check(copy, before)


def check_left(store: Path) -> str:
    """Returns what is wrong with the audit log that a killed controller has left; '' for nothing."""
    if not store.exists():
        return ""
    try:
        StoreReader(store).verify_audit()
    except (InputError, sqlite3.Error) as error:
        return f"{store} after a kill: {error}"
    return ""
