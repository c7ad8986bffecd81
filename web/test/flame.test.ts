import { expect, test } from "vitest";
import type { Flame, Frame } from "../src/data";
import { boxes, tone } from "../src/flame";

const frame = (depth: number, name: string, ns: number, base_ns: number): Frame => ({ depth, name, ns, base_ns });
const graph: Flame = {
  workload: "w", target: "box", baseline: "host", unit: "path", made: "", rounds: 5, inside: true, baseline_inside: true,
  frames: [frame(0, "all", 10, 8), frame(1, "a", 6, 4), frame(2, "b", 2, 4), frame(2, "c", 3, 0), frame(1, "d", 4, 4), frame(2, "e", 1, 4)],
};

test("what a function calls stands on it, side by side", () => {
  expect(boxes(graph, "ns").map((b) => [b.frame.name, b.from])).toEqual([["all", 0], ["a", 0], ["b", 0], ["c", 2], ["d", 6], ["e", 6]]);
  expect(boxes(graph, "base_ns").map((b) => [b.frame.name, b.from])).toEqual([["all", 0], ["a", 0], ["b", 0], ["c", 4], ["d", 4], ["e", 4]]);
  expect(boxes(graph, "ns").map((b) => b.path.join(" "))).toEqual(["", "all", "all a", "all a", "all", "all d"]);
});

test("more is red, less is blue, and the fuller the more", () => {
  expect([tone(1), tone(0.25), tone(-1), tone(9)]).toEqual(["#f5825f", "#f5b29b", "#6eb4f0", "#f5825f"]);
});
