import { expect, it } from "vitest";
import { bannerOf } from "./IngestionBanner";

it("tells everybody that events are late, and staff what comes", () => {
  const calm = { status: "ok", lag_seconds: 0, detail: null, problems: null } as const;
  expect(bannerOf(calm)).toBeNull();
  expect(bannerOf({ ...calm, status: "delayed", detail: "Late." })).toEqual({
    text: "Late.",
    critical: false,
  });
  expect(bannerOf({ ...calm, status: "stopped", detail: "Refused." })).toEqual({
    text: "Refused.",
    critical: true,
  });
  const problem = (
    code: "dead_letters" | "disk_low" | "lag",
    severity: "warning" | "critical",
  ) => ({
    code,
    severity,
    detail: `${code} ${severity}`,
  });
  expect(bannerOf({ ...calm, problems: [problem("dead_letters", "warning")] })).toBeNull();
  expect(
    bannerOf({ ...calm, problems: [problem("lag", "warning"), problem("disk_low", "critical")] }),
  ).toEqual({ text: "disk_low critical", critical: true });
});
