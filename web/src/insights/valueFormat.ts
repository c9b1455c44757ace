import type { Schemas } from "@/api/client";
import { compact, duration, exact } from "@/ui/format";

/// How a trend writes its values: PostHog's unit options.
export type ValueUnit = Pick<
  Schemas["TrendsFilter"],
  | "aggregationAxisFormat"
  | "aggregationAxisPrefix"
  | "aggregationAxisPostfix"
  | "decimalPlaces"
  | "minDecimalPlaces"
>;

export interface ValueFormat {
  /// In tooltips, tables and large numbers.
  exact: (value: number) => string;
  /// On axes.
  short: (value: number) => string;
}

export const PLAIN: ValueFormat = { exact, short: compact };

/// Percent as the API gives it, from 0 to 100.
export const PERCENT = withUnit(PLAIN, "", "%");

/// Decimal places of a value, of which `Intl` takes no more.
const DECIMALS_MAX = 20;

function withUnit(format: ValueFormat, prefix: string, postfix: string): ValueFormat {
  const write = (own: (value: number) => string) => (value: number) =>
    // The sign stands before the unit: −$5.
    `${value < 0 ? "−" : ""}${prefix}${own(Math.abs(value))}${postfix}`;
  return { exact: write(format.exact), short: write(format.short) };
}

function places(count: number | null | undefined): number | undefined {
  return count === null || count === undefined
    ? undefined
    : Math.min(DECIMALS_MAX, Math.max(0, Math.round(count)));
}

export function valueFormat(unit: ValueUnit | null | undefined): ValueFormat {
  if (!unit) return PLAIN;
  const most = places(unit.decimalPlaces);
  const least = places(unit.minDecimalPlaces);
  const numbers = new Intl.NumberFormat(undefined, {
    minimumFractionDigits: Math.min(least ?? 0, most ?? least ?? 0),
    maximumFractionDigits: most ?? Math.max(2, least ?? 0),
  });
  const number = (value: number) => numbers.format(value);
  const own = ((): ValueFormat => {
    switch (unit.aggregationAxisFormat) {
      case "duration":
        return { exact: duration, short: duration };
      case "duration_ms": {
        const text = (value: number) => duration(value / 1_000);
        return { exact: text, short: text };
      }
      case "percentage":
        return withUnit({ exact: number, short: compact }, "", "%");
      case "percentage_scaled": {
        const text = (value: number) => `${number(value * 100)}%`;
        return { exact: text, short: text };
      }
      case "currency":
        return withUnit({ exact: number, short: compact }, "$", "");
      case "short":
        return { exact: compact, short: compact };
      default:
        return { exact: number, short: compact };
    }
  })();
  const { aggregationAxisPrefix: prefix, aggregationAxisPostfix: postfix } = unit;
  return prefix || postfix ? withUnit(own, prefix ?? "", postfix ?? "") : own;
}
