import { describe, expect, it, vi } from "vitest";
import type { Cell, Data, Target } from "../src/data";
import { words } from "./words";

const cell = (target: string, ratio: number, center: number, more: Partial<Cell> = {}): Cell => ({
  workload: "w", kind: "k", family: "f", metric: "rate", unit: "ops/s", better: "higher", primary: true, target, baseline: "host", ratio, low: ratio, high: ratio, level: 0.95,
  blocks: 5, p: 0, p_holm: 0, q: 0, verdict: "DIFFERENT", margin: 0.02, same_margin: 0.02, null_spread: 0.003, center, baseline_center: 100, emulated: false, warnings: [], ...more,
});
const target = (name: string, clock_off = 0): Target => ({ name, spec: name, baseline: name === "host", emulated: false, open_seconds: 0, clock_off, inside: {}, outside: {}, warnings: [] });

/** Five blocks; a has half of the host's rate and b a quarter. Trial 0 of each is a wild warm-up, and one of host's is the null control. */
function page(cells: Cell[], targets: Target[]): Data {
  const series = { workload: "w", seq: [] as number[], start: [], session: [] as number[], block: [] as number[], target: [] as number[], mark: [] as number[], metrics: { rate: [] as number[] } };
  const add = (block: number, t: number, mark: number, v: number) => {
    series.block.push(block); series.session.push(1); series.target.push(t); series.mark.push(mark); series.metrics.rate.push(v); series.seq.push(series.seq.length + 1);
  };
  for (let b = 0; b <= 5; b++) for (const [t, rate] of [100, 50, 25].entries()) add(b, t, b === 0 ? 2 : 0, b === 0 ? 1 : rate * (1 + b / 1000));
  add(1, 0, 1, 1e9);
  vi.stubGlobal("document", { getElementById: () => ({ textContent: JSON.stringify({ targets: ["host", "a", "b"], series: [series] }) }) });
  return {
    ...words, format: 1, bundle: "", plan: "", seed: "7", workloads: [],
    result: { schema: 1, run: { baseline: "host", look_alpha: 0.018, alpha: 0.05 } as Data["result"]["run"], targets, cells, families: [], findings: [] },
  };
}

async function rebased(cells: Cell[], baseline: string, targets = [target("host"), target("a"), target("b")]) {
  vi.resetModules(); // the trials are parsed once in a page's life
  const { rebase } = await import("../src/state");
  return rebase(page(cells, targets), baseline);
}

describe("another baseline", () => {
  it("turns ratios round, warm-up and null control left out", async () => {
    const r = await rebased([cell("a", 2, 50), cell("b", 4, 25)], "a");
    expect(r.cells.map((c) => [c.target, c.baseline, Number(c.ratio.toFixed(6)), c.blocks, c.verdict, c.recomputed])).toEqual([["host", "a", 0.5, 5, "DIFFERENT", true], ["b", "a", 2, 5, "DIFFERENT", true]]);
    expect(r.cells.map((c) => [c.center, c.baseline_center])).toEqual([[100, 50], [25, 50]]);
    expect(r.families.map((f) => [f.target, Number(f.ratio.toFixed(6)), f.cells, f.blocks])).toEqual([["host", 0.5, 1, 5], ["b", 2, 1, 5]]);
  });
  it("shows each target's own figure where the plan compares one with another than the run's baseline", async () => {
    const cells = () => [cell("a", 2, 50), cell("b", 2, 25, { baseline: "a", baseline_center: 50 })];
    const figures = async (baseline: string) => (await rebased(cells(), baseline)).cells.map((c) => [c.target, c.baseline, c.center, c.baseline_center, Number(c.ratio.toFixed(6))]);
    expect(await figures("a")).toEqual([["host", "a", 100, 50, 0.5], ["b", "a", 25, 50, 2]]);
    expect(await figures("b")).toEqual([["host", "b", 100, 25, 0.25], ["a", "b", 50, 25, 0.5]]);
  });
  it("ranks nothing that was withheld on either side", async () => {
    const r = await rebased([cell("a", 0, 50, { verdict: "WITHHELD" }), cell("b", 4, 25)], "a");
    expect(r.cells.map((c) => [c.verdict, c.ratio])).toEqual([["WITHHELD", 0], ["WITHHELD", 0]]);
    expect(r.families).toEqual([]);
  });
  it("ranks nothing whose sides flush differently", async () => {
    const r = await rebased([cell("a", 2, 50, { verdict: "MEASURED", warnings: [{ code: "flushes-differ", text: "", remedy: "" }] }), cell("b", 4, 25)], "a");
    expect(r.cells.map((c) => [c.target, Number(c.ratio.toFixed(6)), c.verdict, c.warnings[0]?.code])).toEqual([["host", 0.5, "MEASURED", "flushes-differ"], ["b", 2, "MEASURED", "flushes-differ"]]);
    expect(r.families).toEqual([]);
  });
  it("ranks nothing by a wrong clock", async () => {
    const r = await rebased([cell("a", 2, 50), cell("b", 4, 25)], "a", [target("host"), target("a"), target("b", 0.2)]);
    expect(r.cells.map((c) => [c.target, c.verdict])).toEqual([["host", "DIFFERENT"], ["b", "WITHHELD"]]);
  });
  it("says so where the new baseline did not run", async () => {
    const r = await rebased([cell("b", 4, 25)], "a");
    expect(r.cells.every((c) => c.verdict === "FAILED" && c.ratio === 0)).toBe(true);
  });
});

describe("sweeps", () => {
  it("puts workloads together that differ in nothing but sizes", async () => {
    const { sweeps } = await import("../src/sizes");
    const w = (label: string, params: Record<string, string>) => ({ label, kind: "fs.randread", params });
    const got = sweeps([w("r bs=4KiB", { bs: "4KiB", size: "64MiB" }), w("r bs=64KiB", { bs: "64KiB", size: "64MiB" }), w("r direct bs=4KiB", { bs: "4KiB", size: "64MiB", direct: "true" }), w("other", {})]);
    expect(got.map((g) => [g.title, g.records, g.sizes])).toEqual([["r", [4096, 65536], [64 << 20]]]);
  });
  it("reads labels where there is no plan", async () => {
    const { sweeps } = await import("../src/sizes");
    expect(sweeps([1, 4].map((n) => ({ label: `m size=1MiB bs=${n}KiB`, kind: "m", params: {} })))[0]?.records).toEqual([1024, 4096]);
  });
});

describe("margin", () => {
  it("says whether the plan or the noise asks for it", async () => {
    const { marginText } = await import("../src/verdict");
    const quiet = cell("a", 1.01, 50);
    const noisy = cell("a", 1.1, 50, { workload: "x", margin: 0.25 });
    expect(marginText([quiet])).toBe("the plan's margin of 2 %");
    expect(marginText([noisy])).toBe("a margin of 25 %, twice the difference of the baseline from itself in this run (the plan asks for 2 %)");
    expect(marginText([quiet, noisy])).toContain("from itself in this run (in x; the plan asks");
  });
});

describe("a mean", () => {
  it("does not hide what stands out of it", async () => {
    const { apart } = await import("../src/answer");
    const w = (workload: string, kind: string, ratio: number, verdict: Cell["verdict"] = "DIFFERENT") => cell("a", ratio, 50, { workload, kind, verdict });
    expect(apart([w("r", "fs.randread", 0.5), w("s 4K", "fs.seqwrite", 2), w("s 64K", "fs.seqwrite", 8)], 2)).toBe(", from 0.50× in fs.randread to 8.00× in s 64K");
    expect(apart([w("r", "fs.randread", 1.7), w("s", "fs.seqwrite", 1, "EQUIVALENT")], 1.3)).toBe(", but 1.70× in fs.randread");
    expect(apart([w("r", "fs.randread", 1.7), w("s", "fs.seqwrite", 1.65)], 1.67)).toBe("");
    expect(apart([w("r", "fs.randread", 2), w("s", "fs.seqwrite", 8), w("t", "fs.seqread", 1, "INCONCLUSIVE")], 2.5)).toBe(", but 2.00× in fs.randread to 8.00× in fs.seqwrite");
    expect(apart([w("r", "fs.randread", 1.7)], 1.7)).toBe("");
    expect(apart([w("r", "fs.randread", 3, "INCONCLUSIVE"), w("s", "fs.seqwrite", 1, "EQUIVALENT")], 1.7)).toBe("");
  });
});

describe("method", () => {
  it("counts the null control of a workload once, whatever it is compared in", async () => {
    const { nullSpreads } = await import("../src/method");
    const { median } = await import("../src/stats");
    const of = (workload: string, target: string, null_spread: number, primary = true) => cell(target, 1, 1, { workload, null_spread, primary });
    const spreads = nullSpreads([of("v", "a", 0.01), of("w", "a", 0.05), of("w", "b", 0.05), of("w", "a", 0.9, false), of("x", "a", 0)]);
    expect(spreads).toEqual([0.01, 0.05]);
    expect(median(spreads)).toBeCloseTo(0.03);
  });
});

describe("text", () => {
  it("shows what would be obeyed as replaced", async () => {
    const { safe } = await import("../src/dom");
    expect(safe("a\x1b[31m\u202eb\u2066c\nd\te")).toBe("a\ufffd[31m\ufffdb\ufffdc\nd\te");
  });
  it("finds options, so that no line breaks within one", async () => {
    const { options } = await import("../src/dom");
    expect(options("lengthen (--full), or --fail-if.")).toEqual(["lengthen (", "--full", "), or ", "--fail-if", "."]);
    expect(options("a -- b, x--y, 1-2")).toEqual(["a -- b, x--y, 1-2"]);
  });
  it("reads percentiles out of names", async () => {
    const { percentileOf } = await import("../src/workload");
    expect(["p50_us", "p90_us", "p999_us", "p9999_ns", "p5_us", "latency", "p50"].map(percentileOf)).toEqual([50, 90, 99.9, 99.99, undefined, undefined, undefined]);
  });
});
