/** What a verdict looks like: a sign, a word and a colour, so that none of the three is needed alone. */
import type { Cell, Data, Said, Target } from "./data";
import { percent } from "./format";

export type Sign = "more" | "less" | "same" | "unsure" | "measured" | "unconfirmed" | "unranked" | "failed" | "withheld" | "absent";

/** Glyphs and words of the signs, and legends of the marks: the program's, so that page and terminal say the same. */
export const signs = {} as Record<Sign, Said>;
export const marks: Record<string, string> = {};

export function learnWords(data: Pick<Data, "signs" | "marks">): void {
  Object.assign(signs, data.signs);
  Object.assign(marks, data.marks);
}

/** What a cell and a group of its executions have in common. */
type Judged = Pick<Cell, "verdict" | "ratio" | "blocks"> & { warnings?: Cell["warnings"] };

/** Whether the sides flushed differently: then a ratio stands where the user alone knows what it is worth, and ranks nobody. */
export const unlikeFlushes = (c: { warnings?: Cell["warnings"] }): boolean => !!c.warnings?.some((x) => x.code === "flushes-differ");

export function signOf(c: Judged): Sign {
  switch (c.verdict) {
    case "DIFFERENT": return c.ratio < 1 ? "less" : "more";
    case "EQUIVALENT": return "same";
    case "MEASURED": return unlikeFlushes(c) ? "unranked" : "measured";
    case "WITHHELD": return "withheld";
    case "FAILED": return "failed";
  }
  return c.blocks > 0 ? "unsure" : "absent";
}

/** What keeps a cell beyond the margin from a verdict, where that is the number of cells. */
export function unconfirmed(c: Cell): string | undefined {
  const w = c.recomputed ? undefined : c.warnings.find((x) => x.code === "not-confirmed");
  return w && `beyond the margin, but not significant among ${/among (\d+) cells/.exec(w.text)?.[1] ?? "so many"} cells`;
}

/** What a cell's verdict is in words: those of its sign, unless more is known. */
export const word = (c: Cell): string => unconfirmed(c) ?? signs[signOf(c)].word;

/** The widest margin that a cost must leave to be called one, and whether the plan asks for it or the noise of the run. */
export function marginText(cells: Cell[]): string {
  const widest = cells.reduce((a, b) => (b.margin > a.margin ? b : a));
  if (widest.margin <= widest.same_margin * (1 + 1e-9)) return `the plan's margin of ${percent(widest.margin)}`;
  const where = cells.length > 1 ? `in ${widest.workload}; ` : "";
  return `a margin of ${percent(widest.margin)}, twice the difference of the baseline from itself in this run (${where}the plan asks for ${percent(widest.same_margin)})`;
}

/** Whether the cell has a ratio that may be shown: one that must not be ranked is not. */
export const ranked = (c: Judged): boolean => c.ratio > 0 && c.verdict !== "WITHHELD" && c.verdict !== "FAILED";

/** Whether it was measured, or at least tried: what a budget left out is not. */
export const tried = (c: Cell): boolean => signOf(c) !== "absent";

const classes: Record<string, [mark: string, words: string]> = {
  flushes: ["f", "passes flushes on"], "ignores-flushes": ["i", "ignores flushes"], memory: ["m", "keeps files in memory"], unknown: ["u", "not known"],
};
/** What a flush does in a target, beside each of its write figures; undefined where nothing was recorded of it. */
export function flushOf(t: Target | undefined): { mark: string; words: string; verdict: string } | undefined {
  const d = t?.durability;
  if (!d) return undefined;
  const [mark, words] = Object.hasOwn(classes, d.class) ? classes[d.class]! : classes.unknown!;
  return { mark, words, verdict: d.verdict };
}

/** Colours of targets and their shapes, by place in the plan: Okabe and Ito's, told apart by shape as well. */
export const shades = Array.from({ length: 8 }, (_, i) => `var(--t${i})`);
export const symbols = ["circle", "square", "triangle", "diamond", "star", "cross", "wye", "times"] as const;
