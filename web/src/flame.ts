/** Where two targets are on processors, function by function: a differential flame graph of trials that were traced after the run. */
import { chart, type Drawing, type Spot } from "./chart";
import { h, s, type Child } from "./dom";
import { plural, quantity } from "./format";
import { keyItem, swatch } from "./plot";
import { extent } from "./save";
import type { Flame, Frame } from "./data";
import type { Model } from "./state";

type Side = "ns" | "base_ns";

/** A function on its path of calls, with where it begins: in the unit of its time, from the left. */
export interface Box { frame: Frame; from: number; path: string[] }

/** The boxes of a side: what a function calls stands on it, side by side. */
export function boxes(f: Flame, side: Side): Box[] {
  const next: number[] = []; // where the next function with so many callers begins
  const path: string[] = [];
  return f.frames.map((frame) => {
    const from = next[frame.depth] ?? 0;
    next[frame.depth] = from + frame[side];
    next[frame.depth + 1] = from;
    path.length = frame.depth;
    const box = { frame, from, path: [...path] };
    path.push(frame.name);
    return box;
  });
}

/** Red for more and blue for less, the fuller the nearer v is to 1 or -1; show/flame has the same. Dark letters stand on them in both themes. */
export function tone(v: number): string {
  const full = Math.sqrt(Math.min(1, Math.abs(v)));
  const [from, to] = v >= 0 ? [[245, 225, 215], [245, 130, 95]] : [[218, 230, 242], [110, 180, 240]];
  return `#${from!.map((c, i) => Math.round(c + (to![i]! - c) * full).toString(16).padStart(2, "0")).join("")}`;
}
const grey = "#d9d8d2";

const extra = (x: Frame): number => x.ns - x.base_ns;
const signed = (ns: number): string => `${ns < 0 ? "−" : "+"}${quantity(Math.abs(ns), "ns")}`;

const row = 17;
const head = 26; // above a graph: whose it is
const narrow = 0.3; // pixels; a box that is narrower is not drawn
const font = '11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';

function describe(f: Flame, x: Frame): string {
  const lines = [x.name, `${quantity(x.ns, "ns")} in ${f.target}, ${quantity(x.base_ns, "ns")} in ${f.baseline} for each ${f.unit}`];
  if (x.depth > 0) lines.push(x.shown ? `${signed(extra(x))}, of the same sign in every round` : "not of the same sign in every round");
  return lines.join("\n");
}

function draw(f: Flame, width: number): Drawing {
  const scale = (width - 2) / Math.max(f.frames[0]!.ns, f.frames[0]!.base_ns, 1e-9);
  const most = Math.max(0, ...f.frames.filter((x) => x.depth > 0 && x.shown).map((x) => Math.abs(extra(x))));
  const letter = extent("m".repeat(20), font) / 20;
  const shapes: SVGElement[] = [];
  const spots: Spot[] = [];
  let bottom = 0;
  for (const side of ["ns", "base_ns"] as Side[]) {
    const list = boxes(f, side).filter((b) => b.frame[side] * scale >= narrow);
    const name = side === "ns" ? f.target : f.baseline;
    const inside = side === "ns" ? f.inside : f.baseline_inside;
    const top = bottom + head;
    bottom = top + (Math.max(0, ...list.map((b) => b.frame.depth)) + 1) * row;
    shapes.push(s("text", { x: 1, y: top - 8, class: "name" }, `${name}${inside ? "" : " (what serves it on the controller's machine)"}: ${quantity(f.frames[0]![side], "ns")} for each ${f.unit}`));
    for (const { frame, from } of list) {
      const [x, y, wide] = [1 + from * scale, bottom - (frame.depth + 1) * row, frame[side] * scale];
      const here = side === "ns" ? extra(frame) : -extra(frame);
      const told = frame.depth > 0 && frame.shown === true;
      shapes.push(s("g", {}, s("rect", { x, y, width: wide, height: row, fill: told && most > 0 ? tone(here / most) : grey }),
        label(frame.name, told ? signed(here) : "", Math.floor((wide - 6) / letter), x + 3, y + row - 5)));
      spots.push({ x: x + wide / 2, y: y + row / 2, box: { x, y, width: wide, height: row }, text: describe(f, frame) });
    }
    bottom += 6;
  }
  return { svg: s("svg", { viewBox: `0 0 ${width} ${bottom}`, width, height: bottom }, shapes), spots };
}

/** A function's name, and what it takes more, as far as there is room for so many characters. */
function label(name: string, sign: string, room: number, x: number, y: number): Child {
  if (room < 3) return false;
  const letters = [...name];
  // The sign stays when the name is cut.
  const text = sign && letters.length + 1 + sign.length <= room ? [...letters, " ", ...sign] : [...sign.slice(0, 1), ...letters];
  return s("text", { x, y }, text.length <= room ? text.join("") : `${text.slice(0, room - 1).join("")}…`);
}

/** Functions that the table lists. */
const mostListed = 100;

function one(f: Flame): HTMLElement {
  const rows = boxes(f, "ns").filter((b) => b.frame.depth > 0).sort((a, b) => Number(b.frame.shown ?? false) - Number(a.frame.shown ?? false) || Math.abs(extra(b.frame)) - Math.abs(extra(a.frame)));
  const deepest = Math.max(...f.frames.map((x) => x.depth)) + 1;
  return h("div", { class: "traced" },
    chart({
      title: `On processors: ${f.target} against ${f.baseline}`, subject: f.workload, file: `flame-${f.workload}-${f.target}`, className: "flame", height: 2 * (deepest * row + head),
      note: `time for each ${f.unit}: the wider a box, the more; what a function calls stands on it. Of ${plural(f.rounds, "trial")} of each that were traced after the run: no figure of this report is made of them`,
      key: h("ul", {}, keyItem("+ more time than in the other", swatch(tone(1))), keyItem("− less", swatch(tone(-1))), keyItem("as much, or not of the same sign in every round", swatch(grey))),
      draw: (width) => draw(f, width),
      table: () => ({
        head: ["Function", "Called by", f.target, f.baseline, "Difference", "In every round"], figures: 2,
        rows: rows.slice(0, mostListed).map((b): Child[] => [b.frame.name, b.path.slice(1).reverse().slice(0, 4).join(" ← "), quantity(b.frame.ns, "ns"), quantity(b.frame.base_ns, "ns"), signed(extra(b.frame)), b.frame.shown ? "yes" : "no"]),
      }),
    }),
    f.left_out !== undefined && f.left_out > 0 && h("p", { class: "note" }, `${plural(f.left_out, "more function")} of at most ${quantity(f.left_out_ns ?? 0, "ns")} each ${f.left_out === 1 ? "is" : "are"} left out.`));
}

/** The flame graphs of a workload, in the order of the targets. */
export function flames(m: Model, label: string): HTMLElement[] {
  return (m.data.flames ?? []).filter((f) => f.workload === label && f.frames.length > 0 && m.state.targets.has(f.target)).sort((a, b) => m.at(a.target) - m.at(b.target)).map(one);
}
