import { expect, test } from "vitest";
import type { Cell } from "../src/data";
import { learnWords, signOf, signs, unconfirmed, word } from "../src/verdict";
import { words } from "./words";

learnWords(words);

const cell = (verdict: string, code?: string): Cell => ({
  verdict, blocks: 20, ratio: 1.1, low: 1.08, high: 1.12,
  warnings: code ? [{ code, text: "the interval lies beyond the margin, but among 224 cells that is not sure enough: q is 0.2" }] : [],
}) as unknown as Cell;

test("a cell beyond the margin is not called too near to it", () => {
  for (const v of ["MEASURED", "INCONCLUSIVE"]) expect(word(cell(v, "not-confirmed"))).toBe("beyond the margin, but not significant among 224 cells");
  expect(word(cell("MEASURED"))).toContain("too near the margin");
  expect(word(cell("INCONCLUSIVE", "drift"))).toBe("not decided yet");
  expect(unconfirmed({ ...cell("INCONCLUSIVE", "not-confirmed"), recomputed: true })).toBeUndefined();
});

test("a cell whose sides flush differently is not called measured too near the margin", () => {
  expect(signs[signOf(cell("MEASURED", "flushes-differ"))].glyph).toBe("≠");
  expect(word(cell("MEASURED", "flushes-differ"))).toContain("flush differently");
  expect(signOf(cell("WITHHELD", "flushes-differ"))).toBe("withheld");
});
