/** The forest plot: every ratio with its interval on one logarithmic axis, and its figures beside it. */
import { scaleLog } from "d3-scale";
import { chart, type Drawing, type Spot } from "./chart";
import { h, s, safe, type Child } from "./dom";
import { capital, interval, list, logTicks, percent, plural, quantity, ratio } from "./format";
import type { Cell } from "./data";
import { keyItem, swatch } from "./plot";
import { extent as measure } from "./save";
import type { Model } from "./state";
import { flushOf, marginText, marks, ranked, signOf, signs, tried, unconfirmed, word, type Sign } from "./verdict";

/** Rows of one chart before the reader is asked: longer drawings are slow, and no printer has the paper. */
const mostRows = 120;

export function forest(m: Model): HTMLElement {
  const section = h("section", { id: "forest", "aria-labelledby": "forest-title" }, h("h2", { id: "forest-title" }, "Every ratio"), legend(m));
  const cells = m.shown();
  if (cells.length === 0) {
    section.append(h("p", { class: "empty" }, "The filters above leave no cell."));
    return section;
  }
  const domain = domainOf(cells);
  for (const family of m.families) {
    const all = arrange(m, cells.filter((c) => c.family === family));
    if (all.length === 0) continue;
    // A row that holds nothing is no ratio: what did not open or was never reached is told in one line.
    const rows = all.filter((c) => tried(c) && !m.target(c.target)?.error);
    const place = h("div", {});
    // Of what did not open, the answer has said it.
    const missing = all.filter((c) => !rows.includes(c) && !m.target(c.target)?.error);
    if (rows.length === 0) {
      if (missing.length > 0) section.append(h("h3", {}, capital(family)), leftOut(missing));
      continue;
    }
    const draw = (most: number) => {
      place.replaceChildren(figure(m, family, rows.slice(0, most), domain));
      if (rows.length > most) {
        place.append(h("button", { type: "button", class: "wide", onclick: () => draw(rows.length) }, `Show all ${rows.length} rows of this family`));
      }
    };
    draw(mostRows);
    section.append(place);
    if (missing.length > 0) section.append(leftOut(missing));
  }
  return section;
}

/** Cells without a row, folded: their targets, and what each of them would have run. */
function leftOut(cells: Cell[]): HTMLElement {
  const by = new Map<string, string[]>();
  for (const c of cells) by.set(c.target, [...(by.get(c.target) ?? []), c.workload]);
  return h("details", { class: "inner left-out" }, h("summary", {}, `${plural(cells.length, "cell")} without a row: not run in ${list([...by.keys()])}`),
    h("ul", {}, [...by.entries()].map(([target, labels]) => h("li", {}, h("b", {}, target), ": ", unique(labels).join(", ")))));
}

const order: Sign[] = ["more", "less", "same", "measured", "unconfirmed", "unranked", "unsure", "withheld", "failed", "absent"];
const recomputedText = "recomputed in this page: Student's t, no correction for the number of cells";
const bandText = "the margin: only an interval wholly beyond it counts as a cost";

/** The sign that the legend explains: what the number of cells keeps from a verdict has words of its own. */
const signInLegend = (c: Cell): Sign => (c.verdict === "MEASURED" && unconfirmed(c) ? "unconfirmed" : signOf(c));

function legend(m: Model): HTMLElement {
  const drawn = m.shown().filter((c) => tried(c) && !m.target(c.target)?.error);
  const used = new Set(drawn.map(signInLegend));
  const emulated = drawn.some((c) => c.emulated);
  return h("ul", { class: "legend", "aria-label": "Signs" },
    order.filter((x) => used.has(x)).map((x) => h("li", { class: x }, h("span", { class: "glyph", "aria-hidden": true }, signs[x].glyph), ` ${signs[x].word}`)),
    emulated && h("li", {}, h("span", { class: "mark" }, "e"), ` ${marks.e}`),
    drawn.some((c) => c.this_boot) && h("li", {}, h("span", { class: "mark" }, "b"), ` ${marks.b}`),
    [...new Set(drawn.filter((c) => c.writes).map((c) => flushOf(m.target(c.target))?.mark))].filter((x) => x !== undefined).sort()
      .map((x) => h("li", {}, h("span", { class: "mark" }, x), ` ${marks[x]}`)),
    drawn.some((c) => c.warnings.length > 0) && h("li", {}, h("span", { class: "mark" }, "*"), " has warnings"),
    h("li", {}, h("span", { class: "swatch band" }), ` ${bandText}`),
    m.rebasedNow && h("li", { class: "recomputed" }, recomputedText));
}

/** Rows of a group stand together; groups and rows come in the plan's order or by cost. */
function arrange(m: Model, cells: Cell[]): Cell[] {
  const { by, order } = m.state;
  const group = (c: Cell) => (by === "workload" ? c.workload : c.target);
  const groups = new Map<string, Cell[]>();
  for (const c of cells) {
    const g = groups.get(group(c));
    if (g) g.push(c);
    else groups.set(group(c), [c]);
  }
  const list = [...groups.values()];
  if (order === "cost") {
    const cost = (c: Cell) => (ranked(c) ? c.ratio : 0);
    for (const g of list) g.sort((a, b) => cost(b) - cost(a));
    list.sort((a, b) => cost(b[0]!) - cost(a[0]!));
  }
  return list.flat();
}

function domainOf(cells: Cell[]): [number, number] {
  let low = 1 / 1.25;
  let high = 1.25;
  for (const c of cells) {
    if (!ranked(c)) continue;
    low = Math.min(low, c.low > 0 ? c.low : c.ratio);
    high = Math.max(high, c.high > 0 ? c.high : c.ratio);
  }
  // An interval of a handful of wild blocks may reach anywhere; it is cut at the edge rather than squeeze all others.
  const pad = (high / low) ** 0.04;
  return [Math.max(low / pad, 1e-4), Math.min(high * pad, 1e5)];
}

function ticks(low: number, high: number, room: number): number[] {
  const decades = Math.log10(high / low);
  const all = decades > 0.5 ? logTicks(low, high) : [0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2, 2.5].filter((v) => v >= low && v <= high);
  // One is always shown; others only where they do not touch it or each other.
  const at = (v: number) => (Math.log(v / low) / Math.log(high / low)) * room;
  const kept = [1];
  for (const v of all) if (kept.every((k) => Math.abs(at(k) - at(v)) > 38)) kept.push(v);
  return kept.sort((a, b) => a - b);
}

const label = (v: number) => `${v >= 10000 ? v.toExponential(0) : Number(v.toPrecision(3))}×`;

/** The candidate, and after a stroke what it is compared with where that is not the baseline of the page. */
export const named = (m: Model, c: Cell): string => (c.baseline === m.state.baseline ? c.target : `${c.target}/${c.baseline}`);

export function describe(m: Model, c: Cell): string {
  const sign = signOf(c);
  const lines = [`${c.workload} · ${c.target}${c.primary ? "" : ` · ${c.metric}`}`];
  if (ranked(c)) lines.push(`${ratio(c.ratio)}× ${interval(c.low, c.high)} against ${c.baseline}`);
  lines.push(`${signs[sign].glyph} ${word(c)}${sign === "same" ? ` ${percent(c.same_margin)}` : ""}${c.emulated ? ", emulated CPU" : ""}${c.this_boot ? ", of this boot" : ""}`);
  if (ranked(c)) lines.push(`${quantity(c.center, c.unit)} against ${quantity(c.baseline_center, c.unit)}, ${plural(c.blocks, "block")}`);
  if ((sign === "unsure" || sign === "measured") && !unconfirmed(c)) lines.push(`${c.low > 1 || c.high < 1 ? "not wholly beyond" : "compared with"} ${marginText([c])}`);
  if (c.blocks_needed) lines.push(`about ${plural(c.blocks_needed, "block")} would decide it`);
  const [mine, theirs] = [flushOf(m.target(c.target)), flushOf(m.target(c.baseline))];
  if (c.writes && mine) lines.push(`flush: ${c.target} ${mine.words} (${mine.verdict})${theirs ? `; ${c.baseline} ${theirs.words} (${theirs.verdict})` : ""}`);
  if (c.failure) lines.push(c.failure.message.slice(0, 160));
  else if (sign === "withheld" && c.warnings[0]) lines.push(c.warnings[0].text.slice(0, 160));
  return lines.join("\n");
}

function figure(m: Model, family: string, rows: Cell[], domain: [number, number]): HTMLElement {
  const metrics = m.state.metric !== "";
  return chart({
    title: `${capital(family)}: cost against ${m.state.baseline}${rows.some((c) => c.baseline !== m.state.baseline) ? ", or the target named after the slash" : ""}`,
    file: `forest-${family}`,
    className: "forest",
    savedKey: () => h("ul", {}, order.filter((x) => rows.some((c) => signInLegend(c) === x)).map((x) => keyItem(signs[x].word, glyph(x, 0, 0))), keyItem(bandText, swatch("var(--band)", "var(--line)")), m.rebasedNow && h("li", {}, recomputedText)),
    height: 60 + rows.length * 26,
    draw: (width) => draw(m, rows, domain, width),
    table: () => ({
      head: ["Workload", "Target", ...(metrics ? ["Metric"] : []), "Verdict", "Ratio", "Interval", "Candidate", "Baseline", "Blocks", "Margin"],
      rows: rows.map((c): Child[] => [c.workload, named(m, c), ...(metrics ? [c.metric] : []), `${signs[signOf(c)].glyph} ${word(c)}`, ranked(c) ? ratio(c.ratio) : "",
        ranked(c) ? interval(c.low, c.high) : "", c.center ? quantity(c.center, c.unit) : "", c.baseline_center ? quantity(c.baseline_center, c.unit) : "", c.blocks, percent(c.margin)]),
      figures: metrics ? 4 : 3,
    }),
  });
}

function draw(m: Model, rows: Cell[], domain: [number, number], width: number): Drawing {
  const narrow = width < 620;
  const { by } = m.state;
  const groupOf = (c: Cell) => (by === "workload" ? c.workload : named(m, c));
  const rowOf = (c: Cell) => (by === "workload" ? named(m, c) : c.workload) + (m.state.metric !== "" && !c.primary ? ` · ${c.metric}` : "");
  // Both columns are as wide as the whole section needs, so that the axes of its charts stand below each other.
  const all = m.shown();
  const names = narrow ? 0 : Math.min(width * 0.27, 16 + Math.max(40, ...unique(all.map(groupOf)).map((t) => extent(t, true))));
  const second = narrow ? 0 : Math.min(width * 0.2, 16 + Math.max(24, ...unique(all.map(rowOf)).map((t) => extent(t, false))));
  const figures = narrow ? 0 : 172;
  const left = names + second + (narrow ? 8 : 12);
  const right = width - figures - (narrow ? 8 : 14);
  const x = scaleLog().domain(domain).range([left, right]).clamp(true);
  const rowHeight = narrow ? 38 : 26;
  const head = 30;
  const bands: SVGElement[] = [];
  const shapes: SVGElement[] = [];
  const spots: Spot[] = [];
  const marks = ticks(domain[0], domain[1], right - left);
  let y = head;
  let group = "";
  const lines: SVGElement[] = [];
  for (const [at, c] of rows.entries()) {
    const fresh = groupOf(c) !== group;
    if (fresh) {
      if (group !== "" && !narrow) lines.push(s("line", { x1: 0, x2: width, y1: y + 0.5, y2: y + 0.5, class: "rule" }));
      group = groupOf(c);
      if (narrow) {
        y += 6;
        shapes.push(s("text", { x: 0, y: y + 15, class: "name" }, short(group, width, true)));
        y += 22;
      }
    }
    const mid = narrow ? y + 27 : y + rowHeight / 2;
    const base = narrow ? y + 13 : mid + 4;
    if (!narrow && fresh) {
      let height = 1;
      while (rows[at + height] && groupOf(rows[at + height]!) === group) height++;
      shapes.push(s("text", { x: 0, y: base, class: "name" }, wrapped(group, names - 8, Math.min(3, height)).map((line, i) => s("tspan", { x: 0, dy: i === 0 ? 0 : 15 }, line)), s("title", {}, group)));
    }
    shapes.push(s("text", { x: narrow ? 8 : names, y: base, class: "row" }, short(rowOf(c), narrow ? width - 190 : second - 8, false), s("title", {}, rowOf(c))));
    bands.push(s("rect", { x: x(1 / (1 + c.margin)), y: mid - rowHeight / 2, width: Math.max(1, x(1 + c.margin) - x(1 / (1 + c.margin))), height: rowHeight, class: "band" }));
    shapes.push(...row(m, c, x, mid, narrow ? { x: width, y: base, end: true } : { x: right + 16, y: base, end: false }, right, spots));
    y += rowHeight;
  }
  const bottom = y + 4;
  const axis = marks.flatMap((v) => [
    s("line", { x1: x(v), x2: x(v), y1: head - 6, y2: bottom, class: v === 1 ? "unity" : "grid" }),
    s("text", { x: x(v), y: head - 12, class: v === 1 ? "tick unity" : "tick", "text-anchor": "middle" }, label(v)),
    s("text", { x: x(v), y: bottom + 14, class: v === 1 ? "tick unity" : "tick", "text-anchor": "middle" }, label(v)),
  ]);
  const height = bottom + 22;
  return { svg: s("svg", { viewBox: `0 0 ${width} ${height}`, width, height }, bands, lines, axis, shapes), spots };
}

const unique = (v: string[]): string[] => [...new Set(v)];

/** The width of a label as style.css sets it, in pixels. */
const extent = (text: string, bold: boolean): number => measure(text, `${bold ? 600 : 400} 13px ${getComputedStyle(document.body).fontFamily}`);

/** Cuts a label that is longer than its room; the whole is in the row's title, its table and its tip. */
function short(text: string, room: number, bold: boolean): string {
  const clean = safe(text).slice(0, 200);
  if (extent(clean, bold) <= room) return clean;
  let [low, high] = [1, clean.length];
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (extent(`${clean.slice(0, mid)}…`, bold) <= room) low = mid;
    else high = mid - 1;
  }
  return `${clean.slice(0, low)}…`;
}

/** Breaks a bold label between its words into at most so many lines; the last is cut when there is more. */
function wrapped(text: string, room: number, most: number): string[] {
  const lines: string[] = [];
  const words = safe(text).slice(0, 200).split(/\s+/);
  while (words.length > 0) {
    if (lines.length === most - 1) return [...lines, short(words.join(" "), room, true)];
    let line = words.shift()!;
    while (words.length > 0 && extent(`${line} ${words[0]}`, true) <= room) line += ` ${words.shift()}`;
    lines.push(short(line, room, true));
  }
  return lines;
}

function row(m: Model, c: Cell, x: ReturnType<typeof scaleLog<number, number>>, y: number, text: { x: number; y: number; end: boolean }, right: number, spots: Spot[]): SVGElement[] {
  const sign = signOf(c);
  const out: SVGElement[] = [];
  const flags = `${c.emulated ? " e" : ""}${c.this_boot ? " b" : ""}${c.writes ? ` ${flushOf(m.target(c.target))?.mark ?? ""}`.trimEnd() : ""}${c.warnings.length > 0 ? " *" : ""}`;
  const anchor = text.end ? { "text-anchor": "end" } : {};
  if (!ranked(c)) {
    out.push(glyph(sign, x(1), y));
    out.push(s("text", { ...anchor, x: text.x, y: text.y, class: "figures none" }, `${signs[sign].word.replace("verdict ", "")}${flags}`));
    spots.push({ x: x(1), y, text: describe(m, c) });
    return out;
  }
  const at = x(c.ratio);
  if (c.low > 0) {
    const [a, b] = [x(c.low), x(c.high)];
    out.push(s("line", { x1: a, x2: b, y1: y, y2: y, class: `span ${sign}${c.emulated ? " emulated" : ""}` }));
    for (const e of [a, b]) out.push(s("line", { x1: e, x2: e, y1: y - 4, y2: y + 4, class: `span ${sign}` }));
  }
  out.push(glyph(sign, Math.min(at, right), y));
  out.push(s("text", { ...anchor, x: text.x, y: text.y, class: "figures" },
    s("tspan", { class: `ratio ${sign}` }, `${ratio(c.ratio)}×`), s("tspan", { class: "range", dx: 6 }, `${interval(c.low, c.high)}`), s("tspan", { class: "mark" }, flags)));
  spots.push({ x: at, y, text: describe(m, c) });
  return out;
}

/** The verdict's sign as a drawing, because fonts disagree about where a glyph's middle is. */
function glyph(sign: Sign, x: number, y: number): SVGElement {
  const wave = (dy: number) => `M${x - 6},${y + dy + 1}q3,-5 6,-1q3,4 6,-1`;
  const open: Partial<Record<Sign, string>> = {
    same: `M${x - 5},${y - 2.5}h10M${x - 5},${y + 2.5}h10`, unsure: wave(0), measured: wave(-2.5) + wave(3),
    unconfirmed: wave(-2.5) + wave(3), unranked: `M${x - 5},${y - 2.5}h10M${x - 5},${y + 2.5}h10M${x - 3},${y + 6}l6,-12`,
    failed: `M${x - 4.5},${y - 4.5}l9,9M${x + 4.5},${y - 4.5}l-9,9`, absent: `M${x - 4},${y}h8`,
  };
  const path = open[sign];
  if (path) return s("g", { class: `sign ${sign}` }, s("circle", { cx: x, cy: y, r: 7.5, class: "ground" }), s("path", { d: path, class: "stroke" }));
  if (sign === "withheld") {
    return s("g", { class: `sign ${sign}` }, s("circle", { cx: x, cy: y, r: 7.5, class: "ground" }), s("text", { x, y: y + 4.5, "text-anchor": "middle", class: "query" }, "?"));
  }
  const up = sign === "more" ? -1 : 1;
  return s("path", { d: `M${x},${y + 6 * up}l6.5,${-11 * up}h-13z`, class: `sign solid ${sign}` });
}
