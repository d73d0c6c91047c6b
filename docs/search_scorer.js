// How the search of the site orders pages: what users read before the reference, and this
// before the logbook of what was measured and the parts of the code.
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    if (/^docs\/(logbook\/|architecture)|^benchmarks\/|^CHANGELOG/.test(page)) return score - 30;
    if (/^docs\/api\//.test(page)) return score - 15;
    return score;
  },

  // The rest is as Sphinx has it.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
