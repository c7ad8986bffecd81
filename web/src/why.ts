/** Where the time of a unit of work goes: a stacked bar for each target, whose parts add up to its ratio. */
import { scaleLinear } from "d3-scale";
import { chart, type Drawing, type Spot } from "./chart";
import { h, s, type Child } from "./dom";
import { list as join, plural, quantity, ratio } from "./format";
import { keyItem, swatch } from "./plot";
import { extent } from "./save";
import type { Cell, Part, Product, Why } from "./data";
import type { Model } from "./state";

type Name = Part["part"];

/** The parts in the order in which they are stacked, each with a letter, so that no colour is needed to tell them apart. */
const kinds: Record<Name, { letter: string; words: string; fill: string }> = {
  user: { letter: "u", words: "user code", fill: "var(--p-user)" },
  kernel: { letter: "k", words: "kernel", fill: "var(--p-kernel)" },
  ready: { letter: "p", words: "waiting for a processor", fill: "var(--p-ready)" },
  disk: { letter: "d", words: "waiting for a disk", fill: "var(--p-disk)" },
  other: { letter: "w", words: "waiting", fill: "var(--p-other)" },
};

/** How many digits behind the point a ratio and its parts are told with; verdict.Why.Digits has the same. */
export const digits = (v: number): number => (v < 0.0995 ? 4 : v < 9.995 ? 2 : v < 99.95 ? 1 : 0);

/** Figures rounded so that they still add up to their rounded sum. */
export function adding(values: number[], places: number): number[] {
  const scale = 10 ** places;
  const out = values.map((v) => Math.floor(v * scale + 1e-9));
  let left = Math.round(values.reduce((a, b) => a + b, 0) * scale) - out.reduce((a, b) => a + b, 0);
  const order = values.map((v, i) => ({ i, rest: v * scale - out[i]! })).sort((a, b) => b.rest - a.rest);
  for (const { i } of order) {
    if (left < 1) break;
    out[i]!++;
    left--;
  }
  return out.map((v) => v / scale);
}

/** A sum of the program's, with the sign that people use. */
const typeset = (sum: string): string => sum.replace(/ - /g, " − ");
const signed = (v: number, places: number): string => {
  const text = Math.abs(v).toFixed(places);
  return `${Number(text) === 0 ? "" : v > 0 ? "+" : "−"}${text}`;
};

/** The part that makes most of a difference, of those that are shown. */
const largest = (w: Why): Part | undefined => w.parts.filter((p) => p.shown).sort((a, b) => Math.abs(b.extra) - Math.abs(a.extra))[0];

/** What makes the cost of a family's workloads in a target: the largest parts, and a sum that adds up. */
export function because(all: Why[], cells: Cell[]): string {
  const known = all.filter((w) => w.because && largest(w)).sort((a, b) => Math.abs(Math.log(b.ratio)) - Math.abs(Math.log(a.ratio)));
  const most = known[0];
  if (!most) return "";
  if (cells.length === 1) return `${typeset(most.because!)}.`;
  const count = new Map<string, number>();
  for (const w of known) count.set(largest(w)!.what, (count.get(largest(w)!.what) ?? 0) + 1);
  const parts = [...count].sort((a, b) => b[1] - a[1]).map(([what, n], i) => (i === 0 ? `${what} in ${n} of ${plural(cells.length, "workload")}` : `${what} in ${n}`));
  return `Most of the difference is ${join(parts)}. In ${most.workload}, ${typeset(most.because!)}.`;
}

/** A bar: what a target takes for a unit of work, part by part. */
interface Bar { target: string; ratio: number; parts: { name: Name; what: string; value: number; of?: Part }[]; why: Why; base: boolean }

/** The bars of a workload: each baseline once for all candidates that have the same parts, and its candidates below it. */
export function barsOf(all: Why[]): Bar[] {
  const groups = new Map<string, Why[]>();
  for (const w of all) {
    const key = JSON.stringify([w.baseline, w.parts.map((p) => p.part)]);
    groups.set(key, [...(groups.get(key) ?? []), w]);
  }
  return [...groups.values()].flatMap((list): Bar[] => {
    const first = list[0]!;
    // In the baseline nothing is emulated, whatever the candidate does.
    const plain = (p: Part) => (p.part === "user" || p.part === "kernel" ? kinds[p.part].words : p.what);
    return [{ target: first.baseline, ratio: 1, why: first, base: true, parts: first.parts.map((p) => ({ name: p.part, what: plain(p), value: p.base })) },
      ...list.map((w) => ({ target: w.target, ratio: w.ratio, why: w, base: false, parts: w.parts.map((p) => ({ name: p.part, what: p.what, value: p.candidate, of: p })) }))];
  });
}

function describe(b: Bar, i: number, told: number): string {
  const { what, of } = b.parts[i]!;
  const places = digits(b.ratio);
  const lines = [`${b.target} · ${what}`, `${told.toFixed(places)} of ${b.ratio.toFixed(places)}`];
  if (of) lines.push(of.shown ? `${signed(of.extra, places)} [${signed(of.low, places)}, ${signed(of.high, places)}] against ${b.why.baseline}` : `not shown to differ from ${b.why.baseline}`);
  return lines.join("\n");
}

const rowHeight = 50;

function draw(bars: Bar[], width: number): Drawing {
  const family = getComputedStyle(document.body).fontFamily;
  const x = scaleLinear().domain([0, Math.max(...bars.map((b) => b.ratio), 1)]).range([1, width - 14]);
  const shapes: SVGElement[] = [];
  const spots: Spot[] = [];
  bars.forEach((b, row) => {
    const top = row * rowHeight;
    const places = digits(b.ratio);
    const told = adding(b.parts.map((p) => p.value), places);
    let from = 0;
    shapes.push(s("text", { x: 0, y: top + 15, class: "name" }, cut(b.target, width - 70, `600 13px ${family}`), s("title", {}, b.target)),
      s("text", { x: width - 14, y: top + 15, class: "figures", "text-anchor": "end" }, b.base ? "1" : `${ratio(b.ratio)}×`));
    b.parts.forEach((p, i) => {
      const [a, z] = [x(from), x(from + Math.max(0, p.value))];
      from += Math.max(0, p.value);
      if (z - a < 0.25) return;
      const { letter, fill } = kinds[p.name];
      const label = [`${letter} ${told[i]!.toFixed(places)}`, letter].find((t) => extent(t, `12px ${family}`) + 6 <= z - a);
      shapes.push(s("g", { class: "segment" }, s("rect", { x: a, y: top + 21, width: z - a, height: 22, fill, "data-part": p.name }),
        label && s("text", { x: (a + z) / 2, y: top + 36.5, "text-anchor": "middle", "font-weight": p.of?.shown ? 700 : 400 }, label)));
      spots.push({ x: (a + z) / 2, y: top + 32, text: describe(b, i, told[i]!) });
    });
    shapes.push(s("rect", { x: x(0), y: top + 21, width: Math.max(1, x(from) - x(0)), height: 22, class: "whole" }));
  });
  const bottom = bars.length * rowHeight;
  // One is always told; others only where they do not touch it.
  const ticks = [...new Set([1, ...x.ticks(Math.max(2, Math.min(8, Math.floor(width / 90)))).filter((v) => v === 0 || Math.abs(x(v) - x(1)) > 34)])];
  const axis = ticks.flatMap((v) => [s("line", { x1: x(v), x2: x(v), y1: 18, y2: bottom, class: v === 1 ? "unity" : "grid" }),
    s("text", { x: x(v), y: bottom + 13, class: v === 1 ? "tick unity" : "tick", "text-anchor": v === 0 ? "start" : "middle" }, String(v))]);
  const height = bottom + 20;
  return { svg: s("svg", { viewBox: `0 0 ${width} ${height}`, width, height }, axis, shapes), spots };
}

/** Cuts a name that is longer than its room; the whole is in its title, its table and its tip. */
function cut(text: string, room: number, font: string): string {
  if (extent(text, font) <= room) return text;
  let n = Math.min(text.length, 200);
  while (n > 1 && extent(`${text.slice(0, n)}…`, font) > room) n--;
  return `${text.slice(0, n)}…`;
}

/** What the colours and letters mean, of the parts that the bars have. */
function key(bars: Bar[]): HTMLElement {
  const used = (Object.keys(kinds) as Name[]).filter((k) => bars.some((b) => b.parts.some((p) => p.name === k)));
  const words = (k: Name) => (k === "other" ? join([...new Set(bars.flatMap((b) => b.parts.filter((p) => p.name === k).map((p) => p.what)))]) : kinds[k].words);
  return h("ul", {}, used.map((k) => {
    const box = swatch(kinds[k].fill);
    box.setAttribute("width", "16");
    box.setAttribute("x", "-8");
    box.setAttribute("y", "-7");
    box.setAttribute("height", "14");
    return keyItem(words(k), s("g", { class: "segment" }, box, s("text", { x: 0, y: 4, "text-anchor": "middle" }, kinds[k].letter)));
  }));
}

/** The ratio as a product, where both processors counted. */
function factors(w: Why): Child {
  const p: Product | undefined = w.product;
  if (!p || p.factors.length === 0) return false;
  return h("li", {}, h("b", {}, w.target), ` as a product: ${p.text.replaceAll(" x ", " × ")}.`);
}

function one(label: string, list: Why[]): HTMLElement {
  const bars = barsOf(list);
  const sums = list.filter((w) => w.because);
  const silent = list.filter((w) => !w.because).map((w) => w.target);
  return h("div", { class: "accounted" },
    chart({
      title: label, subject: "Where the time goes", file: `why-${label}`, className: "forest bars", height: 20 + bars.length * rowHeight,
      note: `1 is what ${join([...new Set(list.map((w) => w.baseline))])} takes for each ${list[0]!.unit}`, key: key(bars),
      draw: (width) => draw(bars, width),
      table: () => ({
        head: ["Target", "Part", "Its time", "In the baseline", "Difference", "Interval", "Shown"], figures: 2,
        rows: list.flatMap((w): Child[][] => {
          const places = digits(w.ratio);
          const told = adding(w.parts.map((p) => p.candidate), places);
          return w.parts.map((p, i): Child[] => [w.target, p.what, told[i]!.toFixed(places), p.base.toFixed(places), signed(p.extra, places),
            p.low !== 0 || p.high !== 0 ? `[${signed(p.low, places)}, ${signed(p.high, places)}]` : "", p.shown ? "yes" : "no"]);
        }),
      }),
    }),
    h("ul", { class: "because" }, sums.map((w) => h("li", {}, h("b", {}, w.target), `: ${typeset(w.because!)}.`)),
      silent.length > 0 && h("li", { class: "muted" }, `No part is shown to differ in ${join(silent)}.`), list.map(factors),
      list.flatMap((w) => taken(w).map((text) => h("li", {}, h("b", {}, w.target), `: ${text}`)))));
}

/** What no part has: it is of the whole system, and not of the processes that work. */
const outside: Record<string, string> = { stolen_ns: "stolen from its processors by a hypervisor", io_stalled_ns: "in which some task of its system waited for a disk" };

/** What a hypervisor took and a disk held up, where that is shown to differ. */
export const taken = (w: Why): string[] => (w.counts ?? []).filter((c) => Object.hasOwn(outside, c.name) && Math.max(c.base, c.candidate) >= 1)
  .map((c) => `for each ${w.unit}, ${quantity(c.candidate, "ns")} instead of ${quantity(c.base, "ns")} ${outside[c.name]}.`);

/** Workloads whose bars are shown before the reader is asked. */
const mostShown = 5;

const partWords: Record<string, string> = { user_ns: "user code", kernel_ns: "kernel", ready_ns: "waiting for a processor", disk_ns: "waiting for a disk", other_ns: "the remainder", host_cpu: "what works for it on this machine", exits: "exits of virtual processors" };

/** What is not measured, each reason once. */
function unmeasured(all: Why[]): HTMLElement | null {
  const seen = new Set<string>();
  for (const w of all) {
    for (const [name, reason] of Object.entries(w.unmeasured ?? {})) seen.add(`${Object.hasOwn(partWords, name) ? partWords[name] : name} (${reason})`);
    if (w.product && w.product.factors.length === 0) seen.add(`instructions and cycles (${w.product.text})`);
  }
  const list = [...seen].sort();
  if (list.length === 0) return null;
  return h("details", { class: "inner" }, h("summary", {}, `${plural(list.length, "thing")} that ${list.length === 1 ? "is" : "are"} not measured`), h("ul", { class: "doubts" }, list.map((t) => h("li", {}, t))));
}

export function why(m: Model): HTMLElement | null {
  const all = (m.data.result.why ?? []).filter((w) => m.state.targets.has(w.target) && m.workloadShown(w.workload));
  const byLabel = new Map<string, Why[]>();
  for (const w of all) if (w.parts.length > 0) byLabel.set(w.workload, [...(byLabel.get(w.workload) ?? []), w]);
  if (byLabel.size === 0) return null;
  const size = (list: Why[]) => Math.max(...list.map((w) => (w.because ? Math.abs(Math.log(w.ratio)) : 0)));
  const ordered = [...byLabel].sort((a, b) => size(b[1]) - size(a[1]));
  const made = (list: [string, Why[]][]) => list.map(([label, of]) => one(label, of));
  const rest = ordered.slice(mostShown);
  return h("section", { id: "why", "aria-labelledby": "why-title" }, h("h2", { id: "why-title" }, "Where the time goes"),
    m.rebasedNow && h("p", { class: "note" }, `These figures compare with ${m.run.baseline}, the baseline of the run.`),
    h("p", { class: "lead" }, "The length of a bar is the ratio, and its parts add up to it. A letter stands for each part; it is bold where the part is shown to differ from the baseline's."),
    made(ordered.slice(0, mostShown)),
    rest.length > 0 && h("details", { class: "inner" }, h("summary", {}, `${plural(rest.length, "more workload")}`), made(rest)),
    unmeasured(all));
}
