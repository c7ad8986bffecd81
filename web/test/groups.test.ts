import { expect, test } from "vitest";
import type { Group, Grouped } from "../src/data";
import { explaining, notConfirmed } from "../src/groups";

const group = (more: Partial<Group>): Group => ({ verdict: "MEASURED", ratio: 1.5, low: 1.4, high: 1.6, level: 0.95, margin: 0.02, share: 0.1, extra_seconds: 1, ...more }) as unknown as Group;

test("no more parts with other work are shown than explain a difference at most", () => {
  const differ = Array.from({ length: 30 }, () => group({ verdict: "WITHHELD", ratio: 0 }));
  const x = { seconds: 1, groups: [...differ, ...Array.from({ length: 12 }, () => group({})), group({ share: 0 })] } as unknown as Grouped;
  const shown = explaining(x);
  expect(shown.filter((g) => g.verdict === "WITHHELD").length).toBe(10);
  expect(shown.length).toBe(20);
});

test("a part beyond the margin is not called too near to it", () => {
  for (const verdict of ["MEASURED", "INCONCLUSIVE"] as const) expect(notConfirmed(group({ verdict }))).toBe(true);
  expect(notConfirmed(group({ low: 1.01 }))).toBe(false);
  expect(notConfirmed(group({ low: 0.5, high: 0.97 }))).toBe(true);
  expect(notConfirmed(group({ verdict: "DIFFERENT" }))).toBe(false);
  expect(notConfirmed(group({ verdict: "INCONCLUSIVE", level: 0 }))).toBe(false);
});
