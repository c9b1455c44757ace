/// Shares of variants.

import type { FlagVariant } from "../flagApi";

const SUM_TOLERANCE = 0.01;

export function sumOfShares(variants: readonly FlagVariant[]): number {
  const sum = variants.reduce((total, variant) => total + (variant.rollout_percentage || 0), 0);
  return Math.round(sum * 1_000) / 1_000;
}

export function sumsTo100(variants: readonly FlagVariant[]): boolean {
  return Math.abs(sumOfShares(variants) - 100) <= SUM_TOLERANCE;
}

/// Equal shares, as whole numbers where that is possible; the first get what is left over.
export function distribute(variants: readonly FlagVariant[]): FlagVariant[] {
  const { length } = variants;
  if (length === 0) return [];
  // More than a hundred variants need fractions.
  const unit = length > 100 ? 0.01 : 1;
  const units = Math.round(100 / unit);
  const each = Math.floor(units / length);
  const rest = units - each * length;
  return variants.map((variant, at) => ({
    ...variant,
    rollout_percentage: Math.round((each + (at < rest ? 1 : 0)) * unit * 100) / 100,
  }));
}

/// A key that no variant has yet.
export function freeKey(variants: readonly FlagVariant[]): string {
  const keys = new Set(variants.map(({ key }) => key));
  for (let at = variants.length; ; at += 1) {
    const key = at === 0 ? "control" : `variant-${at}`;
    if (!keys.has(key)) return key;
  }
}
