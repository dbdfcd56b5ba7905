"""Key commands that copy or share what is selected: a command, its undo, a text, a page."""

import re
from collections.abc import Sequence
from dataclasses import replace

from skewscope.engine.advice.steps import AdvisedStep, advised_steps
from skewscope.engine.model.incident import Incident
from skewscope.kb.problems import join_names
from skewscope.tui.console.clipboard import deliver
from skewscope.tui.console.commands import ConsoleCommands
from skewscope.tui.render import html_report, report, share
from skewscope.tui.render.cell_picture import picture_lines
from skewscope.tui.render.evidence_reading import series_reader
from skewscope.tui.render.members_over_time import members_over_time
from skewscope.tui.render.text import Line, to_plain_text

PICTURE_WIDTH = 72
"""Columns of a picture in a shared text."""
PICTURE_MEMBERS = 6
TEXT, MARKDOWN, LINK, PAGE = "tmlh"
"""Forms in which incidents are shared, by their keys."""
FORMS = {TEXT: "text", MARKDOWN: "Markdown, for a chat or a ticket", LINK: "link to its page", PAGE: "HTML page"}


class CopyCommands(ConsoleCommands):
    """Copy commands, texts and JSON; share incidents."""

    def do_command(self, arg: int) -> None:
        """Copy the first command of the selected incidents, or its undo if `arg` is 1."""
        incidents = self.console.selected_incidents
        if not incidents:
            self.console.show_message("No incident is selected.", True)
            return
        steps = [found[0] for one in incidents if (found := self._steps(one)) and found[0].first]
        if self.copy_steps(steps, is_undo=bool(arg)):
            return
        self.console.show_message(self._why_none(incidents, is_undo=bool(arg)), True)

    def copy_steps(self, steps: Sequence[AdvisedStep], *, is_undo: bool) -> bool:
        """Copy the commands of some steps, or their undos; returns whether there are any."""
        texts = [step.first.command.undo if is_undo else step.first.command.do for step in steps if step.first]
        texts = list(dict.fromkeys(filter(None, texts)))
        if not texts:
            return False
        unfilled = tuple(dict.fromkeys(name for step in steps if step.first for name in step.first.unfilled))
        note = f"fill in {join_names(unfilled)}; " if unfilled else ""
        titles = join_names(list(dict.fromkeys(step.title for step in steps)))
        self._copy("\n".join(texts), f"{note}{'undo of ' if is_undo else ''}{titles}")
        return True

    def _steps(self, incident: Incident) -> Sequence[AdvisedStep]:
        return advised_steps(incident, self.state.names.catalogue, self.state.names.topology)

    def _why_none(self, incidents: Sequence[Incident], *, is_undo: bool) -> str:
        """Returns why there is no command to copy."""
        first = incidents[0]
        steps = self._steps(first)
        if not steps or steps[0].first is None or not is_undo:
            return "Nothing is advised" + ("; see the incident that explains it." if first.explained_by else ".")
        if steps[0].shows:
            return f"{steps[0].title}: nothing is changed, so nothing is undone"
        by_hand = steps[0].first.command.undo_by_hand
        return f"{steps[0].title} has no command as undo{f': {by_hand}' if by_hand else ''}"

    def do_copy(self, arg: int) -> None:
        """Share the selected incidents in a form to choose; copy what other screens show, as text or as JSON."""
        model = self.console.current_screen.model if self.console.current_screen else None
        if model is None:
            return
        if not arg and self.console.selected_incidents and model.name == "diagnoses":
            self._ask_form()
            return
        content = model.as_json() if arg else model.as_text()
        if not content or content == "[]":
            self.console.show_message("There is nothing to copy here.", True)
        else:
            self._copy(content, f"{len(content)} characters of {'JSON' if arg else 'text'}")

    def _ask_form(self) -> None:
        forms = {key: about for key, about in FORMS.items() if key != LINK or self._base_url}
        lines: list[Line] = [((f"  {key}", "key"), (f"  {about}", "")) for key, about in forms.items()]
        self.console.show_dialog("share as", lambda _columns: lines, self._share, "".join(forms))

    @property
    def _base_url(self) -> str:
        feed = self.state.action_feed
        return feed.endpoint.url if feed is not None else ""

    def _share(self, form: str) -> None:
        incidents, model = self.console.selected_incidents, self.console.models[0]
        links = [f"{self._base_url}/incidents/{one.id}" for one in incidents]
        if form == TEXT:
            self._copy(model.as_text(), "text")
        elif form == LINK:
            self._copy("\n".join(links), "link" if len(links) == 1 else f"{len(links)} links")
        elif form == PAGE:
            self._write_page(incidents)
        else:
            shown = links if self._base_url else [""] * len(links)
            parts = [self._markdown(one, link) for one, link in zip(incidents, shown, strict=True)]
            self._copy("\n".join(parts), "Markdown")

    def _markdown(self, incident: Incident, link: str) -> str:
        state = self.state
        if state.snapshot is None:
            return share.incident_markdown(incident, state.names, (), link)
        picture = members_over_time(incident, state.snapshot, state.node_lookup, most=PICTURE_MEMBERS)
        drawn = to_plain_text(picture_lines(picture, PICTURE_WIDTH)).splitlines() if picture else []
        names = replace(state.names, read_series=series_reader(state.snapshot, state.node_lookup))
        return share.incident_markdown(incident, names, tuple(drawn), link)

    def _write_page(self, incidents: Sequence[Incident]) -> None:
        """Write the page of the selected incidents, with what they explain."""
        snapshot = self.state.snapshot
        if snapshot is None:
            return
        ids = {one.id for one in incidents}
        shown = replace(snapshot, incidents=tuple(i for i in snapshot.incidents if i.id in ids or i.root_id in ids))
        verdict: Line = ((f"{report.count_summary(incidents)}.", "warn"),)
        data = html_report.HtmlReportData(
            self.state.title or incidents[0].id,
            shown,
            self.state.names,
            verdict,
            report.snapshot_summary(snapshot),
            snapshot.missing,
        )
        name = re.sub(r"[^\w.-]", "-", incidents[0].id)
        path = self.console.options.recordings_folder / f"skewscope-{name}.html"
        try:
            path.write_text(html_report.render_html(data), encoding="utf-8")
        except OSError as error:
            self.console.show_message(f"The page cannot be written: {error}", True)
        else:
            self.console.show_message(f"wrote {path}", False)

    def _copy(self, content: str, what: str) -> None:
        """Bring a text to the clipboard in the background, and say where it is."""
        folder = self.console.options.state_folder
        if folder is None:
            self.console.copy_to_clipboard(content)
            self.console.show_message(f"copied {what}", False)
            return
        self.console.run_worker(lambda: self._deliver(content, what), thread=True)

    def _deliver(self, content: str, what: str) -> None:
        folder = self.console.options.state_folder
        assert folder is not None
        found = deliver(content, folder)

        def finish() -> None:
            if found.through_terminal:
                self.console.copy_to_clipboard(content)
            self.console.show_message(f"copied {what} {found.words}", False)

        self.console.call_from_thread(finish)
