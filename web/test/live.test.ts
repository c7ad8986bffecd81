import { describe, expect, it } from "vitest";
import { done, headline, type Progress } from "../src/live";

const at = (more: Partial<Progress>): Progress => ({ phase: "measuring", now: "cpu.prime in box, block 3", elapsed_s: 75, left_s: 225, poll_ms: 2000, workloads: [], log: [], ...more });

describe("progress", () => {
  it("is a share of what is known of the whole", () => {
    expect([done(at({})), done(at({ left_s: 0 })), done(at({ phase: "opening" })), done(at({ phase: "ended", left_s: 0 })), done(at({ phase: "stopped" }))]).toEqual([0.25, undefined, undefined, 1, 1]);
  });
  it("is said in one line", () => {
    expect(headline(at({}))).toMatch(/^Measuring · cpu\.prime in box, block 3 · 1:15 · about .* left$/);
    expect(headline(at({ phase: "ended", now: "", left_s: 0 }))).toBe("The run is over · 1:15");
    expect(headline(at({ phase: "opening", now: "opening vm", elapsed_s: 3, left_s: 0 }))).toBe("Opening the environments · opening vm · 0:03");
  });
});

describe("what the reader chose", () => {
  it("stays when the data grow", async () => {
    const { Model } = await import("../src/state");
    const data = (targets: string[], families: string[]) => ({ result: { run: { baseline: "host" }, targets: targets.map((name) => ({ name })), cells: families.map((family) => ({ family })) } }) as never;
    const was = new Model(data(["host", "box", "vm"], ["cpu"]));
    was.set({ baseline: "box", order: "cost", targets: new Set(["host", "vm"]) });
    const next = new Model(data(["host", "box", "vm", "vm:9p"], ["cpu", "file system"]), was);
    expect([next.state.baseline, next.state.order, [...next.state.targets], [...next.state.families]]).toEqual(["box", "cost", ["host", "vm", "vm:9p"], ["cpu", "file system"]]);
  });
});
