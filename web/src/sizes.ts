/** What record sizes and file sizes do: curves over one, heat maps over both, and the cost models fitted to them. */
import * as Plot from "@observablehq/plot";
import { chart } from "./chart";
import { h, table, type Child } from "./dom";
import { bytes, commonUnit, interval, number, percent, quantity, ratio, size, unitTicks } from "./format";
import type { Cell, Cost, PlanWorkload } from "./data";
import { key, keyItem, logAxis, place, plot, scales, swatch } from "./plot";
import type { Model } from "./state";
import { ranked, signOf, signs } from "./verdict";

/** Workloads of one kind that differ in nothing but record size, or record size and file size. */
export interface Sweep { kind: string; title: string; points: { label: string; bs: number; size: number }[]; records: number[]; sizes: number[] }

/** The parameters of a workload: the plan's, or what its label says when the plan could not be read. */
function parameters(w: PlanWorkload): Record<string, string> {
  if (Object.keys(w.params).length > 0) return w.params;
  return Object.fromEntries([...w.label.matchAll(/(?:^|\s)([a-z_]+)=(\S+)/g)].map((x) => [x[1]!, x[2]!]));
}

export function sweeps(list: PlanWorkload[]): Sweep[] {
  const groups = new Map<string, Sweep>();
  for (const w of list) {
    const { bs, size: fileSize, ...rest } = parameters(w);
    const record = bytes(bs ?? "");
    if (!(record > 0)) continue;
    const others = Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1));
    const k = JSON.stringify([w.kind, others]);
    const g = groups.get(k) ?? { kind: w.kind, title: w.kind, points: [], records: [], sizes: [] };
    g.points.push({ label: w.label, bs: record, size: fileSize === undefined ? 0 : bytes(fileSize) || 0 });
    groups.set(k, g);
  }
  const unique = (v: number[]) => [...new Set(v)].sort((a, b) => a - b);
  const out = [...groups.values()].filter((g) => g.points.length > 1);
  for (const g of out) {
    g.records = unique(g.points.map((p) => p.bs));
    g.sizes = unique(g.points.map((p) => p.size));
  }
  // Two sweeps of one kind need more than the kind's name: the words that their labels share.
  for (const g of out) {
    const words = g.points.map((p) => p.label.split(/\s+/));
    g.title = words[0]!.filter((w) => words.every((x) => x.includes(w))).join(" ") || g.kind;
  }
  return out.filter((g) => g.records.length > 1);
}

export function sizes(m: Model): HTMLElement | null {
  const list = sweeps(m.data.workloads.length ? m.data.workloads : labels(m)).filter((g) => g.points.some((p) => m.workloadShown(p.label)));
  if (list.length === 0) return null;
  return h("section", { id: "sizes", "aria-labelledby": "sizes-title" }, h("h2", { id: "sizes-title" }, "Across sizes"),
    h("p", { class: "lead" }, "The same work at several record sizes shows where a target pays for each call, and where for each byte."),
    list.map((g) => one(m, g)));
}

/** Stand-ins for the plan's workloads when it could not be read. */
const labels = (m: Model): PlanWorkload[] =>
  [...new Map(m.data.result.cells.map((c) => [c.workload, c.kind])).entries()].map(([label, kind]) => ({ label, kind, params: {} }));

function one(m: Model, g: Sweep): HTMLElement {
  const byLabel = new Map(g.points.map((p) => [p.label, p]));
  const cells = m.cells().filter((c) => byLabel.has(c.workload));
  const metrics = [...new Map(cells.map((c) => [c.metric, c])).values()];
  const stage = h("div", {});
  const metric = h("select", {}, metrics.map((c) => h("option", { selected: c.primary }, c.metric)));
  const show = h("select", {}, h("option", {}, "rate"), h("option", {}, "ratio"));
  const grid = g.sizes.length > 1;
  const draw = () => {
    const like = metrics[Math.max(0, metric.selectedIndex)];
    if (!like) return;
    const of = cells.filter((c) => c.metric === like.metric);
    stage.replaceChildren(grid ? heat(m, g, of, like, show.value === "ratio") : curve(m, g, of, like));
  };
  metric.addEventListener("change", draw);
  show.addEventListener("change", draw);
  draw();
  return h("div", { class: "sweep" }, h("h3", {}, g.title), h("div", { class: "fields" },
    metrics.length > 1 && h("label", { class: "field" }, grid ? "Operation " : "Metric ", metric), grid && h("label", { class: "field" }, "Show ", show)), stage);
}

interface Value { target: string; bs: number; size: number; v: number; cell?: Cell | undefined }

/** The centre of every target at every point, the baseline's included. */
function values(m: Model, g: Sweep, cells: Cell[]): Value[] {
  const at = new Map(g.points.map((p) => [p.label, p]));
  const out: Value[] = [];
  const seen = new Set<string>();
  for (const c of cells) {
    const p = at.get(c.workload)!;
    if (!seen.has(c.workload) && c.baseline_center > 0 && c.baseline === m.state.baseline) {
      seen.add(c.workload);
      out.push({ target: m.state.baseline, bs: p.bs, size: p.size, v: c.baseline_center });
    }
    if (c.center > 0 && m.state.targets.has(c.target) && c.target !== m.state.baseline) out.push({ target: c.target, bs: p.bs, size: p.size, v: c.center, cell: c });
  }
  const order = m.data.result.targets.map((t) => t.name);
  return out.sort((a, b) => order.indexOf(a.target) - order.indexOf(b.target) || a.size - b.size || a.bs - b.bs);
}

function curve(m: Model, g: Sweep, cells: Cell[], like: Cell): HTMLElement {
  const rows = values(m, g, cells);
  const names = [...new Set(rows.map((r) => r.target))];
  const text = (r: Value) => `${r.target} · ${size(r.bs)}\n${quantity(r.v, like.unit)}${r.cell && ranked(r.cell) ? `\n${ratio(r.cell.ratio)}× ${interval(r.cell.low, r.cell.high)}` : ""}`;
  return chart({
    title: `${like.metric} by record size`, subject: g.title, file: `curve-${g.title}-${like.metric}`, height: 340, key: key(m, names),
    draw: (width) => {
      const svg = plot({
        width, height: 340, marginLeft: 76, marginRight: 20, marginBottom: 38, ...scales(m, names),
        x: { type: "log", base: 2, domain: [g.records[0]!, g.records[g.records.length - 1]!], ticks: shownSizes(g.records, width), tickFormat: size, label: "record size", inset: 8 },
        y: { type: "log", axis: null },
        marks: [...logAxis(unitTicks(Math.min(...rows.map((r) => r.v)), Math.max(...rows.map((r) => r.v)), like.unit), (v) => quantity(v, like.unit)), Plot.line(rows, { x: "bs", y: "v", stroke: "target", strokeWidth: 1.8 }), Plot.dot(rows, { x: "bs", y: "v", fill: "target", symbol: "target", r: 4 })],
      });
      return { svg, spots: rows.map((r) => ({ ...place(svg, r.bs, r.v), text: text(r) })) };
    },
    table: () => ({ head: ["Record size", ...names], figures: 1, rows: g.records.map((b): Child[] => [size(b), ...names.map((n) => { const r = rows.find((q) => q.bs === b && q.target === n); return r ? quantity(r.v, like.unit) : ""; })]) }),
  });
}

function heat(m: Model, g: Sweep, cells: Cell[], like: Cell, ratios: boolean): HTMLElement {
  const rows = values(m, g, cells).filter((r) => !ratios || r.cell);
  const names = [...new Set(rows.map((r) => r.target))];
  const worth = (r: Value) => (ratios ? (r.cell && ranked(r.cell) ? r.cell.ratio : NaN) : r.v);
  const known = rows.map(worth).filter((v) => v > 0);
  const far = Math.max(1.5, ...known.map((v) => Math.max(v, 1 / v)));
  const label = (r: Value) => (ratios ? (r.cell && ranked(r.cell) ? ratio(worth(r)) : signs[r.cell ? signOf(r.cell) : "absent"].glyph) : number(r.v / unit.factor));
  const unit = commonUnit(Math.max(...known), like.unit);
  const rowHeight = 24;
  const block = g.sizes.length * rowHeight + 30;
  // Whether ink or paper can be read on a cell follows from how far along the scale it is.
  const span = ratios ? [1 / far, far] : [Math.min(...known), Math.max(...known)];
  const along = (v: number) => (span[1]! > span[0]! ? Math.log(v / span[0]!) / Math.log(span[1]! / span[0]!) : 0.5);
  const tone = (r: Value) => { const v = worth(r); return !(v > 0) ? "var(--muted)" : ratios ? (Math.abs(along(v) - 0.5) > 0.32 ? "#fff" : "#111") : along(v) > 0.55 ? "#111" : "#fff"; };
  const text = (r: Value) => `${r.target} · ${size(r.size)} file, ${size(r.bs)} records\n${quantity(r.v, like.unit)}${r.cell && ranked(r.cell) ? `\n${ratio(r.cell.ratio)}× ${interval(r.cell.low, r.cell.high)} ${signs[signOf(r.cell)].glyph}` : ""}`;
  return chart({
    title: `${like.metric}: file size × record size`, subject: g.title, file: `heat-${g.title}-${like.metric}-${ratios ? "ratio" : "rate"}`, height: names.length * block + 60,
    note: ratios ? `cost against ${m.state.baseline}; blue costs less, red more` : `${unit.name}; the lighter the ${like.better === "lower" ? "slower" : "faster"}`,
    draw: (width) => {
      const tight = (width - 80) / g.records.length;
      const svg = plot({
        width, height: names.length * block + 56, marginLeft: 72, marginRight: 8, marginTop: 26, marginBottom: tight < 48 ? 52 : 40, padding: 0.04,
        x: { type: "band", domain: g.records, tickFormat: size, tickSize: 0, label: tight < 48 ? null : "record size", tickRotate: tight < 48 ? -50 : 0 }, y: { type: "band", domain: g.sizes, tickFormat: size, tickSize: 0, label: null }, fy: { domain: names, axis: null, padding: 0.22 },
        color: ratios ? { type: "diverging-log", pivot: 1, domain: [1 / far, far], scheme: "RdBu", reverse: true } : { type: "log", scheme: "cividis" },
        marks: [
          Plot.cell(rows.filter((r) => worth(r) > 0), { x: "bs", y: "size", fy: "target", fill: worth }),
          tight < 30 ? null : Plot.text(rows, { x: "bs", y: "size", fy: "target", text: label, fill: tone, fontSize: 10 }),
          Plot.text(names, { fy: (n: string) => n, text: (n: string) => n, frameAnchor: "top-left", dy: -16, fontWeight: 600, fill: "var(--ink)" }),
        ],
      });
      const half = (scale: "x" | "y") => (svg.scale(scale)!.bandwidth ?? 0) / 2;
      return { svg, spots: rows.map((r) => { const p = place(svg, r.bs, r.size, r.target); return { x: p.x + half("x"), y: p.y + half("y"), text: text(r) }; }) };
    },
    table: () => ({ head: ["Target", "File size", ...g.records.map(size)], figures: 2,
      rows: names.flatMap((n) => g.sizes.map((f): Child[] => [n, size(f), ...g.records.map((b) => { const r = rows.find((q) => q.target === n && q.size === f && q.bs === b); return r ? label(r) : ""; })])) }),
  });
}

const model = (c: Cost, b: number) => c.per_call_ns + b * c.per_byte_ns + (c.quantum && c.per_quantum_ns ? Math.ceil(b / c.quantum) * c.per_quantum_ns : 0);

export function costModels(m: Model): HTMLElement | null {
  const all = (m.data.result.costs ?? []).filter((c) => m.state.targets.has(c.target) || c.target === m.state.baseline);
  if (all.length === 0) return null;
  const groups = new Map<string, Cost[]>();
  for (const c of all) groups.set(c.label, [...(groups.get(c.label) ?? []), c]);
  return h("section", { id: "costs", "aria-labelledby": "costs-title" }, h("h2", { id: "costs-title" }, "What a call costs"),
    h("p", { class: "lead" }, "The model has a cost for each call, a cost for each byte and, if the figures show steps, a cost for each begun quantum. It is fitted over the record sizes."),
    pick(m, groups));
}

/** Models are many where a matrix was measured, so one is shown at a time. */
let picked = "";
function pick(m: Model, groups: Map<string, Cost[]>): Child[] {
  const labels = [...groups.keys()];
  if (!groups.has(picked)) picked = labels[0]!;
  const stage = h("div", {});
  const show = () => stage.replaceChildren(costModel(m, picked, groups.get(picked)!));
  const select = h("select", { onchange: () => { picked = labels[select.selectedIndex]!; show(); } }, labels.map((l) => h("option", { selected: l === picked }, l)));
  show();
  return [labels.length > 1 && h("label", { class: "field" }, "Work ", select), stage];
}

/** The sizes that have room on an axis. */
function shownSizes(all: number[], width: number): number[] {
  const unique = [...new Set(all)].sort((a, b) => a - b);
  return unique.filter((_, i) => i % Math.ceil(unique.length / Math.max(2, Math.floor((width - 100) / 64))) === 0);
}

function costModel(m: Model, label: string, list: Cost[]): HTMLElement {
  const points = list.flatMap((c) => (c.points ?? []).filter((p) => p.bytes > 0 && p.ns > 0).map((p) => ({ target: c.target, ...p, fit: model(c, p.bytes) })));
  const names = list.map((c) => c.target);
  const [low, high] = [Math.min(...points.map((p) => p.bytes)), Math.max(...points.map((p) => p.bytes))];
  const lines = points.length === 0 ? [] : list.flatMap((c) => Array.from({ length: 101 }, (_, i) => low * (high / low) ** (i / 100)).map((b) => ({ target: c.target, bytes: b, ns: model(c, b) })));
  const parts = list.flatMap((c) => [low, high].filter((b) => b > 0 && Number.isFinite(b)).flatMap((b) => {
    const total = model(c, b);
    return [["each call", c.per_call_ns], ["each byte", b * c.per_byte_ns], ["each quantum", total - c.per_call_ns - b * c.per_byte_ns]]
      .map(([part, ns]) => ({ at: `${c.target}, ${size(b)}`, part: String(part), share: total > 0 ? Number(ns) / total : 0 })).filter((p) => p.share > 1e-6);
  }));
  const kinds = ["each call", "each byte", "each quantum"].filter((k) => parts.some((p) => p.part === k));
  const tones: Record<string, string> = { "each call": "var(--t5)", "each byte": "var(--t2)", "each quantum": "var(--t1)" };
  const bars = [...new Set(parts.map((p) => p.at))];
  return h("div", { class: "sweep" }, h("h3", {}, label),
    h("ul", { class: "sentences" }, list.map((c) => h("li", {}, h("b", {}, c.target), `: ${c.text}`))),
    h("div", { class: "pair" }, points.length > 1 && chart({
      title: "Time of one operation", subject: label, note: "marks: measured; lines: fitted model", file: `cost-${label}`, height: 320, key: key(m, names),
      draw: (width) => {
        const svg = plot({
          width, height: 320, marginLeft: 68, marginRight: 16, marginBottom: 38, ...scales(m, names), x: { type: "log", base: 2, tickFormat: size, ticks: shownSizes(points.map((p) => p.bytes), width), label: "record size", inset: 6 },
          y: { type: "log", axis: null },
          marks: [...logAxis(unitTicks(Math.min(...points.map((p) => p.ns)), Math.max(...points.map((p) => p.ns)), "ns"), (v) => quantity(v, "ns")), Plot.line(lines, { x: "bytes", y: "ns", stroke: "target", strokeWidth: 1.4 }), Plot.dot(points, { x: "bytes", y: "ns", fill: "target", symbol: "target", r: 4 })],
        });
        return { svg, spots: points.map((p) => ({ ...place(svg, p.bytes, p.ns), text: `${p.target} · ${size(p.bytes)}\n${quantity(p.ns, "ns")}, the model says ${quantity(p.fit, "ns")}` })) };
      },
      table: () => ({ head: ["Target", "Record size", "Measured", "Model"], figures: 2, rows: points.map((p): Child[] => [p.target, size(p.bytes), quantity(p.ns, "ns"), quantity(p.fit, "ns")]) }),
    }), parts.length > 0 && chart({
      title: "Where the time goes", subject: label, note: "at the smallest and the largest record", file: `cost-parts-${label}`, height: 60 + bars.length * 28,
      key: h("ul", {}, kinds.map((k) => keyItem(k, swatch(tones[k]!)))),
      draw: (width) => {
        const svg = plot({
          width, height: 60 + bars.length * 28, marginBottom: 40, marginLeft: Math.min(width * 0.42, 12 + 6.6 * Math.max(...bars.map((b) => b.length))), marginRight: 16, x: { percent: true, label: "share of the time, %", domain: [0, 100] }, y: { domain: bars, label: null, tickSize: 0 },
          color: { type: "ordinal", domain: kinds, range: kinds.map((k) => tones[k]!) }, marks: [Plot.barX(parts, { x: "share", y: "at", fill: "part", order: kinds, stroke: "var(--paper)", insetTop: 2, insetBottom: 2 })],
        });
        return { svg, spots: bars.map((b) => ({ x: svg.scale("x")!.apply(50) as number, y: (svg.scale("y")!.apply(b) as number) + (svg.scale("y")!.bandwidth ?? 0) / 2, text: `${b}\n${parts.filter((p) => p.at === b).map((p) => `${p.part} ${percent(p.share)}`).join("\n")}` })) };
      },
      table: () => ({ head: ["Target and size", ...kinds], figures: 1, rows: bars.map((b): Child[] => [b, ...kinds.map((k) => percent(parts.find((p) => p.at === b && p.part === k)?.share ?? 0))]) }),
    })),
    table({ head: ["Target", "Each call", "Each byte", "Quantum", "Each quantum", "Largest deviation"], figures: 1,
      rows: list.map((c): Child[] => [c.target, quantity(c.per_call_ns, "ns"), `${number(c.per_byte_ns)} ns`, c.quantum ? size(c.quantum) : "–", c.quantum ? quantity(c.per_quantum_ns ?? 0, "ns") : "–", percent(c.error)]) }, `Cost model of ${label}`));
}
