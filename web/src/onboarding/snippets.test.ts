import { describe, expect, it } from "vitest";
import { SDKS } from "./sdks";
import { snippets } from "./snippets";

describe("snippets", () => {
  it("have host and key filled in, whichever SDK", () => {
    const connection = { host: "https://h.example.com:8000", key: "phc_abc" };
    for (const sdk of SDKS) {
      const code = snippets(sdk, connection)
        .map((snippet) => snippet.code)
        .join("\n");
      expect(code, sdk).toContain(connection.host);
      expect(code, sdk).toContain(connection.key);
      expect(code, sdk).toContain("signed up");
    }
  });
});
