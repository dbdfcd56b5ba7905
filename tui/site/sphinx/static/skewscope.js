// Filters of tables and highlighting in the graph; pages are complete without them.
"use strict";
(() => {
  const verdicts = { "●": "visible", "◐": "partial", "○": "relayed" };
  const cells = document.querySelectorAll("article td");
  for (const cell of cells) {
    const text = cell.textContent.trim();
    const mark = text[0];
    if (mark in verdicts || mark === "·") {
      cell.classList.add("verdict");
      if (mark in verdicts) cell.classList.add(verdicts[mark]);
    }
  }

  // Make scrolling boxes reachable by keyboard.
  const reachable = () => {
    for (const box of document.querySelectorAll(".table-wrapper, .skew-scroll, article pre")) {
      if (box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1) {
        box.tabIndex = 0;
        if (!box.hasAttribute("role")) { box.setAttribute("role", "region"); }
        if (!box.hasAttribute("aria-label")) { box.setAttribute("aria-label", "Table, scrolls sideways"); }
      }
    }
  };
  addEventListener("load", reachable);
  addEventListener("resize", reachable);

  // Filters of tables.
  const page = document.body.querySelector("article h1");
  const tables = [...document.querySelectorAll("article table.docutils")];
  const rows = tables.flatMap((table) => [...table.querySelectorAll("tbody tr")]);
  const listed = /(^|\/)(matrix|conditions|signals|mitigations|sources|findings|lookalikes|claims)\.html$/;
  if (page && rows.length > 12 && listed.test(location.pathname)) {
    const form = document.createElement("form");
    form.className = "skew-filter";
    form.setAttribute("role", "search");
    form.setAttribute("aria-label", "Rows of this page");
    form.addEventListener("submit", (event) => event.preventDefault());
    const field = (name, control) => {
      const label = document.createElement("label");
      label.append(name, control);
      form.append(label);
      return control;
    };
    const words = field("Only rows with", document.createElement("input"));
    words.type = "search";
    words.id = "skew-words";
    const choice = (name, options) => {
      const select = document.createElement("select");
      for (const [value, text] of options) select.append(new Option(text, value));
      return field(name, select);
    };
    const where = location.pathname.endsWith("matrix.html")
      ? choice("Seen by a DPU", [["", "any visibility"], ["1", "as the front-end NIC"], ["2", "on every rail"],
        ["3", "as the PCIe root"], ["4", "with relayed telemetry"]])
      : null;
    const helped = where ? choice("DPU helps", [["", "any"], ["◐●", "at least in part"], ["●", "by itself"]]) : null;
    const count = document.createElement("output");
    count.setAttribute("aria-live", "polite");
    form.append(count);
    const entries = rows.filter((row) => !(row.closest("section") && row.closest("section").contains(page) && !row.closest("section").querySelector(":scope > h2, :scope > section > h2")));
    const counted = where ? entries.filter((row) => row.cells.length === 7) : entries;
    const apply = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of counted) {
        const text = row.textContent.toLowerCase();
        const seen = !where || !where.value || "●◐○".includes(row.cells[+where.value].textContent.trim()[0]);
        const help = !helped || !helped.value || helped.value.includes(row.cells[5].textContent.trim()[0]);
        row.hidden = !(seen && help && wanted.every((word) => text.includes(word)));
        shown += row.hidden ? 0 : 1;
      }
      for (const section of document.querySelectorAll("article section section")) {
        const own = [...section.querySelectorAll("tbody tr")].filter((row) => counted.includes(row));
        if (own.length) section.hidden = own.every((row) => row.hidden);
      }
      count.textContent = `${shown} of ${counted.length} rows`;
    };
    for (const control of form.elements) control.addEventListener("input", apply);
    apply();
    const first = page.parentElement.querySelector("section");
    page.parentElement.insertBefore(form, first || tables[0].closest(".table-wrapper") || tables[0]);
  }

  // The graph: highlight causes and effects of a node under the pointer or with focus.
  for (const graph of document.querySelectorAll(".skew-graph")) {
    const edges = [...graph.querySelectorAll(".edge")];
    const nodes = [...graph.querySelectorAll(".node")];
    const light = (id) => {
      const near = new Set(id ? [id] : []);
      for (const edge of edges) {
        const on = id && (edge.dataset.from === id || edge.dataset.to === id);
        edge.classList.toggle("lit", Boolean(on));
        edge.classList.toggle("dim", Boolean(id && !on));
        if (on) { near.add(edge.dataset.from); near.add(edge.dataset.to); }
      }
      for (const node of nodes) node.classList.toggle("dim", Boolean(id && !near.has(node.dataset.id)));
    };
    for (const node of nodes) {
      for (const event of ["mouseenter", "focus"]) node.addEventListener(event, () => light(node.dataset.id));
      for (const event of ["mouseleave", "blur"]) node.addEventListener(event, () => light(""));
    }
  }
})();
