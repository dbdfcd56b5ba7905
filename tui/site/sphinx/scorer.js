// Ranks search results: conditions before related entries, and names that contain the typed words first.
"use strict";
var Scorer = {
  score: (result) => {
    const [docname, title, , , score] = result;
    const typed = (new URLSearchParams(location.search).get("q") || "").trim().toLowerCase();
    const kinds = { conditions: 16, mitigations: 5, findings: 3, signals: 2, sources: 1 };
    const named = typed && title.toLowerCase().includes(typed);
    const id = docname.split("/").pop().split(/[-._]/);
    const meant = typed && typed.split(/[^a-z0-9]+/).every((word) => id.includes(word));
    return score + (kinds[docname.split("/")[0]] || 0) + (named ? 12 : 0) + (meant ? 12 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
