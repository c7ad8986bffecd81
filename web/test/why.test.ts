import { expect, test } from "vitest";
import type { Cell, Part, Why } from "../src/data";
import { adding, barsOf, because, taken } from "../src/why";

const part = (name: Part["part"], what: string, base: number, candidate: number, shown = true): Part => ({ part: name, what, base, candidate, extra: candidate - base, low: 0, high: 0, shown });
const why = (workload: string, target: string, parts: Part[], text = ""): Why => ({
  workload, target, metric: "m", baseline: "host", blocks: 10, level: 0.95, unit: "read", text: "", parts, ratio: parts.reduce((a, p) => a + p.candidate, 0), ...(text ? { because: text } : {}),
});

test("figures that are told add up to their rounded sum", () => {
  for (const [values, places] of [[[0.333, 0.333, 0.334], 2], [[1.005, 2.005, 0.005], 2], [[11.44, 2.44, 0.44], 1], [[0.00004, 0.02996], 4], [[100.4, 3.3], 0]] as [number[], number][]) {
    const told = adding(values, places);
    expect(told.reduce((a, b) => a + b, 0)).toBeCloseTo(Number(values.reduce((a, b) => a + b, 0).toFixed(places)), 8);
    told.forEach((v, i) => { expect(Math.abs(v - values[i]!)).toBeLessThan(10 ** -places); });
  }
});

test("the answer has the sum of its only workload, or of the one that differs most", () => {
  const cell = {} as Cell;
  const a = why("a", "vm", [part("user", "user code", 0.5, 0.6, false), part("kernel", "kernel", 0.5, 1.5)], "2.10 = 1 + 1.00 kernel + 0.10 parts not shown to differ");
  const b = why("b", "vm", [part("other", "waiting", 1, 0.2)], "0.20 = 1 - 0.80 waiting");
  const none = why("c", "vm", [part("user", "user code", 1, 1, false)]);
  expect(because([a], [cell])).toBe("2.10 = 1 + 1.00 kernel + 0.10 parts not shown to differ.");
  expect(because([a, b, none], [cell, cell, cell])).toBe("Most of the difference is waiting in 1 of 3 workloads and kernel in 1. In b, 0.20 = 1 − 0.80 waiting.");
  expect(because([none], [cell])).toBe("");
  expect(because([], [])).toBe("");
});

test("a baseline has one bar for all candidates with the same parts, and nothing is emulated in it", () => {
  const parts = (what: string) => [part("user", what, 0.6, 2), part("other", "waiting", 0.4, 0.5)];
  const bars = barsOf([why("w", "box", parts("user code")), why("w", "vm", parts("emulation of user code")), why("w", "win", [part("other", "waiting", 1, 3)])]);
  expect(bars.map((b) => b.target)).toEqual(["host", "box", "vm", "host", "win"]);
  expect(bars[0]!.parts.map((p) => p.what)).toEqual(["user code", "waiting"]);
  expect(bars[2]!.parts[0]!.what).toBe("emulation of user code");
});

test("what a hypervisor took is told, and no other count", () => {
  const w = { ...why("w", "vm", [part("user", "user code", 1, 1)]), counts: [{ name: "stolen_ns", base: 0, candidate: 1500 }, { name: "faults_minor", base: 1, candidate: 2 }, { name: "io_stalled_ns", base: 0.1, candidate: 0.2 }] };
  expect(taken(w)).toEqual(["for each read, 1.50 µs instead of 0 s stolen from its processors by a hypervisor."]);
});
