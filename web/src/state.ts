/** What the reader has chosen, and the cells that follow from it. */
import { Mark, seriesOf, targetName, type Cell, type Data, type Family, type Target } from "./data";
import { hodgesLehmann, median, tInterval } from "./stats";
import { learnWords, unlikeFlushes } from "./verdict";

export interface State {
  baseline: string;
  targets: Set<string>; // shown candidates
  families: Set<string>; // shown
  /** "" for the metric that decides, "*" for all, else a metric's name. */
  metric: string;
  by: "workload" | "target";
  order: "plan" | "cost";
}

export class Model {
  readonly state: State;
  readonly families: string[];
  private changed: (() => void)[] = [];
  private rebased = new Map<string, { cells: Cell[]; families: Family[] }>();
  private byName: Map<string, Target>;
  private place: Map<string, number>;

  /** The data of a running run come again and again; was is the model of the last ones, whose choices stay. */
  constructor(readonly data: Data, was?: Model) {
    learnWords(data);
    const r = data.result;
    this.families = [...new Set(r.cells.map((c) => c.family))];
    this.byName = new Map(r.targets.map((t) => [t.name, t]));
    this.place = new Map(r.targets.map((t, i) => [t.name, i]));
    this.state = {
      baseline: r.run.baseline, targets: new Set(r.targets.map((t) => t.name)), families: new Set(this.families),
      metric: "", by: "workload", order: "plan",
    };
    if (!was) return;
    const keep = (all: string[], before: string[], chosen: Set<string>) => new Set(all.filter((x) => chosen.has(x) || !before.includes(x)));
    this.state = {
      ...was.state, baseline: this.byName.has(was.state.baseline) ? was.state.baseline : r.run.baseline,
      targets: keep([...this.byName.keys()], [...was.byName.keys()], was.state.targets), families: keep(this.families, was.families, was.state.families),
    };
  }

  get run() { return this.data.result.run; }
  target(name: string): Target | undefined { return this.byName.get(name); }
  /** A target's place in the plan, which gives it its colour. */
  at(name: string): number { return this.place.get(name) ?? 0; }
  get rebasedNow(): boolean { return this.state.baseline !== this.run.baseline; }

  onChange(f: () => void): void { this.changed.push(f); }
  set(change: Partial<State>): void {
    Object.assign(this.state, change);
    for (const f of this.changed) f();
  }

  /** Every cell against the chosen baseline. */
  cells(): Cell[] { return this.rebasedNow ? this.against(this.state.baseline).cells : this.data.result.cells; }
  summaries(): Family[] { return this.rebasedNow ? this.against(this.state.baseline).families : this.data.result.families; }

  /** The candidates of the chosen baseline, in the plan's order. A target alone is weighed against itself. */
  candidates(): Target[] {
    const all = this.data.result.targets;
    return all.length === 1 ? all : all.filter((t) => t.name !== this.state.baseline);
  }

  /** The cells that the filters leave. */
  shown(): Cell[] {
    const { targets, families, metric } = this.state;
    return this.cells().filter((c) => targets.has(c.target) && families.has(c.family) && (metric === "" ? c.primary : metric === "*" || c.metric === metric));
  }

  workloadShown(label: string): boolean {
    const c = this.data.result.cells.find((x) => x.workload === label);
    return !c || this.state.families.has(c.family);
  }

  private against(baseline: string) {
    let r = this.rebased.get(baseline);
    if (!r) {
      r = rebase(this.data, baseline);
      this.rebased.set(baseline, r);
    }
    return r;
  }
}

/** ln of a trial's cost by block; a rate costs the less the higher it is. */
export function costs(workload: string, metric: string, better: string): Map<string, Map<string, number>> {
  const out = new Map<string, Map<string, number>>();
  const x = seriesOf(workload);
  const values = x?.metrics[metric];
  if (!x || !values) return out;
  for (let i = 0; i < values.length; i++) {
    const v = values[i];
    if (typeof v !== "number" || !(v > 0) || x.mark[i]! & (Mark.null | Mark.warmup | Mark.discarded | Mark.failed)) continue;
    const name = targetName(x.target[i]!);
    let blocks = out.get(name);
    if (!blocks) {
      blocks = new Map();
      out.set(name, blocks);
    }
    blocks.set(`${x.session[i]}/${x.block[i]}`, better === "higher" ? -Math.log(v) : Math.log(v));
  }
  return out;
}

/**
 * Weighs every target against another baseline: ln ratios by block, their Hodges-Lehmann centre, and Student's t interval.
 * The signs follow the rule of the method for one look without a correction for the number of cells, so they are no
 * verdicts. What the program withheld or could not measure stays so.
 */
export function rebase(data: Data, baseline: string): { cells: Cell[]; families: Family[] } {
  const r = data.result;
  const alpha = r.run.look_alpha || r.run.alpha || 0.05;
  const cells: Cell[] = [];
  const logs = new Map<string, { blocks: Map<string, number>[]; family: string; target: string }>();
  const groups = new Map<string, Cell[]>();
  for (const c of r.cells) {
    const key = JSON.stringify([c.workload, c.metric]);
    groups.set(key, [...(groups.get(key) ?? []), c]);
  }
  const clockWrong = new Set(r.targets.filter((t) => Math.abs(t.clock_off) > 0.01).map((t) => t.name));
  for (const group of groups.values()) {
    const own = group.find((c) => c.target === baseline);
    const series = costs(group[0]!.workload, group[0]!.metric, group[0]!.better);
    const base = series.get(baseline);
    // A cell's baseline figure is that of whatever the cell was compared with, which a plan may choose for each target.
    const center = (name: string) => group.find((c) => c.target === name)?.center || group.find((c) => c.baseline === name && c.baseline_center > 0)?.baseline_center || 0;
    for (const t of r.targets) {
      if (t.name === baseline) continue;
      const was = group.find((c) => c.target === t.name);
      // The run's own baseline has no cell against itself; any of the group tells what the metric is.
      const like = was ?? own;
      if (!like || (!was && t.name !== r.run.baseline)) continue;
      const c: Cell = {
        ...like, target: t.name, baseline, recomputed: true, ratio: 0, low: 0, high: 0, level: 0, blocks: 0, p: 1, p_holm: 1, q: 1, verdict: "INCONCLUSIVE",
        center: center(t.name), baseline_center: center(baseline),
        emulated: (was?.emulated ?? t.emulated) || (own?.emulated ?? false), warnings: was?.warnings ?? [], failure: was?.failure,
      };
      delete c.blocks_needed;
      if (!was) delete c.failure;
      cells.push(c);
      const spoilt = [was, own].find((x) => x?.verdict === "FAILED" || x?.verdict === "WITHHELD");
      if (spoilt) {
        Object.assign(c, { verdict: spoilt.verdict, failure: spoilt.failure, warnings: spoilt.warnings });
        continue;
      }
      if (!own && r.run.baseline !== baseline) {
        Object.assign(c, { verdict: "FAILED", failure: { kind: "not-run", message: `${baseline} did not run this workload` } });
        continue;
      }
      if (clockWrong.has(t.name) || clockWrong.has(baseline)) {
        c.verdict = "WITHHELD";
        c.warnings = [{ code: "clock-wrong", text: "one of the two clocks is off by more than 1 %, and this page only has figures by that clock", remedy: "use tare report, which has the controller's clock" }];
        continue;
      }
      const cost = series.get(t.name);
      const d = new Map<string, number>();
      for (const [block, v] of cost ?? []) {
        const b = base?.get(block);
        if (b !== undefined) d.set(block, v - b);
      }
      decide(c, [...d.values()], alpha);
      const unlike = [was, own].find((x) => x && unlikeFlushes(x));
      if (unlike && d.size > 0) {
        Object.assign(c, { verdict: "MEASURED", warnings: unlike.warnings });
        continue;
      }
      if (c.primary && d.size > 0) {
        const key = JSON.stringify([c.family, t.name]);
        const g = logs.get(key) ?? { blocks: [], family: c.family, target: t.name };
        g.blocks.push(d);
        logs.set(key, g);
      }
    }
  }
  const families: Family[] = [];
  for (const g of logs.values()) {
    const common = [...g.blocks[0]!.keys()].filter((b) => g.blocks.every((m) => m.has(b)));
    const means = common.map((b) => g.blocks.reduce((sum, m) => sum + m.get(b)!, 0) / g.blocks.length);
    const centers = g.blocks.map((m) => hodgesLehmann([...m.values()]));
    const t = tInterval(means, alpha);
    families.push({
      family: g.family, target: g.target, cells: g.blocks.length, blocks: common.length,
      ratio: Math.exp(centers.reduce((a, b) => a + b, 0) / centers.length), low: t ? Math.exp(t[0]) : 0, high: t ? Math.exp(t[1]) : 0,
    });
  }
  return { cells, families };
}

function decide(c: Cell, d: number[], alpha: number): void {
  c.blocks = d.length;
  if (d.length === 0) return;
  c.ratio = Math.exp(hodgesLehmann(d));
  const t = tInterval(d, alpha);
  if (!t) return;
  // The centre is a median of averages and the interval is about the mean: with a long tail the one may lie outside of the other.
  c.low = Math.min(Math.exp(t[0]), c.ratio);
  c.high = Math.max(Math.exp(t[1]), c.ratio);
  c.level = 1 - alpha;
  if (c.low > 1 + c.margin || c.high < 1 / (1 + c.margin)) c.verdict = "DIFFERENT";
  else if (c.low > 1 / (1 + c.same_margin) && c.high < 1 + c.same_margin) c.verdict = "EQUIVALENT";
}

/** The middle of a target's used trials of a metric; NaN when there are none. */
export function centerOf(workload: string, metric: string, target: string): number {
  const x = seriesOf(workload);
  const values = x?.metrics[metric];
  if (!x || !values) return NaN;
  const used: number[] = [];
  values.forEach((v, i) => {
    if (v !== null && !(x.mark[i]! & ~Mark.noisy) && targetName(x.target[i]!) === target) used.push(v);
  });
  return median(used);
}
