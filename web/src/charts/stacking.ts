export type Values = readonly (number | null)[];

/// Values stacked on one another: each becomes the sum up to itself. Negative values stack downwards,
/// as in lifecycle charts. A missing value adds nothing.
export function stack(series: readonly Values[]): number[][] {
  const length = series[0]?.length ?? 0;
  const above = new Array<number>(length).fill(0);
  const below = new Array<number>(length).fill(0);
  return series.map((values) =>
    Array.from({ length }, (_, at) => {
      const value = values[at] ?? 0;
      const sums = value < 0 ? below : above;
      sums[at] = (sums[at] ?? 0) + value;
      return sums[at] ?? 0;
    }),
  );
}

/// Splits a line where its intervals are unfinished: the first part is drawn solid, the second dashed.
/// Both have the point where they meet.
export function splitUnfinished(
  values: Values,
  unfinishedFrom: number | undefined,
): [(number | null)[], (number | null)[]] {
  if (unfinishedFrom === undefined || unfinishedFrom >= values.length) return [[...values], []];
  const solid = values.map((value, at) => (at < unfinishedFrom ? value : null));
  const dashed = values.map((value, at) => (at >= unfinishedFrom - 1 ? value : null));
  return [solid, dashed];
}

/// Which of `count` labels fit, so that they are evenly spaced and include the first.
export function labelSteps(count: number, roomFor: number): number[] {
  const step = Math.max(1, Math.ceil(count / Math.max(1, roomFor)));
  const steps: number[] = [];
  for (let at = 0; at < count; at += step) steps.push(at);
  return steps;
}

/// The range of the value axis: it begins at zero and leaves room at the top.
export function valueRange(values: Iterable<number>): [number, number] {
  let min = 0;
  let max = 0;
  for (const value of values) {
    if (value < min) min = value;
    if (value > max) max = value;
  }
  if (min === 0 && max === 0) return [0, 1];
  return [min * 1.08, max * 1.08];
}
