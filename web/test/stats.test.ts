import { describe, expect, it } from "vitest";
import { hodgesLehmann, median, quantile, tInterval, tQuantile } from "../src/stats";

describe("stats", () => {
  // R: qt(c(.975, .991), c(1, 2, 9, 29))
  it.each([[0.975, 1, 12.7062047], [0.975, 2, 4.30265273], [0.975, 9, 2.26215716], [0.975, 29, 2.0452296], [0.995, 14, 2.97684273], [0.975, 1e6, 1.95996636]])(
    "quantile of t at %f with %i degrees of freedom", (p, df, want) => expect(tQuantile(p, df)).toBeCloseTo(want, 5));
  it("is symmetric about the mean", () => {
    const [low, high] = tInterval([1, 2, 3, 4, 5], 0.05)!;
    // R: t.test(1:5)$conf.int
    expect(low).toBeCloseTo(1.036757, 5);
    expect(high).toBeCloseTo(4.963243, 5);
  });
  it("has no interval for two values", () => expect(tInterval([1, 2], 0.05)).toBeUndefined());
  it("takes the median of averages of two", () => {
    expect(hodgesLehmann([1, 2, 10])).toBe(3.75); // averages 1 1.5 2 5.5 6 10
    expect(hodgesLehmann([0, 0, 0, 100])).toBe(0);
  });
  it("interpolates", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(quantile([0, 10], 0.25)).toBe(2.5);
    expect(median([])).toBeNaN();
  });
});
