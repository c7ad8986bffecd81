import { describe, expect, it } from "vitest";
import { bytes, commonUnit, duration, interval, logTicks, number, percent, quantity, ratio, size } from "../src/format";

// The same figures as TestRatioText and TestSmallTexts of internal/show/report: the forms must agree.
describe("format", () => {
  it.each([[1, "1.00"], [1.009, "1.01"], [9.81, "9.81"], [9.996, "10.0"], [14.23, "14.2"], [99.96, "100"], [242.4, "242"], [0.62, "0.62"], [0.0512, "0.0512"], [0.05, "0.05"],
    [0, "?"], [-1, "?"], [Infinity, "?"]])("ratio %f", (v, want) => expect(ratio(v)).toBe(want));
  it.each([[0.003, "0.3 %"], [0.02, "2 %"], [0.123, "12.3 %"], [2, "200 %"], [0.95, "95 %"]])("percent %f", (v, want) => expect(percent(v)).toBe(want));
  it.each([[400, "6 min 40 s"], [4.24, "4.2 s"], [60, "1 min"], [7500, "2 h 5 min"], [-1, "?"], [NaN, "?"]])("duration %f", (v, want) => expect(duration(v)).toBe(want));
  it.each([[2041, "events/s", "2,041 ev/s"], [1.94e6, "ops/s", "1.94 M/s"], [410, "MiB/s", "410 MiB/s"], [62.3, "ns", "62.3 ns"], [0.00123, "s", "1.23 ms"], [2100, "us", "2.10 ms"],
    [0, "s", "0 s"], [5e9, "B", "4.66 GiB"], [12, "constructor", "12 constructor"], [NaN, "s", "?"]])("quantity %f %s", (v, unit, want) => expect(quantity(v, unit)).toBe(want));
  it.each([["4KiB", 4096], ["64M", 64 << 20], ["512", 512], ["1kB", 1000], ["1.5MiB", 1572864], ["", NaN], ["x", NaN], ["4KiBx", NaN]])("bytes of %s", (text, want) => expect(bytes(text)).toBe(want));
  it("gives sizes their exact unit", () => expect([512, 1024, 65536, 1 << 20].map(size)).toEqual(["512 B", "1 KiB", "64 KiB", "1 MiB"]));
  it("groups thousands", () => expect([999, 1000, 1234567].map(number)).toEqual(["999", "1,000", "1,234,567"]));
  it("has no interval without its ends", () => expect([interval(0, 0), interval(2, 1), interval(7.9, 9)]).toEqual(["", "", "[7.90, 9.00]"]));
  it("finds one unit for many figures", () => {
    expect(commonUnit(1.8e6, "KiB/s")).toEqual({ name: "GiB/s", factor: 1024 ** 2 });
    expect(commonUnit(1.94e6, "ops/s")).toEqual({ name: "M/s", factor: 1e6 });
  });
  it("ticks by 1, 2 and 5", () => expect(logTicks(0.9, 12)).toEqual([1, 2, 5, 10]));
});
