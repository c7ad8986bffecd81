/**
 * Pictures of virtual disks: what the image holds of each piece of the guest's disk, and where in the file that lies. Kinds
 * are told apart by pattern as well as by colour, so that a print in black and white says the same.
 */
import { chart, type Drawing, type Spot } from "./chart";
import { h, s, type Child } from "./dom";
import { number, percent, plural, size } from "./format";
import { keyItem, swatch } from "./plot";
import type { Disk, Target } from "./data";
import type { Model } from "./state";

/** What a cell mostly is. */
type Kind = "data" | "compressed" | "inherited" | "zero" | "free";
const words: Record<Kind, string> = { data: "stored", compressed: "stored compressed", inherited: "in a parent image", zero: "marked as zeros", free: "free: in no image" };

const at = (column: number[] | undefined, i: number): number => column?.[i] ?? 0;
export const cellsOf = (d: Disk): number => (d.bytes > 0 && d.cell_bytes > 0 ? Math.ceil(d.bytes / d.cell_bytes) : 0);

/** What holds most of a cell; of what is stored at all, a cell is shown as stored rather than as free. */
export function kindOf(d: Disk, i: number): Kind {
  const [data, compressed, zero] = [at(d.data, i), at(d.compressed, i), at(d.zero, i)];
  if (data + compressed === 0) return zero > 0 ? "zero" : "free";
  if (2 * at(d.inherited, i) > data + compressed) return "inherited";
  return compressed > data ? "compressed" : "data";
}

/** How much of a cell its kind fills, in quarters, so that neighbours which are nearly alike are drawn as one. */
function fullness(d: Disk, i: number, kind: Kind): number {
  if (kind === "free") return 0;
  const share = kind === "zero" ? at(d.zero, i) : at(d.data, i) + at(d.compressed, i);
  return Math.max(1, Math.min(4, Math.ceil(share / 250)));
}

export function describe(d: Disk, i: number): string {
  const from = i * d.cell_bytes;
  const shares = ([["data", d.data], ["compressed", d.compressed], ["zero", d.zero]] as const).filter(([, c]) => at(c, i) > 0).map(([kind, c]) => `${percent(at(c, i) / 1000)} ${words[kind]}`);
  const free = 1000 - at(d.data, i) - at(d.compressed, i) - at(d.zero, i);
  if (free > 0) shares.push(`${percent(free / 1000)} free`);
  const lines = [`${size(from)} to ${size(Math.min(d.bytes, from + d.cell_bytes))} of the disk`, shares.join(", ")];
  if (at(d.inherited, i) > 0) lines.push(`${percent(at(d.inherited, i) / 1000)} in a parent image`);
  const place = d.place?.[i] ?? -1;
  if (place >= 0) lines.push(`at ${size(place)} of the file${at(d.breaks, i) > 0 ? `; reading it in order jumps ${plural(at(d.breaks, i), "time")}` : ""}`);
  return lines.join("\n");
}

const hatch = (id: string): SVGElement => s("pattern", { id, width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  s("rect", { width: 4, height: 4, fill: "var(--t2)", "fill-opacity": 0.25 }), s("line", { x1: 0, y1: 0, x2: 0, y2: 4, stroke: "var(--t2)", "stroke-width": 2 }));
const dots = (id: string): SVGElement => s("pattern", { id, width: 4, height: 4, patternUnits: "userSpaceOnUse" }, s("circle", { cx: 2, cy: 2, r: 0.8, fill: "var(--muted)" }));

let drawn = 0; // drawings so far: the names of their patterns must differ

/** The pieces of the disk in reading order, row below row. */
export function grid(d: Disk, width: number): Drawing {
  const n = cellsOf(d);
  // About as many rows as suit a strip: cells grow until a row is full.
  const across = Math.max(1, Math.min(n, Math.floor(width / (n > 1024 ? 8 : n > 256 ? 11 : 16))));
  const w = width / across;
  const tall = Math.min(22, Math.max(9, w));
  const rows = Math.ceil(n / across);
  const id = `disk-${++drawn}`;
  const shapes: SVGElement[] = [];
  const marks: SVGElement[] = [];
  const spots: Spot[] = [];
  const fill = (kind: Kind, full: number): Record<string, string | number> => kind === "free" ? { fill: "var(--paper)" } : kind === "zero" ? { fill: `url(#${id}-dots)` } :
    kind === "compressed" ? { fill: `url(#${id}-hatch)` } : { fill: kind === "inherited" ? "var(--t7)" : "var(--t2)", "fill-opacity": 0.25 + 0.1875 * full };
  for (let r = 0; r < rows; r++) {
    const y = r * (tall + 2) + 0.5;
    const end = Math.min(n, (r + 1) * across);
    for (let i = r * across; i < end;) {
      const kind = kindOf(d, i);
      const full = fullness(d, i, kind);
      let to = i + 1;
      while (to < end && kindOf(d, to) === kind && fullness(d, to, kind) === full) to++;
      shapes.push(s("rect", { x: (i - r * across) * w, y, width: (to - i) * w, height: tall, "data-kind": kind, ...fill(kind, full) }));
      i = to;
    }
    for (let i = r * across; i < end; i++) {
      const x = (i - r * across) * w;
      spots.push({ x: x + w / 2, y: y + tall / 2, text: describe(d, i) });
      // A jump is a notch in the lower edge, taller the more there are.
      const jumps = at(d.breaks, i);
      if (jumps > 0) marks.push(s("rect", { x: x + w / 2 - 1, y: y + tall - Math.min(tall, 3 + Math.log2(jumps) * 1.5), width: 2, height: Math.min(tall, 3 + Math.log2(jumps) * 1.5), fill: "var(--t1)", "data-jump": "" }));
    }
    shapes.push(s("rect", { x: 0.5, y, width: Math.max(1, (end - r * across) * w - 1), height: tall, fill: "none", stroke: "var(--line)" }));
  }
  const height = rows * (tall + 2) + 1;
  return { svg: s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "plot" }, s("defs", {}, hatch(`${id}-hatch`), dots(`${id}-dots`)), shapes, marks), spots };
}

/** Where in the file each piece of the disk lies: one straight line when the image is in order, a cloud when it is not. */
export function order(d: Disk, width: number): Drawing {
  const points = (d.place ?? []).map((place, i) => ({ i, place })).filter((p) => p.place >= 0 && p.i < cellsOf(d));
  const [left, top, height, bottom] = [64, 8, 240, 34];
  const most = Math.max(d.cell_bytes, ...points.map((p) => p.place + d.cell_bytes));
  const x = (v: number) => left + (v / d.bytes) * (width - left - 10);
  const y = (v: number) => top + (1 - v / most) * (height - top - bottom);
  const shapes: SVGElement[] = [];
  for (const share of [0, 0.5, 1]) {
    shapes.push(s("line", { x1: left, x2: width - 10, y1: y(most * share), y2: y(most * share), stroke: "var(--line)" }),
      s("text", { x: left - 6, y: y(most * share) + 4, "text-anchor": "end", fill: "var(--muted)" }, size(Math.round(most * share))),
      s("text", { x: x(d.bytes * share), y: height - bottom + 16, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle", fill: "var(--muted)" }, size(Math.round(d.bytes * share))));
  }
  shapes.push(s("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle", fill: "var(--muted)" }, "place on the guest's disk"));
  const spots = points.map((p) => ({ x: x((p.i + 0.5) * d.cell_bytes), y: y(p.place), text: describe(d, p.i) }));
  for (const [k, p] of points.entries()) shapes.push(s("circle", { cx: spots[k]!.x, cy: spots[k]!.y, r: points.length > 400 ? 1.4 : 2.4, fill: at(d.breaks, p.i) > 0 ? "var(--t1)" : "var(--t2)" }));
  return { svg: s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "plot" }, shapes), spots };
}

const legend = (d: Disk): Child => {
  const used = new Set(Array.from({ length: cellsOf(d) }, (_, i) => kindOf(d, i)));
  const id = `disk-key-${++drawn}`;
  const icons: Record<Kind, () => SVGElement[]> = {
    data: () => [swatch("var(--t2)")], inherited: () => [swatch("var(--t7)")], free: () => [swatch("var(--paper)", "var(--muted)")],
    compressed: () => [hatch(`${id}-hatch`), swatch(`url(#${id}-hatch)`)], zero: () => [dots(`${id}-dots`), swatch(`url(#${id}-dots)`, "var(--line)")],
  };
  return h("ul", {}, (Object.keys(words) as Kind[]).filter((k) => used.has(k)).map((k) => keyItem(k === "data" ? "stored (darker: fuller)" : words[k], ...icons[k]())),
    d.breaks && keyItem("reading in order jumps in the file", s("rect", { x: -1.5, y: -6, width: 3, height: 12, fill: "var(--t1)" })));
};

/** Bytes of the disk that a column stands for. */
function bytesOf(d: Disk, column: number[] | undefined): number {
  return (column ?? []).reduce((sum, v, i) => sum + (v / 1000) * Math.min(d.cell_bytes, d.bytes - i * d.cell_bytes), 0);
}

function figure(t: Target, d: Disk): Child {
  const name = [t.name, d.name, d.state].filter(Boolean).join(", ");
  const n = cellsOf(d);
  if (n === 0) return h("div", { class: "disk" }, h("h3", {}, name), h("p", { class: "empty" }, d.text || "There is no picture of this disk."));
  const file = `disk-${name}`;
  const jumps = (d.breaks ?? []).reduce((a, b) => a + b, 0);
  const about = [d.format, `${size(d.bytes)} in ${plural(n, "cell")} of ${size(d.cell_bytes)}`, `${percent((bytesOf(d, d.data) + bytesOf(d, d.compressed)) / d.bytes)} stored`, d.place && `${plural(jumps, "jump")} when read in order`].filter(Boolean).join(" · ");
  const rows = () => {
    const out: Child[][] = [];
    // Cells that hold the same are one row: the table of an empty disk has one.
    for (let i = 0; i < n && out.length < 512;) {
      let to = i + 1;
      const place = (k: number) => d.place?.[k] ?? -1;
      while (to < n && kindOf(d, to) === kindOf(d, i) && at(d.breaks, to) === 0 && at(d.data, to) === at(d.data, i) && at(d.zero, to) === at(d.zero, i) && at(d.compressed, to) === at(d.compressed, i)) to++;
      out.push([`${size(i * d.cell_bytes)} to ${size(Math.min(d.bytes, to * d.cell_bytes))}`, words[kindOf(d, i)], percent((at(d.data, i) + at(d.compressed, i)) / 1000), number(at(d.breaks, i)), place(i) >= 0 ? size(place(i)) : "–"]);
      i = to;
    }
    return out;
  };
  return h("div", { class: "disk" }, h("h3", {}, name), d.text && h("p", {}, d.text),
    chart({ title: "What the image holds", subject: name, note: about, file, className: "disk-map", key: legend(d), draw: (width) => grid(d, width),
      table: () => ({ head: ["Of the disk", "Mostly", "Stored", "Jumps", "At, in the file"], figures: 2, rows: rows() }) }),
    (d.place ?? []).some((p) => p >= 0) && chart({ title: "Where it lies in the file", subject: name, note: "a straight line is an image in order; each jump is a seek when it is read in order", file: `${file}-order`, className: "disk-order", height: 240,
      draw: (width) => order(d, width), table: () => ({ head: ["Of the disk", "Mostly", "Stored", "Jumps", "At, in the file"], figures: 2, rows: rows() }) }));
}

export function disks(m: Model): HTMLElement | null {
  const shown = m.data.result.targets.filter((t) => (m.state.targets.has(t.name) || t.name === m.state.baseline) && t.disks?.length);
  return shown.length === 0 ? null : h("section", { id: "disks", "aria-labelledby": "disks-title" }, h("h2", { id: "disks-title" }, "Inside the virtual disks"),
    h("p", { class: "lead" }, "What each image stores of the guest's disk, from its beginning to its end. A growing image allocates free space when it is first written; in an image that is out of order, sequential reading jumps."),
    shown.map((t) => t.disks!.map((d) => figure(t, d))));
}
