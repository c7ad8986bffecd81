/**
 * The little statistics that the page does itself, when the reader picks another baseline. Verdicts stay with the program:
 * an interval made here is shown as such.
 */

export function median(v: number[]): number {
  return quantile(v, 0.5);
}

/** Linear between the order statistics, as R's type 7. NaN for no values. */
export function quantile(v: number[], p: number): number {
  if (v.length === 0) return NaN;
  const sorted = [...v].sort((a, b) => a - b);
  const at = (sorted.length - 1) * p;
  const i = Math.floor(at);
  const low = sorted[i]!;
  return low + (at - i) * ((sorted[i + 1] ?? low) - low);
}

/** The Hodges-Lehmann centre: the median of all averages of two, each value with itself included. */
export function hodgesLehmann(v: number[]): number {
  const walsh: number[] = [];
  for (let i = 0; i < v.length; i++) for (let j = i; j < v.length; j++) walsh.push((v[i]! + v[j]!) / 2);
  return median(walsh);
}

/** Student's t interval of the mean at level 1 - alpha; undefined below three values. */
export function tInterval(v: number[], alpha: number): [low: number, high: number] | undefined {
  const n = v.length;
  if (n < 3) return undefined;
  const mean = v.reduce((a, b) => a + b, 0) / n;
  const variance = v.reduce((a, b) => a + (b - mean) ** 2, 0) / (n - 1);
  const half = tQuantile(1 - alpha / 2, n - 1) * Math.sqrt(variance / n);
  return [mean - half, mean + half];
}

/** The quantile of Student's t for p in (0.5, 1), by bisection of its distribution. */
export function tQuantile(p: number, df: number): number {
  let low = 0;
  let high = 1;
  while (tCDF(high, df) < p && high < 1e9) high *= 2;
  for (let i = 0; i < 80; i++) {
    const mid = (low + high) / 2;
    if (tCDF(mid, df) < p) low = mid;
    else high = mid;
  }
  return (low + high) / 2;
}

/** P(T <= t) for t >= 0: one minus half the regularised incomplete beta function at df/(df+t²). */
function tCDF(t: number, df: number): number {
  return 1 - incompleteBeta(df / (df + t * t), df / 2, 0.5) / 2;
}

/** The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8; Lentz's method). */
function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  // The fraction converges fast only below this point; above it the function's symmetry helps.
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(a * Math.log(x) + b * Math.log(1 - x) - logBeta(a, b)) / a;
  const tiny = 1e-300;
  let c = 1;
  let d = 1 / Math.max(Math.abs(1 - ((a + b) * x) / (a + 1)), tiny);
  let f = d;
  for (let m = 1; m < 300; m++) {
    let step = 1;
    for (const k of [
      (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)),
      (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1)),
    ]) {
      d = 1 / (1 + k * d || tiny);
      c = 1 + k / c || tiny;
      step = c * d;
      f *= step;
    }
    if (Math.abs(step - 1) < 1e-14) break;
  }
  return front * f;
}

const logBeta = (a: number, b: number): number => logGamma(a) + logGamma(b) - logGamma(a + b);

/** Lanczos' approximation with g = 7, good to 15 digits for x > 0.5. */
function logGamma(x: number): number {
  const p = [0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
  if (x < 0.5) return Math.log(Math.PI / Math.abs(Math.sin(Math.PI * x))) - logGamma(1 - x);
  let sum = p[0]!;
  for (let i = 1; i < p.length; i++) sum += p[i]! / (x - 1 + i);
  const t = x + 6.5;
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}
