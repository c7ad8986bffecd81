/** Figures as people read them. The same rules as the terminal report's, so that the two never seem to disagree. */

/** A ratio with three significant digits, two decimals around one: 0.62, 1.00, 9.81, 14.2, 242. */
export function ratio(v: number): string {
  if (!(v > 0) || !Number.isFinite(v)) return "?";
  if (v < 0.0005 || v >= 1e7) return v.toExponential(2);
  if (v < 0.0995) return String(Number(v.toPrecision(3)));
  if (v < 9.995) return v.toFixed(2);
  if (v < 99.95) return v.toFixed(1);
  return v.toFixed(0);
}

export const interval = (low: number, high: number): string => (low > 0 && high >= low ? `[${ratio(low)}, ${ratio(high)}]` : "");

/** A share: 0.003 is "0.3 %". */
export function percent(v: number): string {
  const p = v * 100;
  if (!Number.isFinite(p)) return "?";
  if (Math.abs(p) >= 99.5) return `${p.toFixed(0)} %`;
  return `${String(Number(p.toPrecision(Math.abs(p) >= 9.95 ? 3 : 2)))} %`;
}

/** A signed share, for a deviation. */
export const deviation = (v: number): string => (v > 0 ? "+" : v < 0 ? "−" : "±") + percent(Math.abs(v));

/** Seconds as people say them: 6 min 40 s, 2 h 5 min, 4.2 s. */
export function duration(s: number): string {
  if (!(s >= 0) || s > 1e9) return "?";
  if (s < 9.95) return `${s.toFixed(1)} s`;
  const n = Math.round(s);
  const two = (a: number, unit: string, b: number, small: string) => (b ? `${a} ${unit} ${b} ${small}` : `${a} ${unit}`);
  if (n < 60) return `${n} s`;
  if (n < 3600) return two(Math.floor(n / 60), "min", n % 60, "s");
  return two(Math.floor(n / 3600), "h", Math.floor(n / 60) % 60, "min");
}

export const plural = (n: number, noun: string): string => `${number(n)} ${noun}${n === 1 ? "" : "s"}`;

export function list(words: string[]): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
}

/** A name as the beginning of a sentence. */
export const capital = (text: string): string => (text === "cpu" ? "CPU" : text.charAt(0).toUpperCase() + text.slice(1));

/** Three significant digits, whole numbers from 1,000 on with a thousands separator. */
export function number(v: number): string {
  if (!Number.isFinite(v)) return "?";
  const abs = Math.abs(v);
  if (v === 0) return "0";
  if (abs >= 1e12 || abs < 1e-6) return v.toExponential(2);
  if (abs >= 999.5) return v.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
  if (Number.isInteger(v)) return String(v);
  const rounded = Number(v.toPrecision(3));
  return rounded.toFixed(Math.max(0, 2 - Math.floor(Math.log10(Math.abs(rounded)))));
}

type Scale = [factor: number, name: string][];
const times: Scale = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const binary: Scale = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const decimal: Scale = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
const prefixes: Scale = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const inBase: Record<string, [number, Scale]> = {
  s: [1, times], ms: [1e-3, times], us: [1e-6, times], "µs": [1e-6, times], ns: [1e-9, times],
  B: [1, binary], KiB: [2 ** 10, binary], MiB: [2 ** 20, binary], GiB: [2 ** 30, binary], TiB: [2 ** 40, binary],
  kB: [1e3, decimal], KB: [1e3, decimal], MB: [1e6, decimal], GB: [1e9, decimal], TB: [1e12, decimal],
};
const short: Record<string, string> = { events: "ev", event: "ev", ops: "", operations: "", operation: "", requests: "req" };

/** A value in the unit that suits its size: 2,041 ev/s, 1.94 M/s, 410 MiB/s, 62.3 ns. */
export function quantity(value: number, unit: string): string {
  if (!Number.isFinite(value)) return "?";
  const per = unit.endsWith("/s") ? "/s" : "";
  const name = per ? unit.slice(0, -2) : unit;
  const known = Object.hasOwn(inBase, name) ? inBase[name] : undefined;
  if (known && !(per && known[1] === times)) {
    const v = value * known[0];
    const size = Math.abs(Number(v.toPrecision(3)));
    const step = known[1].find(([f]) => size >= f) ?? (v === 0 ? known[1].find(([f]) => f === 1)! : known[1][known[1].length - 1]!);
    return `${number(v / step[0])} ${step[1]}${per}`;
  }
  let v = value;
  let prefix = "";
  if (Math.abs(v) >= 9999.5) {
    const step = prefixes.find(([f]) => Math.abs(Number(v.toPrecision(3))) >= f)!;
    v /= step[0];
    prefix = step[1];
  }
  const word = Object.hasOwn(short, name) ? short[name] : name;
  const end = word ? `${prefix} ${word}`.trim() + per : prefix + per;
  return end ? `${number(v)} ${end}` : number(v);
}

/** A size such as "4KiB", "64M" or "512" in bytes; NaN when it is none. Bare letters count in powers of 1,024, as iozone's do. */
export function bytes(text: string): number {
  const m = /^(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)(B?)$/.exec(text.trim());
  if (!m) return NaN;
  const power = m[2] ? "KMGT".indexOf(m[2].toUpperCase()) + 1 : 0;
  const base = m[2] && !m[3] && m[4] ? 1000 : 1024;
  return Number(m[1]) * base ** power;
}

/** Bytes in the largest unit that they fill: unlike a measured quantity, a size is exact and 1,024 B are 1 KiB. */
export function size(n: number): string {
  const step = binary.find(([f]) => n >= f) ?? [1, "B"];
  return `${number(n / step[0])} ${step[1]}`;
}

/** The unit that suits the largest of several figures, and what one of it is in the figures' own. */
export function commonUnit(most: number, unit: string): { name: string; factor: number } {
  const [digits = "", ...name] = quantity(most, unit).split(" ");
  const shown = Number(digits.replace(/,/g, ""));
  return shown > 0 ? { name: name.join(" "), factor: nice(most / shown) } : { name: unit, factor: 1 };
}

// The quotient carries the rounding of the shown figure; unit factors are whole powers of 10 or 1,024.
function nice(v: number): number {
  const near = (base: number) => base ** Math.round(Math.log(v) / Math.log(base));
  const [ten, kibi] = [near(10), near(1024)];
  return Math.abs(Math.log(v / ten)) <= Math.abs(Math.log(v / kibi)) ? ten : kibi;
}

/** logTicks at whole figures of the unit they will be shown in: 2 GiB/s, not 2,000 MiB/s. */
export function unitTicks(low: number, high: number, unit: string): number[] {
  const { factor } = commonUnit(high, unit);
  return logTicks(low / factor, high / factor).map((v) => v * factor);
}

/** Ticks of a logarithmic axis: steps of 1, 2 and 5, or only powers of ten where the axis is long. */
export function logTicks(low: number, high: number): number[] {
  const decades = Math.log10(high / low);
  const steps = decades > 4 ? [1] : decades > 0.6 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
  const out: number[] = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    for (const k of steps) {
      const v = Number((k * 10 ** e).toPrecision(3));
      if (v >= low && v <= high) out.push(v);
    }
  }
  return out;
}
