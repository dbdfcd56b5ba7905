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
  const listed = /(^|\/)(index|matrix|conditions|signals|mitigations|sources|findings|lookalikes|claims)\.html$/;
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
    const isHome = /(^|\/)index\.html$/.test(location.pathname);
    const isCondition = (row) => row.closest("table").querySelector("th")?.textContent.trim() === "Condition";
    const counted = where || isHome ? entries.filter(isCondition) : entries;
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

  // Search results: the ranking of `skewscope kb search`, by its index of words.
  const results = document.getElementById("search-results");
  const asked = (new URLSearchParams(location.search).get("q") || "").slice(0, 400);
  if (results && asked.trim()) {
    const split = (text) => text.toLowerCase().match(/[a-z0-9]+/g) || [];
    const common = (a, b) => {
      let row = new Uint8Array(b.length + 1);
      for (let i = 0; i < a.length; i += 1) {
        const next = new Uint8Array(b.length + 1);
        for (let j = 0; j < b.length; j += 1) {
          next[j + 1] = a[i] === b[j] ? row[j] + 1 : Math.max(row[j + 1], next[j]);
        }
        row = next;
      }
      return row[b.length];
    };
    const similar = (word, known, postings) => {
      const found = postings[word] ? [[word, 1]] : [];
      const longer = word.length > 2 ? known.filter((one) => one !== word && one.startsWith(word)) : [];
      for (const one of longer) found.push([one, 0.6]);
      if (found.length) return found;
      const near = known
        .filter((one) => 2 * Math.min(one.length, word.length) >= 0.72 * (one.length + word.length))
        .map((one) => [one, (2 * common(word, one)) / (one.length + word.length)])
        .filter(([, ratio]) => ratio >= 0.72)
        .sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 3);
      return near.filter(([, ratio]) => ratio > near[0][1] - 0.06).map(([one]) => [one, 0.4]);
    };
    const rank = ({ entries, words }) => {
      const known = Object.keys(words);
      const wanted = [...new Set(split(asked))].slice(0, 20);
      const parts = new Map();
      for (const word of wanted) {
        const best = new Map();
        for (const [one, likeness] of similar(word, known, words)) {
          const held = words[one];
          const rarity = Math.log1p(entries.length / (held.length / 2));
          for (let i = 0; i < held.length; i += 2) {
            const score = (likeness * rarity * held[i + 1]) / 100;
            best.set(held[i], Math.max(best.get(held[i]) || 0, score));
          }
        }
        for (const [entry, score] of best) parts.set(entry, [...(parts.get(entry) || []), score]);
      }
      const typed = split(asked).join(" ");
      const hits = [...parts].map(([entry, scores]) => {
        const names = entries[entry][3];
        const phrase = typed.includes(" ") && names.some((name) => ` ${name} `.includes(` ${typed} `)) ? 1.6 : 1;
        const sum = scores.reduce((a, b) => a + b, 0);
        return [names.includes(typed) ? 1 : 0, (sum * scores.length * phrase) / wanted.length, entry];
      });
      return hits.sort((a, b) => b[0] - a[0] || b[1] - a[1]).slice(0, 20).map((hit) => entries[hit[2]]);
    };
    const script = document.createElement("script");
    const root = document.documentElement.dataset.content_root || "./";
    script.src = `${root}search_words.js`;
    script.addEventListener("load", () => {
      const list = document.createElement("ol");
      list.className = "skew-hits";
      for (const [kind, id, name] of rank(window.skewWords)) {
        const item = document.createElement("li");
        const link = document.createElement("a");
        link.href = `${root}${kind}/${encodeURIComponent(id)}.html`;
        link.textContent = name;
        item.append(link, ` ${kind.replace(/s$/, "")} ${id}`);
        list.append(item);
      }
      const title = document.createElement("h1");
      title.textContent = "Search results";
      const status = document.createElement("p");
      status.setAttribute("role", "status");
      status.textContent = list.children.length ? `Best of the catalogue for “${asked}”:` : "No entry matches.";
      results.before(title, status, list);
      results.hidden = true;
    });
    document.head.append(script);
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
