/** Doubts, how the figures came about, and what it takes to get them again. */
import { h, ticked } from "./dom";
import { duration, list, percent, plural } from "./format";
import { median } from "./stats";
import type { Cell } from "./data";
import type { Model } from "./state";

export function warnings(m: Model): HTMLElement | null {
  interface Group { text: string; remedy: string; where: Set<string>; failed: boolean }
  const seen = new Map<string, Group>();
  const add = (text: string, remedy: string, where: string, failed = false) => {
    const k = JSON.stringify([text, remedy]);
    const g = seen.get(k) ?? { text, remedy, where: new Set(), failed };
    g.where.add(where);
    seen.set(k, g);
  };
  for (const t of m.data.result.targets) for (const w of t.warnings) add(w.text, w.remedy ?? "", t.name);
  for (const c of m.data.result.cells) {
    if (c.failure && c.primary) add(c.failure.message, "", `${c.target}, ${c.workload}`, true);
    for (const w of c.warnings) add(w.text, w.remedy ?? "", `${c.target}, ${c.workload}${c.primary ? "" : ` ${c.metric}`}`);
  }
  if (seen.size === 0) return null;
  const all = [...seen.values()];
  const item = (g: Group) => {
    const where = [...g.where];
    return h("li", {}, h("span", { class: "where" }, where.slice(0, 3).join("; "), where.length > 3 && ` and ${where.length - 3} more`), h("p", {}, g.failed && "✕ ", ticked(g.text), g.remedy && h("span", { class: "remedy" }, " — ", ticked(g.remedy))));
  };
  return h("section", { id: "warnings", "aria-labelledby": "warnings-title" }, h("h2", { id: "warnings-title" }, "Warnings"),
    h("ul", { class: "warnings" }, all.slice(0, 12).map(item)),
    all.length > 12 && h("details", {}, h("summary", {}, `${all.length - 12} more`), h("ul", { class: "warnings" }, all.slice(12).map(item))));
}

/** How far the null control spread in each workload, as every other form of report counts it: once, however many candidates. */
export function nullSpreads(cells: Cell[]): number[] {
  const of = new Map<string, number>();
  for (const c of cells) if (c.primary && c.null_spread > 0 && !of.has(c.workload)) of.set(c.workload, c.null_spread);
  return [...of.values()];
}

export function method(m: Model): HTMLElement {
  const { run, data } = m;
  const candidates = data.result.targets.map((t) => t.name);
  const spreads = nullSpreads(data.result.cells);
  const p = (...text: (string | false)[]) => h("p", {}, ...text);
  return h("section", { id: "method", "aria-labelledby": "method-title" }, h("h2", { id: "method-title" }, "Method"),
    h("div", { class: "prose" },
      p(`The same work ran in ${list(candidates)}, one at a time, in blocks that hold every target once in an order drawn from the seed. The run took ${duration(run.seconds)}: at most ${plural(run.blocks, "block")} of a workload in ${plural(run.sessions, "session")}`,
        run.discarded_blocks > 0 && `, of which ${plural(run.discarded_blocks, "block")} were discarded by a rule that cannot see which target is ahead`, run.failed_trials > 0 && `; ${plural(run.failed_trials, "trial")} failed`, "."),
      p("Each trial did an amount of work that was fixed beforehand, in a new process. It was timed by the environment's clock and by the controller's. The first trial of each cell is a warm-up: it is recorded and shown hollow, but not used. Nothing is dropped as an outlier."),
      p("A ratio is the Hodges-Lehmann centre of the blocks' log ratios, candidate against baseline; above 1 always means that the candidate costs more. Its interval inverts the exact Wilcoxon signed-rank test; with several sessions it is Student's t on the sessions' means.",
        run.alpha > 0 && ` The level over all looks is ${percent(1 - run.alpha)}`, run.look_alpha > 0 && data.looks?.length ? `, which takes ${percent(1 - run.look_alpha)} at each of the looks after ${list(data.looks.map(String))} blocks.` : run.alpha > 0 && "."),
      p("“Different” means that the interval lies wholly beyond the margin, “the same” that it lies wholly within. The margin is the plan's, or twice the spread of the null control if that is larger. The null control is the baseline measured against itself, in a hidden second slot of each block.",
        spreads.length > 0 && ` Here the null control spread by ${percent(median(spreads))}, at worst ${percent(Math.max(...spreads))}.`, " Holm's method corrects for many cells; for secondary metrics it is Benjamini and Hochberg's q."),
      p(`Scope: every sentence here holds ${run.scope}.`)));
}

const quote = (t: string) => (/^[A-Za-z0-9/._+:@%=,-]+$/.test(t) ? t : `'${t.replace(/'/g, "'\\''")}'`);

export function repeat(m: Model): HTMLElement {
  const { run, data } = m;
  const commands = data.bundle
    ? [run.finished ? `tare rerun ${quote(data.bundle)}` : `tare run --resume ${quote(data.bundle)}`, `tare verify ${quote(data.bundle)}`]
    : ["tare run plan.yaml"];
  const copy = (text: string) => {
    const b = h("button", { type: "button", class: "copy", onclick: () => {
      void navigator.clipboard?.writeText(text).then(() => { b.textContent = "Copied"; setTimeout(() => (b.textContent = "Copy"), 1500); }, () => { b.textContent = "Select the text by hand"; });
    } }, "Copy");
    return b;
  };
  return h("section", { id: "repeat", "aria-labelledby": "repeat-title" }, h("h2", { id: "repeat-title" }, "Repeat it"),
    commands.map((c) => h("div", { class: "command" }, h("code", {}, c), copy(c))),
    h("dl", { class: "numbers" }, ...[["tare", `${run.version}, build ${run.build}`], ["run", run.id], ["seed", data.seed], ["mode", run.mode]].flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
    data.plan && h("details", { class: "inner plan" }, h("summary", {}, "The plan, with everything that was drawn or derived"), copy(data.plan), h("pre", { tabindex: 0 }, data.plan)));
}
