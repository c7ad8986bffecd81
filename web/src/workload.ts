/** The trials of one workload: in the order they ran, as distributions, as percentiles, and what they said of themselves. */
import * as Plot from "@observablehq/plot";
import { chart } from "./chart";
import { h, s, table, ticked, type Child } from "./dom";
import { flames } from "./flame";
import { deviation, interval, list as join, plural, quantity, ratio, unitTicks } from "./format";
import { Mark, seriesOf, targetName, type Cell, type Series } from "./data";
import { key, keyItem, logAxis, place, plot, scales } from "./plot";
import { centerOf, type Model } from "./state";
import { median } from "./stats";
import { flushOf, ranked, signOf, signs, tried, word } from "./verdict";

/** Workloads listed before the reader is asked. */
const mostListed = 60;
const open = new Set<string>();

export function workloads(m: Model): HTMLElement {
  const labels = [...new Set(m.data.result.cells.map((c) => c.workload))].filter((l) => m.workloadShown(l));
  const byLabel = new Map<string, Cell[]>();
  for (const c of m.cells()) {
    const g = byLabel.get(c.workload);
    if (g) g.push(c);
    else byLabel.set(c.workload, [c]);
  }
  const ran = (l: string) => (byLabel.get(l) ?? []).some((c) => tried(c) && !m.target(c.target)?.error);
  const never = labels.filter((l) => !ran(l));
  const labelsShown = labels.filter(ran);
  const list = h("div", { class: "workloads" });
  const fill = (from: number, to: number) => { for (const l of labelsShown.slice(from, to)) list.append(entry(m, l, byLabel.get(l) ?? [])); };
  fill(0, mostListed);
  const section = h("section", { id: "workloads", "aria-labelledby": "workloads-title" },
    h("h2", { id: "workloads-title" }, "Workload by workload"),
    h("p", { class: "lead" }, "Open a workload to see its trials in the order they ran, their spread, and what they reported."), list);
  if (labels.length === 0) section.append(h("p", { class: "empty" }, "The filters above leave no workload."));
  if (labelsShown.length > mostListed) {
    const more = h("button", { type: "button", class: "wide", onclick: () => { fill(mostListed, labelsShown.length); more.remove(); } }, `Show all ${labelsShown.length} workloads`);
    section.append(more);
  }
  // One line for all of them: there is nothing to open.
  if (never.length > 0) section.append(h("details", { class: "inner never-run" }, h("summary", {}, `${plural(never.length, "workload")} of the plan ${never.length === 1 ? "was" : "were"} not run`), h("ul", {}, never.map((l) => h("li", {}, l)))));
  return section;
}

function entry(m: Model, label: string, cells: Cell[]): HTMLElement {
  const primary = cells.filter((c) => c.primary && m.state.targets.has(c.target) && tried(c) && !m.target(c.target)?.error);
  const body = h("div", { class: "body" });
  const d = h("details", { class: "workload", "data-workload": label },
    h("summary", {}, h("span", { class: "label" }, label),
      h("span", { class: "verdicts" }, primary.map((c) => h("span", { class: `verdict ${signOf(c)}` },
        h("span", { class: "glyph", "aria-hidden": true }, signs[signOf(c)].glyph), h("span", { class: "who" }, c.target),
        ranked(c) ? `${ratio(c.ratio)}×` : h("span", { class: "unseen" }, signs[signOf(c)].word))))), body);
  const fill = () => { if (body.childElementCount === 0) body.append(...detail(m, label, cells)); };
  d.addEventListener("toggle", () => {
    if (d.open) { open.add(label); fill(); } else open.delete(label);
  });
  if (open.has(label)) d.open = true;
  return d;
}

function detail(m: Model, label: string, cells: Cell[]): HTMLElement[] {
  const metrics = [...new Map(cells.map((c) => [c.metric, c])).values()];
  const x = seriesOf(label);
  const place = h("div", { class: "pair" });
  const first = metrics.find((c) => c.primary) ?? metrics[0];
  const draw = (c: Cell | undefined) => {
    place.replaceChildren();
    if (c && x?.metrics[c.metric]) place.append(runOrder(m, x, c), spread(m, x, c));
    else place.append(h("p", { class: "empty" }, x ? "No trial has a figure for this metric." : "This file has no trials of this workload."));
  };
  draw(first);
  const out: HTMLElement[] = [];
  const latency = percentiles(m, label, metrics);
  if (metrics.length > 1) {
    const pick = h("select", { id: `metric-of-${label}`, onchange: () => draw(metrics[pick.selectedIndex]) },
      metrics.map((c) => h("option", { selected: c === first }, `${c.metric} (${c.unit})`)));
    out.push(h("label", { class: "field" }, "Metric ", pick));
  }
  out.push(place);
  const why = whyOf(m, label);
  if (why) out.push(why);
  out.push(...flames(m, label));
  if (latency) out.push(latency);
  const shown = cells.filter((c) => m.state.targets.has(c.target));
  out.push(figuresOf(m, label, shown.filter((c) => tried(c) && !m.target(c.target)?.error)));
  const doubts = warningsOf(shown);
  if (doubts) out.push(doubts);
  const said = stateOf(x);
  if (said) out.push(said);
  return out;
}

/** Where the time of each ratio goes, in a sentence for each target; against another baseline it is not known. */
function whyOf(m: Model, label: string): HTMLElement | null {
  const list = m.rebasedNow ? [] : (m.data.result.why ?? []).filter((w) => w.workload === label && m.state.targets.has(w.target));
  if (list.length === 0) return null;
  return h("div", { class: "why" }, h("h4", {}, "Why"), h("ul", {}, list.map((w) => h("li", {}, h("b", {}, w.target), `: ${w.text}.`))),
    h("p", { class: "note" }, "In units of what the baseline takes: the parts add up to the ratio. Only parts are named whose interval excludes 0."));
}

interface Point { target: string; at: number; value: number; off: number; mark: number; i: number }

/** The targets that have trials, in the plan's order, and their trials with a figure. */
function points(m: Model, x: Series, metric: string): { names: string[]; all: Point[]; centers: Map<string, number> } {
  const values = x.metrics[metric] ?? [];
  const all: Point[] = [];
  values.forEach((v, i) => {
    const target = targetName(x.target[i]!);
    if (v === null || !(m.state.targets.has(target) || target === m.state.baseline)) return;
    all.push({ target, at: x.seq[i]!, value: v, off: 0, mark: x.mark[i]!, i });
  });
  const names = m.data.result.targets.map((t) => t.name).filter((n) => all.some((p) => p.target === n));
  const centers = new Map(names.map((n) => {
    const used = all.filter((p) => p.target === n && !(p.mark & ~Mark.noisy));
    return [n, median((used.length ? used : all.filter((p) => p.target === n)).map((p) => p.value))];
  }));
  for (const p of all) p.off = p.value / centers.get(p.target)! - 1;
  return { names, all: all.filter((p) => Number.isFinite(p.off)), centers };
}

function said(mark: number): string {
  const words = [
    mark & Mark.warmup && "warm-up, not used", mark & Mark.null && "null control: the baseline against itself", mark & Mark.discarded && "in a discarded block, not used",
    mark & Mark.noisy && "the host was busy",
  ].filter(Boolean);
  return words.join(", ");
}

/** The mark of a trial that is not used, as it stands in a key. */
function hollow(word: string): SVGElement {
  if (word === "null control") return s("path", { d: "M-5,0h10M0,-5v10", stroke: "var(--muted)", "stroke-width": 1.6 });
  return s("circle", { r: 5, fill: "none", stroke: word === "discarded" ? "var(--withheld)" : "var(--soft)", "stroke-width": 1.6 });
}

function runOrder(m: Model, x: Series, c: Cell): HTMLElement {
  const { names, all, centers } = points(m, x, c.metric);
  const plain = all.filter((p) => !(p.mark & ~Mark.noisy));
  const kinds: [string, Point[], Plot.DotOptions][] = [
    ["warm-up", all.filter((p) => p.mark & Mark.warmup), { fill: "none", stroke: "target" }],
    ["null control", all.filter((p) => p.mark & Mark.null && !(p.mark & (Mark.warmup | Mark.discarded))), { fill: "none", stroke: "var(--muted)" }],
    ["discarded", all.filter((p) => p.mark & Mark.discarded && !(p.mark & Mark.warmup)), { fill: "none", stroke: "var(--withheld)" }],
  ];
  const failed = x.mark.map((mark, i) => ({ mark, i })).filter(({ mark }) => mark & Mark.failed);
  const text = (p: Point) => [`${p.target} · trial ${p.at}, block ${x.block[p.i]}`, `${quantity(p.value, c.unit)} (${deviation(p.off)} from its median)`, said(p.mark)].filter(Boolean).join("\n");
  return chart({
    title: "In the order they ran", subject: c.workload, file: `run-order-${c.workload}-${c.metric}`, height: 50 + names.length * 92,
    note: `${c.metric}; each target against its own median, so that drift shows as a slope`,
    key: key(m, names, kinds.filter(([, list]) => list.length > 0).map(([word]) => keyItem(word, hollow(word)))),
    draw: (width) => {
      const svg = plot({
        width, height: 44 + names.length * 92, marginTop: 18, marginLeft: 52, marginRight: 12, marginBottom: 34, ...scales(m, names),
        x: { label: "trial of the run", nice: false, inset: 6 }, fy: { domain: names, axis: null, padding: 0.24 },
        y: { ticks: 3, tickFormat: (v: number) => (v === 0 ? "0" : deviation(v).replace(" ", "\u2009")), label: null, nice: true },
        marks: [
          Plot.frame({ stroke: "var(--line)" }), Plot.ruleY([0], { stroke: "var(--muted)", strokeOpacity: 0.6 }),
          Plot.line(plain, { x: "at", y: "off", fy: "target", stroke: "target", strokeOpacity: 0.25, strokeWidth: 1 }),
          Plot.dot(plain, { x: "at", y: "off", fy: "target", fill: "target", symbol: "target", r: 2.8 }),
          ...kinds.map(([word, list, style]) => Plot.dot(list, { x: "at", y: "off", fy: "target", symbol: word === "null control" ? "plus" : "circle", r: 3.2, strokeWidth: 1.4, ...style })),
          Plot.text(names, { fy: (n: string) => n, text: (n: string) => n, frameAnchor: "top-left", lineAnchor: "bottom", dy: -4, fontWeight: 600, fill: "var(--ink)" }),
        ],
      });
      return { svg, spots: all.map((p) => ({ ...place(svg, p.at, p.off, p.target), text: text(p) })) };
    },
    table: () => ({
      head: ["Trial", "Block", "Session", "Target", c.metric, "From its median", "Remark"], figures: 4,
      rows: [...all.map((p): Child[] => [p.at, x.block[p.i], x.session[p.i], p.target, quantity(p.value, c.unit), deviation(p.off), said(p.mark)]),
        ...failed.map(({ i, mark }): Child[] => [x.seq[i], x.block[i], x.session[i], targetName(x.target[i]!), "", "", [`failed: ${x.errors?.[String(i)] ?? ""}`, said(mark)].filter(Boolean).join(", ")])],
    }),
    ...(centers.size === 0 ? { className: "hollow" } : {}),
  });
}

/** At most so many of a list, evenly taken. */
const sparse = <T>(all: T[], most: number): T[] => all.filter((_, i) => i % Math.ceil(all.length / most) === 0);

/** Spreads points over a row's height without chance: the same file always looks the same. */
const scatter = (i: number) => ((i * 0.6180339887) % 1) * 0.7 + 0.15;

function spread(m: Model, x: Series, c: Cell): HTMLElement {
  const { names, all, centers } = points(m, x, c.metric);
  const used = all.filter((p) => !(p.mark & ~Mark.noisy));
  const rows = names.map((target) => ({ target, center: centers.get(target)! })).filter((r) => r.center > 0);
  const samples = (x.samples ?? []).filter((q) => q.metric === c.metric && names.includes(targetName(q.target)) && q.quantiles.length === 101)
    .map((q) => ({ target: targetName(q.target), count: q.count, q: q.quantiles }));
  const values = [...used.map((p) => p.value), ...samples.flatMap((z) => [z.q[5]!, z.q[95]!])].filter((v) => v > 0);
  const log = values.length > 0 && Math.max(...values) > 8 * Math.min(...values);
  const heightOf = 46 + names.length * 66;
  return chart({
    title: "Spread", subject: c.workload, file: `spread-${c.workload}-${c.metric}`, height: heightOf,
    note: [`${c.metric}; one mark per trial, the line is the median`, samples.length > 0 && "; the bar holds 90 % of the samples within trials"],
    key: key(m, names),
    draw: (width) => {
      const svg = plot({
        width, height: heightOf, marginTop: 16, marginLeft: 12, marginRight: 20, marginBottom: 34, ...scales(m, names),
        x: { type: log ? "log" : "linear", label: null, ticks: log ? sparse(unitTicks(Math.min(...values), Math.max(...values), c.unit), Math.max(2, Math.floor(width / 90))) : Math.max(2, Math.floor(width / 110)), tickFormat: (v: number) => quantity(v, c.unit), nice: true, inset: 8 },
        y: { domain: [0, 1], axis: null }, fy: { domain: names, axis: null, padding: 0.26 },
        marks: [
          Plot.gridX(log ? sparse(unitTicks(Math.min(...values), Math.max(...values), c.unit), Math.max(2, Math.floor(width / 90))) : undefined, { stroke: "var(--line)", strokeOpacity: 1 }),
          Plot.barX(samples, { x1: (z) => z.q[5], x2: (z) => z.q[95], fy: "target", fill: "target", fillOpacity: 0.15 }),
          Plot.barX(samples, { x1: (z) => z.q[25], x2: (z) => z.q[75], fy: "target", fill: "target", fillOpacity: 0.2 }),
          Plot.dot(used.filter((p) => !log || p.value > 0), { x: "value", y: (_: Point, i: number) => scatter(i), fy: "target", fill: "target", fillOpacity: 0.75, symbol: "target", r: 2.6 }),
          Plot.ruleX(rows, { x: "center", fy: "target", stroke: "var(--ink)", strokeWidth: 1.6 }),
          Plot.text(names, { fy: (n: string) => n, text: (n: string) => n, frameAnchor: "top-left", lineAnchor: "bottom", dy: -3, fontWeight: 600, fill: "var(--ink)" }),
        ],
      });
      return { svg, spots: rows.map((r) => ({ ...place(svg, r.center, 0.5, r.target), text: `${r.target}\nmedian ${quantity(r.center, c.unit)} of ${plural(used.filter((p) => p.target === r.target).length, "trial")}` })) };
    },
    table: () => ({
      head: ["Target", "Trials", "Least", "Median", "Most"], figures: 1,
      rows: names.map((n): Child[] => {
        const v = used.filter((p) => p.target === n).map((p) => p.value);
        return [n, v.length, v.length ? quantity(Math.min(...v), c.unit) : "", quantity(centers.get(n)!, c.unit), v.length ? quantity(Math.max(...v), c.unit) : ""];
      }),
    }),
  });
}

/** Reads a percentile out of a metric's name: p50_us is 50, p999_us is 99.9. */
export function percentileOf(metric: string): number | undefined {
  const m = /^p(\d{2,6})_(?:ns|us|ms|s)$/.exec(metric);
  return m ? Number(`${m[1]!.slice(0, 2)}.${m[1]!.slice(2) || "0"}`) : undefined;
}

function percentiles(m: Model, label: string, metrics: Cell[]): HTMLElement | null {
  const list = metrics.map((c) => ({ c, p: percentileOf(c.metric) })).filter((z): z is { c: Cell; p: number } => z.p !== undefined).sort((a, b) => a.p - b.p);
  if (list.length < 2) return null;
  const rows: { target: string; p: string; v: number; unit: string }[] = [];
  for (const t of m.data.result.targets) {
    if (!m.state.targets.has(t.name) && t.name !== m.state.baseline) continue;
    for (const { c, p } of list) {
      const v = centerOf(label, c.metric, t.name);
      if (v > 0) rows.push({ target: t.name, p: `p${p}`, v, unit: c.unit });
    }
  }
  const names = [...new Set(rows.map((r) => r.target))];
  if (names.length === 0) return null;
  return chart({
    title: "Latency percentiles", subject: label, note: "medians over the trials", file: `latency-${label}`, height: 300, key: key(m, names),
    draw: (width) => {
      const svg = plot({
        width, height: 300, marginLeft: 64, marginRight: 16, ...scales(m, names), x: { type: "point", domain: list.map((z) => `p${z.p}`), label: null },
        y: { type: "log", axis: null },
        marks: [...logAxis(unitTicks(Math.min(...rows.map((r) => r.v)), Math.max(...rows.map((r) => r.v)), list[0]!.c.unit), (v) => quantity(v, list[0]!.c.unit)), Plot.line(rows, { x: "p", y: "v", stroke: "target", strokeWidth: 1.6 }), Plot.dot(rows, { x: "p", y: "v", fill: "target", symbol: "target", r: 4 })],
      });
      return { svg, spots: rows.map((r) => ({ ...place(svg, r.p, r.v), text: `${r.target} · ${r.p}\n${quantity(r.v, r.unit)}` })) };
    },
    table: () => ({ head: ["Target", ...list.map((z) => `p${z.p}`)], figures: 1,
      rows: names.map((n): Child[] => [n, ...list.map((z) => { const r = rows.find((q) => q.target === n && q.p === `p${z.p}`); return r ? quantity(r.v, r.unit) : ""; })]) }),
  });
}

function figuresOf(m: Model, label: string, cells: Cell[]): HTMLElement {
  // Beside a figure that depends on it stands what a flush does on both sides.
  const flush = (name: string) => { const f = flushOf(m.target(name)); return f ? [h("b", {}, f.verdict), ` ${f.words}`] : "–"; };
  const writes = cells.some((c) => c.writes && flushOf(m.target(c.target)));
  return table({
    head: ["Metric", "Target", "Verdict", ...(writes ? ["A flush there", "In the baseline"] : []), "Ratio", "Interval", "Candidate", "Baseline", "Blocks", "q"], figures: writes ? 5 : 3,
    rows: cells.map((c): Child[] => [c.metric, c.target, h("span", { class: signOf(c) }, h("span", { class: "glyph", "aria-hidden": true }, signs[signOf(c)].glyph), ` ${word(c)}`),
      ...(writes ? [c.writes ? flush(c.target) : "", c.writes ? flush(c.baseline) : ""] : []),
      ranked(c) ? `${ratio(c.ratio)}×` : "", ranked(c) ? interval(c.low, c.high) : "", c.center ? quantity(c.center, c.unit) : "",
      c.baseline_center ? quantity(c.baseline_center, c.unit) : "", c.blocks_needed ? `${c.blocks} (needs ${c.blocks_needed})` : c.blocks, c.recomputed || !c.level ? "" : c.q < 0.001 ? "<0.001" : c.q.toFixed(3)]),
  }, `Figures of ${label}`);
}

function warningsOf(cells: Cell[]): HTMLElement | null {
  const seen = new Map<string, { targets: Set<string>; body: Child[] }>();
  const add = (c: Cell, text: string, body: Child[]) => {
    const g = seen.get(text) ?? { targets: new Set(), body };
    g.targets.add(c.target);
    seen.set(text, g);
  };
  for (const c of cells) {
    if (c.failure) add(c, `failed: ${c.failure.message}`, ["failed: ", c.failure.message, c.failure.evidence && h("pre", { tabindex: 0 }, c.failure.evidence)]);
    for (const w of c.warnings) add(c, w.text, [ticked(w.text), w.remedy && h("span", { class: "remedy" }, " — ", ticked(w.remedy))]);
  }
  return seen.size === 0 ? null : h("div", {}, h("h4", {}, "Doubts"),
    h("ul", { class: "doubts" }, [...seen.values()].map((g) => h("li", {}, h("b", {}, join([...g.targets]), ": "), g.body))));
}

function stateOf(x: Series | undefined): HTMLElement | null {
  const list = x?.state ?? [];
  if (list.length === 0) return null;
  const targets = [...new Set(list.map((z) => z.target))].sort((a, b) => a - b);
  const keys = [...new Set(list.map((z) => z.key))];
  return h("details", { class: "inner" }, h("summary", {}, "What the trials reported"), table({
    head: ["", ...targets.map(targetName)], rows: keys.map((k): Child[] => [k, ...targets.map((t) => list.find((z) => z.key === k && z.target === t)?.text ?? "")]),
  }, "State of the environments during the trials"));
}
