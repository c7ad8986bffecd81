/** How many copies of an environment do the same work at once, and what becomes of each. */
import { h, table, ticked, type Child } from "./dom";
import { percent, quantity, ratio } from "./format";
import type { Density, DensityStep } from "./data";
import type { Model } from "./state";

/** What a number of copies does of the floor. */
const words: Record<DensityStep["state"], string> = {
  keeps: "kept", breaks: "not kept", open: "not decided", "not-tried": "not tried", "not-open": "did not open", "no-figure": "no figure",
};

export function density(m: Model): HTMLElement | null {
  const shown = (m.data.result.density ?? []).filter((x) => m.workloadShown(x.workload));
  return shown.length === 0 ? null : h("section", { id: "density", "aria-labelledby": "density-title" }, h("h2", { id: "density-title" }, "How many copies work at once"),
    h("p", { class: "lead" }, "All copies of a trial begin together. What each does in a time is compared with what one does alone, in the same blocks."),
    shown.map(dense));
}

function dense(x: Density): Child {
  const tail = x.steps.find((s) => s.tail_metric)?.tail_metric;
  const memory = x.steps.some((s) => s.resident_bytes);
  const head = ["Copies", "Floor", "Each does", "", "All together", "Slowest copy", ...(tail ? [tail] : []), ...(memory ? ["Memory each", "Shared pages in parts"] : [])];
  const empty = (n: number): Child[] => Array.from({ length: n }, () => "");
  return h("div", { class: "dense" }, h("h3", {}, `${x.environment}, ${x.workload}`),
    h("p", {}, ticked(x.text)),
    table({
      head, figures: 2,
      rows: x.steps.map((s): Child[] => [String(s.copies), s.copies === 1 ? "" : words[s.state], ...(s.why ? empty(head.length - 2) : figures(s, tail, memory))]),
    }, `${x.workload} in copies of ${x.environment}`, "density-table"),
    x.steps.map((s) => s.why && h("p", { class: "note" }, `${s.copies}: ${s.why}`)));
}

const figures = (s: DensityStep, tail: string | undefined, memory: boolean): Child[] => [
  percent(s.share), s.level > 0 && h("span", { class: "muted" }, `[${percent(s.low)}, ${percent(s.high)}]`), `${ratio(s.throughput)}×`, s.copies > 1 && s.slowest > 0 && percent(s.slowest),
  ...(tail ? [s.tail ? quantity(s.tail, s.tail_unit ?? "") : ""] : []),
  ...(memory ? [bytes(s.resident_bytes), bytes(s.proportional_bytes)] : []),
];

const bytes = (n: number | undefined): string => (n ? quantity(n, "B") : "");
