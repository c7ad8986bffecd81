/** Which parts of the work make the difference: statements with one fingerprint, for example, each compared by itself. */
import { h, s, table, ticked, type Child } from "./dom";
import { deviation, interval, number, plural, quantity, ratio } from "./format";
import { ranked, signOf, signs } from "./verdict";
import type { Difference, Group, Grouped, Returned } from "./data";
import type { Model } from "./state";

/** Which groups are shown before the reader asks for all. They are those of the terminal report, with the same limits. */
const most = 10;
const leastShare = 0.01;
const leastExtra = 0.002;

/** The id of all parts together that the program does not tell apart. */
const other = "other";

/** Whether the two sides did not do the same: only then is there neither a verdict nor a ratio. */
const unequal = (g: Group): boolean => g.verdict === "WITHHELD" && !(g.ratio > 0);

export function explaining(x: Grouped): Group[] {
  const explains = x.groups.filter((g) => !unequal(g) && Math.abs(g.share) >= leastShare && Math.abs(g.extra_seconds) >= leastExtra * x.seconds).slice(0, most);
  const differ = x.groups.filter(unequal).slice(0, most);
  return x.groups.filter((g) => explains.includes(g) || differ.includes(g));
}

export function groups(m: Model): HTMLElement | null {
  const shown = (m.data.result.groups ?? []).filter((x) => m.state.targets.has(x.target) && m.workloadShown(x.workload));
  return shown.length === 0 ? null : h("section", { id: "groups", "aria-labelledby": "groups-title" }, h("h2", { id: "groups-title" }, "Which parts of the work make the difference"),
    m.rebasedNow && h("p", { class: "note" }, `These figures compare with ${m.run.baseline}, the baseline of the run.`),
    h("p", { class: "lead" }, "Each part has a ratio of its own, that of the median times of an execution. Its share is what it adds to the difference, or takes from it."),
    shown.map(compared));
}

function compared(x: Grouped): Child {
  const told = explaining(x);
  const rest = x.groups.filter((g) => !told.includes(g));
  const differ = rest.filter(unequal).length;
  const more = x.extra_seconds < 0 ? "less" : "more";
  return h("div", { class: "grouped" }, h("h3", {}, `${x.target}, ${x.workload}`),
    h("p", {}, ticked(`All executions of a trial together take ${quantity(x.seconds, "s")} in ${x.baseline} and ${quantity(Math.abs(x.extra_seconds), "s")} ${more} in ${x.target}.`)),
    told.length > 0 && listed(x, told),
    rest.length > 0 && h("details", { class: "inner" }, h("summary", {}, told.length > 0 ? `${number(rest.length)} more` : plural(rest.length, "part"), differ > 0 && `, ${number(differ)} with other work`), listed(x, rest)),
    differing(x));
}

/** The executions that returned something else, side by side. */
function differing(x: Grouped): Child {
  const all = x.differences ?? [];
  if (all.length === 0) return false;
  const text = (d: Difference): Child => (d.group === other ? "one of all others" : h("code", { title: d.group }, x.groups.find((g) => g.id === d.group)?.text || d.group));
  return [h("p", {}, x.all_differ ? "These executions of a block returned something else:" : "These are some of the executions that returned something else:"),
    table({ head: ["Number in the work", x.baseline, x.target, "What"], rows: all.map((d): Child[] => [String(d.number), returned(d.base), returned(d.candidate), text(d)]) },
      `${x.workload} in ${x.target}: what differs`, "differences-table")];
}

function returned(r: Returned | undefined): Child {
  if (!r) return h("span", { class: "muted" }, "not executed");
  return [r.refused ? "error " : r.status ? `status ${r.status} ` : `${plural(r.rows, "row")} `, h("code", { title: r.sum }, r.sum.slice(0, 8)), r.text && h("pre", {}, r.text)];
}

function listed(x: Grouped, of: Group[]): HTMLElement {
  return table({
    head: ["What", "Share of the difference", "Median time", "Executions", x.baseline, x.target, "Rows", "Errors"], figures: 3,
    rows: of.map((g): Child[] => [g.id === other ? "all others" : h("code", { title: g.id }, g.text || g.id), [bar(g.share), ` ${deviation(g.share)}`], verdict(g), number(g.base.count), time(g.base.p50), time(g.candidate.p50),
      both(g.base.rows, g.candidate.rows), both(g.base.errors, g.candidate.errors)]),
  }, `${x.workload} in ${x.target}, part by part`, "groups-table");
}

const time = (v: number): string => (v > 0 ? quantity(v, "s") : "");

/** A figure of both sides, where they differ. */
const both = (base: number, candidate: number): Child => (base === candidate ? number(base) : h("span", { class: "differs" }, `${number(base)} / ${number(candidate)}`));

/** Whether the interval lies beyond the margin and the other parts stand in the way of a verdict. */
export const notConfirmed = (g: Group): boolean => ["INCONCLUSIVE", "MEASURED"].includes(g.verdict) && g.level > 0 && (g.low > 1 + g.margin || g.high < 1 / (1 + g.margin));

function verdict(g: Group): Child {
  const sign = notConfirmed(g) ? "measured" : signOf(g);
  if (sign === "absent") return g.base.p50 > 0 && h("span", { class: "muted" }, "rare");
  const words = unequal(g) ? "the work differs" : notConfirmed(g) ? `beyond the margin, but not significant among so many; about ${plural(g.blocks_needed ?? 0, "block")} would decide` : signs[sign].word;
  return [h("span", { class: `verdict ${sign}`, title: words }, h("span", { class: "glyph", role: "img", "aria-label": words }, signs[sign].glyph), ranked(g) ? ` ${ratio(g.ratio)}× ` : unequal(g) && ` ${words}`),
    ranked(g) && h("span", { class: "muted" }, interval(g.low, g.high))];
}

/** The share as a bar to the right of the middle, or to its left where the candidate is faster. */
function bar(share: number): SVGElement {
  const [half, height] = [36, 9];
  const length = Math.max(1, Math.abs(share) * half);
  return s("svg", { width: 2 * half, height, viewBox: `0 0 ${2 * half} ${height}`, class: "share", "aria-hidden": true },
    s("line", { x1: half, x2: half, y1: 0, y2: height, stroke: "var(--line)" }),
    s("rect", { x: share < 0 ? half - length : half, y: 1, width: length, height: height - 2, fill: share < 0 ? "var(--less)" : "var(--more)" }));
}
