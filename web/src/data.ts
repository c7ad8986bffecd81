/** What the program puts into the page: the result as docs/report.schema.json describes it, and the trials in columns. */

export interface Warning { code: string; text: string; remedy?: string }
export interface Failure { kind: string; message: string; evidence?: string }
export type Verdict = "DIFFERENT" | "EQUIVALENT" | "MEASURED" | "INCONCLUSIVE" | "WITHHELD" | "FAILED" | "";

export interface Facts {
  os?: string; arch?: string; kernel?: string; distro?: string; hostname?: string; cpu?: string; cores?: number; threads?: number; mhz?: number;
  memory_bytes?: number; hypervisor?: string; clock?: string; emulated?: boolean; work_dir?: string; work_fs?: string;
  settings?: Record<string, string>; command?: string[]; extra?: Record<string, string>;
}
export interface Mount {
  kind: string; dir: string; host_dir: string; type: string; source: string; options: string; settings?: Record<string, string>; server?: string; command?: string[];
}
export interface Property { name: string; title: string; answer: string; seconds?: number; rating: string; detail?: string }
export interface Durability { verdict: string; class: string; layer?: string; cuts?: number; bound?: number; text: string; evidence?: string[]; settings?: Warning[]; tests?: { name: string; verdict: string; class: string; text: string }[] }

/** A picture of a disk: columns have an entry for each cell, or are missing where all would be 0. Shares are thousandths. */
export interface DiskMap {
  name?: string; state?: string; format?: string; bytes: number; cell_bytes: number; data?: number[]; compressed?: number[]; zero?: number[]; inherited?: number[];
  breaks?: number[]; place?: number[]; text?: string;
}

export interface Target {
  name: string; spec: string; baseline: boolean; emulated: boolean; open_seconds: number; clock_off: number; inside: Facts; outside: Facts;
  error?: Failure; retries?: Failure[]; warnings: Warning[]; of?: string; mount?: Mount; card?: Property[]; durability?: Durability; disks?: DiskMap[];
}
export interface Cell {
  workload: string; kind: string; family: string; metric: string; unit: string; better: string; primary: boolean; target: string; baseline: string;
  ratio: number; low: number; high: number; level: number; blocks: number; blocks_needed?: number; p: number; p_holm: number; q: number; verdict: Verdict; writes?: boolean;
  margin: number; same_margin: number; null_spread: number; center: number; baseline_center: number; emulated: boolean; failure?: Failure; warnings: Warning[];
  /** Made in the page, against another baseline than the run's. */
  recomputed?: boolean;
}
export interface Summary { family: string; target: string; ratio: number; low: number; high: number; cells: number; blocks: number }
export interface Finding { code: string; severity: string; targets?: string[]; workloads?: string[]; text: string; remedy?: string }
export interface Cost {
  target: string; kind: string; label: string; per_call_ns: number; per_byte_ns: number; quantum?: number; per_quantum_ns?: number; error: number;
  points: { bytes: number; ns: number }[] | null; text: string;
}
export interface Run {
  id: string; name?: string; version: string; build: string; baseline: string; seed: number; mode: string; sessions: number; blocks: number;
  discarded_blocks: number; failed_trials: number; scope: string; seconds: number; finished: boolean; alpha: number; look_alpha: number;
}
export interface Result { schema: number; run: Run; targets: Target[]; cells: Cell[]; families: Summary[]; findings: Finding[]; costs?: Cost[] }

export interface Span { center: number; low: number; high: number }
export interface Money { amount: number; currency?: string }
/** Costs restated per something that is paid for; internal/judge/costper has the other end. */
export interface Normal {
  per: string; notes: string[];
  lines: {
    workload: string; target: string; baseline: string; measured: Span; factor: number; ratio: number; low: number; high: number; figure: number; value: number; unit: string;
    terms: { what: string; unit?: string; candidate: number; baseline: number; source?: string }[]; arithmetic: string; unequal_topology?: string; refused?: string;
  }[];
}
export interface Saving {
  workload: string; target: string; baseline: string; level: number; use_seconds: number; ratio: Span; per_use: Span; per_day: Span; per_year: Span; money_per_year: Span;
  break_even_uses: Span; break_even_hourly: Span; break_even_day?: string; day_early?: string; day_late?: string; refused?: string;
}
export interface Worth { price: Money; uses_per_day: number; hourly: Money; from: string; days_in_year: number; answers: Saving[] }

export interface PlanWorkload { label: string; kind: string; params: Record<string, string>; seconds?: number }
export interface Data {
  format: number; result: Result; bundle: string; plan: string; seed: string; question?: string; started?: string;
  workloads: PlanWorkload[]; looks?: number[]; precision?: number; trial_seconds?: number;
  gates?: { expr: string; state: "no" | "unknown" | "holds"; text: string }[];
  normal?: Normal; worth?: Worth;
}

/** Marks of a trial, as bits. */
export const Mark = { null: 1, warmup: 2, discarded: 4, failed: 8, noisy: 16 } as const;

/** The trials of one workload: every column has an entry for each trial, in the order they ran. */
export interface Series {
  workload: string;
  seq: number[];
  start: number[]; // seconds since the first trial of the run
  session: number[];
  block: number[];
  target: number[]; // index into Trials.targets
  mark: number[];
  metrics: Record<string, (number | null)[]>;
  errors?: Record<string, string>; // by position in the columns
  samples?: { target: number; metric: string; count: number; quantiles: number[] }[];
  state?: { target: number; key: string; text: string }[];
}
export interface Trials { targets: string[]; series: Series[] }

function block<T>(id: string): T | null {
  const text = document.getElementById(id)?.textContent;
  return text ? (JSON.parse(text) as T | null) : null;
}

/** The data of the page, or the mark that it is to ask its run for them. */
export const readData = (): Data | { live: true } | null => block<Data | { live: true }>("tare-data");

let trials: Map<string, Series> | undefined;
let names: string[] = [];

/** The trials of a workload. They are parsed only when something first asks for them: the answer does not need them. */
export function seriesOf(workload: string): Series | undefined {
  if (!trials) {
    const all = block<Trials>("tare-trials");
    names = all?.targets ?? [];
    trials = new Map((all?.series ?? []).map((x) => [x.workload, x]));
  }
  return trials.get(workload);
}

/** Takes in what a run says of its trials: whole series, of the workloads that have more than before. */
export function learn(more: Trials): void {
  trials ??= new Map();
  names = more.targets;
  for (const x of more.series) trials.set(x.workload, x);
}

export const targetName = (i: number): string => names[i] ?? "?";
