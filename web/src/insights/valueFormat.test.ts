import { describe, expect, test } from "vitest";
import { PERCENT, PLAIN, valueFormat } from "./valueFormat";

describe("the unit of values", () => {
  test("without options, numbers are exact in tables and short on axes", () => {
    expect(valueFormat(undefined)).toBe(PLAIN);
    expect(PLAIN.exact(1_234_567.891)).toBe("1,234,567.89");
    expect(PLAIN.short(1_234_567)).toBe("1.2M");
    expect(PERCENT.exact(12.5)).toBe("12.5%");
  });

  test("prefix, postfix and decimal places", () => {
    const dollars = valueFormat({ aggregationAxisPrefix: "$", minDecimalPlaces: 2 });
    expect(dollars.exact(23_972.5)).toBe("$23,972.50");
    expect(dollars.exact(-5)).toBe("−$5.00");
    expect(dollars.short(23_972.5)).toBe("$24K");
    const share = valueFormat({ aggregationAxisPostfix: " %", decimalPlaces: 1 });
    expect(share.exact(14.943)).toBe("14.9 %");
    expect(valueFormat({ decimalPlaces: 400 }).exact(0.5)).toBe("0.5");
  });

  test("the formats of PostHog", () => {
    const text = (aggregationAxisFormat: "duration" | "duration_ms" | "percentage_scaled") =>
      valueFormat({ aggregationAxisFormat }).exact;
    expect(text("duration")(125)).toBe("2 min 5 s");
    expect(text("duration_ms")(1_500)).toBe("2 s");
    expect(text("percentage_scaled")(0.125)).toBe("12.5%");
    expect(valueFormat({ aggregationAxisFormat: "percentage" }).exact(12.5)).toBe("12.5%");
    expect(valueFormat({ aggregationAxisFormat: "currency" }).exact(12)).toBe("$12");
    expect(valueFormat({ aggregationAxisFormat: "short" }).exact(1_200)).toBe("1.2K");
  });
});
