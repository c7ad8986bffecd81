/** What the program puts into the page: the report, whose types report.ts has, and the trials in columns. */

import type { Cell as ReportCell, Flame, Normal, Report, Worth } from "./report";

export type { Cost, Density, DensityStep, Difference, Disk, Facts, Family, Finding, Flame, Frame, Group, Grouped, Money, Normal, Part, Product, Returned, Saving, Span, Target, Why, Worth } from "./report";

/** A cell of the report, or one that the page made. */
export interface Cell extends ReportCell {
  /** Made in the page, against another baseline than the run's. */
  recomputed?: boolean;
}

export interface PlanWorkload { label: string; kind: string; params: Record<string, string>; seconds?: number }
/** A sign and its legend, as the terminal report has them. */
export interface Said { glyph: string; word: string }
export interface Data {
  format: number; result: Report; bundle: string; plan: string; seed: string; question?: string; started?: string;
  workloads: PlanWorkload[]; looks?: number[]; precision?: number; trial_seconds?: number;
  gates?: { expr: string; state: "no" | "unknown" | "holds"; text: string }[];
  flames?: Flame[]; normal?: Normal; worth?: Worth;
  signs: Record<string, Said>; marks: Record<string, string>;
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
