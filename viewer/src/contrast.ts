/** The domain of values and their histogram, for colour scales. */
import { type Domain, type HistogramParams, ScaleType } from '@h5web/lib';

export const SCALES = [ScaleType.Linear, ScaleType.Log, ScaleType.SymLog, ScaleType.Sqrt];
export type ColorScale = ScaleType.Linear | ScaleType.Log | ScaleType.SymLog | ScaleType.Sqrt;

const BINS = 64;

/** Return the smallest and the largest finite value that a scale can show. */
export function findDomain(values: ArrayLike<number>, scale: ColorScale): Domain {
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i];
    const isShown =
      Number.isFinite(value) &&
      (scale !== ScaleType.Log || value > 0) &&
      (scale !== ScaleType.Sqrt || value >= 0);
    if (isShown) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low > high) {
    return [0.1, 1];
  }
  return low < high ? [low, high] : [low, low + (Math.abs(low) || 1)];
}

/** Return the number of values in equal bins of a domain. */
export function countValues(values: ArrayLike<number>, [low, high]: Domain): HistogramParams {
  const counts = new Array<number>(BINS).fill(0);
  for (let i = 0; i < values.length; i += 1) {
    const position = ((values[i] - low) / (high - low)) * BINS;
    if (position >= 0 && position <= BINS) {
      counts[Math.min(Math.floor(position), BINS - 1)] += 1;
    }
  }
  const bins = Array.from({ length: BINS + 1 }, (_, i) => low + (i * (high - low)) / BINS);
  return { values: counts, bins };
}
