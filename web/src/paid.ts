/** What is paid for: costs restated per core, clock, power or price, and what a saving is worth. Every product is written out. */
import { h, table, type Child } from "./dom";
import { duration, interval, list, number, percent, plural, quantity, ratio } from "./format";
import type { Money, Normal, Saving, Span, Worth } from "./data";
import type { Model } from "./state";

const perWords: Record<string, [each: string, like: string]> = {
  "core-ghz": ["core-GHz", "the cores and the clock of"], core: ["core", "the cores of"], ghz: ["GHz", "the clock of"],
  "watt-hour": ["watt-hour", "the power of"], price: ["money paid for an hour", "the price of"],
};

export function paid(m: Model): HTMLElement | null {
  const { normal, worth } = m.data;
  if (!normal && !worth) return null;
  return h("section", { id: "paid", "aria-labelledby": "paid-title" }, h("h2", { id: "paid-title" }, "What is paid for"),
    m.rebasedNow && h("p", { class: "note" }, `These figures compare with ${m.run.baseline}, the baseline of the run.`),
    normal && restated(m, normal), worth && saving(m, worth));
}

type Term = Normal["lines"][number]["terms"][number];

/** A figure as it was given: not measured, so no digit is added to it. */
const exact = (v: number): string => (v >= 1e-4 && v < 1e7 ? Number.isInteger(v) ? number(v) : String(Number(v.toPrecision(4))) : number(v));

/** One side of a quotient: 4 cores × 2.67 GHz. */
const side = (terms: Term[], of: (t: Term) => number): string =>
  terms.map((t) => (t.what === "cores" ? `${exact(of(t))} ${of(t) === 1 ? "core" : "cores"}` : `${exact(of(t))} ${t.unit ?? ""}`.trim())).join(" × ");

function restated(m: Model, n: Normal): Child {
  const [each, like] = Object.hasOwn(perWords, n.per) ? perWords[n.per]! : [n.per, "what is paid for of"];
  const lines = n.lines.filter((l) => m.state.targets.has(l.target) && m.workloadShown(l.workload));
  const done = lines.filter((l) => !l.refused && Math.abs(l.factor - 1) > 1e-9);
  // Where both sides had the same, a ratio stays what it was.
  const same = lines.filter((l) => !l.refused && Math.abs(l.factor - 1) <= 1e-9);
  const refused = new Map<string, string[]>();
  for (const l of lines) if (l.refused) refused.set(l.refused, [...(refused.get(l.refused) ?? []), `${l.target} ${l.workload}`]);
  const oneBaseline = new Set(lines.map((l) => l.baseline)).size < 2;
  return h("div", { class: "restated" }, h("h3", {}, `Cost per ${each}`),
    h("p", { class: "lead" }, "Each ratio is multiplied by what the candidate had relative to the baseline, from recorded facts only."),
    done.length > 0 ? products(done.slice(0, mostLines), each, like, oneBaseline) : h("p", {}, "No ratio changes: candidates and baseline had the same."),
    done.length > mostLines && h("details", { class: "inner" }, h("summary", {}, `${done.length - mostLines} more`), products(done.slice(mostLines), each, like, oneBaseline)),
    same.length > 0 && h("details", { class: "inner" }, h("summary", {}, `${plural(same.length, "ratio")} as before: both sides had the same`), products(same, each, like, oneBaseline)),
    [...n.notes.map((text) => h("p", { class: "note" }, `Note: ${text}.`)),
      ...[...refused.entries()].map(([why, where]) => h("details", { class: "inner" }, h("summary", {}, `${plural(where.length, "cell")} not restated: ${why}`), h("p", { class: "where" }, list(where))))]);
}

/** Lines shown before the reader is asked. */
const mostLines = 24;

function products(lines: Normal["lines"], each: string, like: string, oneBaseline: boolean): HTMLElement {
  return table({
    head: ["Workload", "Target", ...(oneBaseline ? [] : ["Against"]), "Measured", "× candidate / baseline", "= Cost", "Its figure", `With ${like} the baseline`], figures: oneBaseline ? 2 : 3,
    rows: lines.map((l): Child[] => [l.workload, l.target, ...(oneBaseline ? [] : [l.baseline]),
      [`${ratio(l.measured.center)}× `, h("span", { class: "muted" }, interval(l.measured.low, l.measured.high))],
      [`(${side(l.terms, (t) => t.candidate)}) / (${side(l.terms, (t) => t.baseline)})`, l.terms.some((t) => t.source) && h("span", { class: "muted" }, ` ${l.terms.find((t) => t.source)!.source}`),
        l.unequal_topology && h("span", { class: "differs" }, ` unequal topology, as told: ${l.unequal_topology}`)],
      [h("b", {}, `${ratio(l.ratio)}× `), h("span", { class: "muted" }, interval(l.low, l.high))], quantity(l.figure, l.unit), quantity(l.value, l.unit)]),
  }, `Costs per ${each}`, "paid-table");
}

const money = (v: number, currency: string | undefined): string => `${number(v)}${currency ? ` ${currency}` : ""}`;
const sum = (m: Money): string => `${exact(m.amount)}${m.currency ? ` ${m.currency}` : ""}`;

/** Seconds in the unit that suits them: a saving may be microseconds in a use and days in a year. */
const time = (s: number): string => (s < 60 ? quantity(s, "s") : s < 48 * 3600 ? duration(s) : `${number(s / 86400)} days`);
const spanned = (x: Span, text: (v: number) => string): Child => [h("b", {}, text(x.center)), " ", h("span", { class: "muted" }, `[${text(x.low)}, ${text(x.high)}]`)];

function saving(m: Model, w: Worth): Child {
  const shown = w.answers.filter((a) => m.state.targets.has(a.target));
  return h("div", { class: "worth" }, h("h3", {}, `Is it worth ${sum(w.price)}?`),
    h("p", { class: "lead" }, `If ${sum(w.price)} buys it once and the work is done ${exact(w.uses_per_day)} times a day, on average over all days of the year${w.hourly.amount > 0 ? `, and an hour of waiting costs ${sum(w.hourly)}` : ""}.`),
    shown.map((a) => (a.refused ? h("p", { class: "saved" }, h("b", {}, a.target), `: no answer: ${a.refused}.`) : answerOf(m, w, a))));
}

function answerOf(m: Model, w: Worth, a: Saving): Child {
  const hourly = w.hourly.amount > 0;
  const currency = w.price.currency ?? w.hourly.currency;
  const rows: Child[][] = [
    ["Saved in one use", `${time(a.use_seconds)} × (1 − ${ratio(a.ratio.center)})`, spanned(a.per_use, time)],
    ["Saved in a day", `× ${exact(w.uses_per_day)} uses`, spanned(a.per_day, time)],
    ["Saved in a year", `× ${w.days_in_year} days`, spanned(a.per_year, time)],
  ];
  const more = a.capacity;
  // The work was told as a rate: what a use takes follows from how many are on their way at once.
  if (more) rows.unshift([`One use in ${a.baseline}`, `${more.at_once} at once / ${quantity(more.rate, more.unit)}`, h("b", {}, time(a.use_seconds))]);
  if (hourly) {
    rows.push(["Money in a year", `× ${sum(w.hourly)} an hour`, spanned(a.money_per_year, (v) => money(v, currency))],
      ["The price is saved after", `${sum(w.price)} / (${time(a.per_use.center)} × ${sum(w.hourly)} an hour)`, spanned(a.break_even_uses, (v) => plural(Math.ceil(Number(v.toPrecision(3))), "use"))]);
  } else {
    rows.push(["An hour must be worth", `${sum(w.price)} / ${time(a.per_year.center)}`, spanned(a.break_even_hourly, (v) => money(v, currency))]);
  }
  if (more) {
    rows.push(["More capacity", `${quantity(more.rate, more.unit)} × (1 / ${ratio(a.ratio.center)} − 1)`, spanned(more.more, (v) => quantity(v, more.unit))],
      [`Price of 1 ${more.unit} more`, `${sum(w.price)} / ${quantity(more.more.center, more.unit)}`, spanned(more.price_per_more, (v) => money(v, currency))]);
  }
  const when = a.break_even_day ? [h("b", {}, `on ${a.break_even_day}`), ` [${a.day_early ?? "?"}, ${a.day_late ?? "not within a hundred years"}]`] : ["not within a hundred years"];
  return h("div", { class: "saved" },
    h("p", {}, h("b", {}, a.target), ` saves ${time(a.per_use.center)} in each use of ${a.workload} against ${a.baseline}`,
      hourly ? [". ", sum(w.price), " are saved ", when] : [`, and ${sum(w.price)} within a year if an hour is worth at least ${money(a.break_even_hourly.center, currency)}`],
      h("span", { class: "scope" }, ` (${percent(a.level)}, ${m.run.scope}, first used ${w.from})`), "."),
    table({ head: ["", "Arithmetic", "Result and interval"], rows }, `What ${a.target} saves`));
}
