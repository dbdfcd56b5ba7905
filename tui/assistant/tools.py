"""The tools of an assistant. The docstring of each is what the assistant reads; all of them only read."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from skewscope.adapters.runtime.blocking_calls import WORK
from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.problems import SkewscopeError
from skewscope.tui.assistant.answer import MEANINGS, Answer, build_answer
from skewscope.tui.assistant.command_runner import CommandRunner, check_words

AskController = Callable[[str], Any]
"""Returns the JSON object at a path of a controller's API; raises a SkewscopeError where there is none."""
MAX_PATHS = 20
MAX_LISTED = 200
MAX_INCIDENTS = 50
SHOWN_FIELDS = (
    *("id", "kind", "condition", "entity", "state", "severity", "confidence", "coverage", "opened_at", "resolved_at"),
    *("summary", "explained_by", "blast_radius", "silenced"),
)
"""Fields of an incident in a list; one incident has them all."""
ANSWERED = "answered"


@dataclass(frozen=True)
class AssistantTools:
    """What an assistant may ask: files of one folder, the catalogue, and a controller if one is named."""

    runner: CommandRunner
    ask: AskController | None = None

    def all(self) -> tuple[Callable[..., Awaitable[Answer]], ...]:
        """Returns the tools; those that ask a controller only where there is one."""
        of_files = (
            *(self.list_files, self.diagnose_files, self.compare, self.explain, self.why_not, self.what_if),
            *(self.coverage, self.search_catalogue),
        )
        return of_files if self.ask is None else (*of_files, self.list_incidents, self.get_incident)

    # --- files

    async def list_files(self, folder: str = ".") -> Answer:
        """Lists the files of a folder that the other tools may read, at most 200, with their sizes in bytes."""
        place = self.runner.folder / self.runner.locate(folder)
        if not place.is_dir():
            raise SkewscopeError(f"{folder!r:.200}: no folder")
        names = sorted(path for path in place.iterdir() if not path.name.startswith("."))
        rows = [f"{path.name}/" if path.is_dir() else f"{path.name} {path.stat().st_size}" for path in names]
        more = [f"and {len(rows) - MAX_LISTED} more"] if len(rows) > MAX_LISTED else []
        return build_answer(ANSWERED, "\n".join([*rows[:MAX_LISTED], *more]))

    async def diagnose_files(self, paths: list[str], why: bool = False) -> Answer:
        """Says what is wrong in telemetry of one system: logs, dumps, tables, traces, profiles, or recordings.

        The conclusion `too little to judge` is no all-clear. A diagnosis below 40 % is a suspicion. `why` adds each
        item of evidence with its value and threshold, alternatives, what could not be seen, and sources.
        """
        if not 0 < len(paths) <= MAX_PATHS:
            raise SkewscopeError(f"paths: found {len(paths)}, expected 1 to {MAX_PATHS}")
        found = [self.runner.locate(path) for path in paths]
        return await self._run("diagnose", "--no-progress", *(["--why"] if why else []), "--", *found)

    async def compare(self, before: str, after: str) -> Answer:
        """Compares two results of a benchmark, or two recordings: what is worse, by how much, which conditions fit."""
        return await self._run("compare", "--no-progress", "--", self.runner.locate(before), self.runner.locate(after))

    async def why_not(self, condition: str, entity: str, time: str, recording: str) -> Answer:
        """Says why a condition was not reported at an entity at a time of a recording.

        Each item of evidence has its verdict, value and threshold; unknown is what was not measured. `time` is RFC 3339
        or seconds since 1970.
        """
        check_words((condition, entity, time), "condition, entity and time")
        over = self.runner.locate(recording)
        return await self._run(
            "explain", f"--why-not={condition}", f"--at={entity}", f"--time={time}", f"--over={over}"
        )

    async def what_if(
        self, incident: str, recording: str, without: list[str] | None = None, values: list[str] | None = None
    ) -> Answer:
        """Says what would have been reported instead of an incident of a recording, and which evidence turns it.

        `without` lists signals that are taken for not seen (`gpu.power`, `gpu.power@n3/gpu0`); `values` sets signals
        (`gpu.temperature=60`).
        """
        supposed = [*(f"--without={each}" for each in without or ()), *(f"--set={each}" for each in values or ())]
        check_words((incident, *(without or ()), *(values or ())), "incident, without and values")
        if not 0 < len(supposed) <= MAX_PATHS:
            raise SkewscopeError(f"without and values: found {len(supposed)}, expected 1 to {MAX_PATHS} in all")
        return await self._run(
            "what-if", "--no-progress", f"--over={self.runner.locate(recording)}", *supposed, incident
        )

    # --- the catalogue

    async def explain(self, id: str) -> Answer:  # noqa: A002 - the name that an assistant sees
        """Explains a condition or symptom of the catalogue: causes, cost, look-alikes, what helps, sources."""
        check_words((id,), "id")
        return await self._run("explain", "--", id, conclusion=ANSWERED)

    async def coverage(self, topology: str = "", sources: list[str] | None = None) -> Answer:
        """Says which conditions can be diagnosed with some telemetry, and which signal would help most.

        `topology` is a topology file, of which all that its DPUs read counts; `sources` are exporters such as `dcgm` or
        `vllm`.
        """
        check_words(sources or (), "sources")
        if not topology and not sources:
            raise SkewscopeError("coverage: found neither topology nor sources, expected at least one")
        words = [f"--topology={self.runner.locate(topology)}"] if topology else []
        return await self._run("coverage", *words, *(f"--source={each}" for each in sources or ()), conclusion=ANSWERED)

    async def search_catalogue(self, words: str, kind: str = "") -> Answer:
        """Searches conditions, signals, symptoms, mitigations, events, formats, findings and sources by words.

        `kind` limits it to one of these kinds.
        """
        if kind and kind not in KINDS:
            raise SkewscopeError(f"kind: found {kind!r:.40}, expected one of {', '.join(KINDS)}")
        check_words(words.split()[:1] or ("",), "words")
        limit = [f"--kind={kind}"] if kind else []
        return await self._run("kb", "search", *limit, "--", *words.split()[:MAX_PATHS], conclusion=ANSWERED)

    # --- a controller

    async def list_incidents(self, state: str = "firing", limit: int = 20) -> Answer:
        """Lists incidents of the running controller, latest first, as JSON; `state` is firing, resolved or all.

        `explained_by` names the root of an incident that another one caused. `get_incident` has the evidence.
        """
        if state not in ("firing", "resolved", "all") or not 0 < limit <= MAX_INCIDENTS:
            raise SkewscopeError(f"expected a state of firing, resolved or all, and a limit from 1 to {MAX_INCIDENTS}")
        query = "" if state == "all" else f"?{urlencode({'state': state})}"
        found = (await self._ask(f"/api/v1/incidents{query}")).get("incidents", [])
        latest = sorted(found, key=lambda one: str(one.get("opened_at")), reverse=True)
        rows = [{name: one[name] for name in SHOWN_FIELDS if one.get(name) is not None} for one in latest[:limit]]
        text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        head = f"{len(rows)} of {len(found)} incidents"
        return build_answer("findings" if rows else "nothing found", f"{head}\n{text}")

    async def get_incident(self, id: str) -> Answer:  # noqa: A002 - the name that an assistant sees
        """Returns one incident of the running controller as JSON, with evidence, doubt, advice and history.

        Doubt is in `unseen`, `candidates`, `competing` and `none`.
        """
        check_words((id,), "id")
        found = await self._ask(f"/api/v1/incidents/{quote(id, safe='')}")
        return build_answer("findings", json.dumps(found, ensure_ascii=False, indent=1))

    # ---

    async def _ask(self, path: str) -> dict[str, Any]:
        assert self.ask is not None
        found: dict[str, Any] = await WORK.run(self.ask, path)
        return found

    async def _run(self, *words: str, conclusion: str = "") -> Answer:
        """Returns what a command prints; one that could not run is an error."""
        done = await self.runner.run(*words)
        if done.code not in MEANINGS or MEANINGS[done.code] == "could not run":
            raise SkewscopeError(done.text.strip()[-2000:] or f"{words[0]} ended with {done.code}")
        return build_answer(conclusion or MEANINGS[done.code], done.text)
