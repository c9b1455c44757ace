import { describe, expect, it, vi } from "vitest";
import { ApiError } from "./errors";
import { ConflictError, conflict, type Resolution, writeVersion } from "./versions";

interface Stored {
  version: number;
  name: string;
}

/// A server that stores one object, and what a person answers to its conflicts.
function setUp(version: number, answers: Resolution[]) {
  let stored: Stored = { version: 3, name: "theirs" };
  const onTheirs = vi.fn();
  const asked: unknown[] = [];
  const stop = conflict.subscribe(() => {
    const question = conflict.get();
    if (!question) return;
    asked.push([question.noun, question.author]);
    queueMicrotask(() => question.resolve(answers.shift() ?? "later"));
  });
  const written = writeVersion<Stored>({
    noun: "insight",
    version,
    send: async (edited) => {
      if (edited !== stored.version) {
        throw new ApiError(409, "server_error", "conflict", "changed", null, null);
      }
      stored = { version: stored.version + 1, name: "mine" };
      return stored;
    },
    load: async () => stored,
    lastChange: async () => ({ author: "Ada", at: null }),
    onTheirs,
  }).finally(stop);
  return { written, asked, onTheirs, stored: () => stored };
}

describe("writeVersion", () => {
  it("asks nothing while nobody else changes the object", async () => {
    const { written, asked } = setUp(3, []);
    expect(await written).toEqual({ version: 4, name: "mine" });
    expect(asked).toEqual([]);
  });

  it("saves over another version if the person says so", async () => {
    const { written, asked } = setUp(2, ["mine"]);
    expect(await written).toEqual({ version: 4, name: "mine" });
    expect(asked).toEqual([["insight", "Ada"]]);
  });

  it.each(["theirs", "later"] as const)("writes nothing after %s", async (answer) => {
    const { written, onTheirs, stored } = setUp(2, [answer]);
    await expect(written).rejects.toEqual(new ConflictError(answer));
    expect(stored().name).toBe("theirs");
    expect(onTheirs).toHaveBeenCalledTimes(answer === "theirs" ? 1 : 0);
  });

  it("passes other errors on", async () => {
    const failing = writeVersion<Stored>({
      noun: "insight",
      version: 1,
      send: async () => {
        throw new ApiError(403, "authentication_error", "permission_denied", "no", null, null);
      },
      load: async () => ({ version: 1, name: "" }),
      lastChange: async () => ({ author: null, at: null }),
      onTheirs: () => {},
    });
    await expect(failing).rejects.toMatchObject({ status: 403 });
  });
});
