import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { api, call, publicApi } from "./client";
import { backoffMs, connection, reportOnline } from "./connection";
import { ApiError, errorMessage, fieldError, OfflineError } from "./errors";
import { cookie, uuid } from "./ids";
import { mayEdit, mayManage } from "./permissions";
import { parsePulse } from "./pulseStream";
import { finishLogIn, sessionExpired } from "./session";

const json = (status: number, body: unknown) =>
  new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", "x-request-id": "request-1" },
  });
const path = { project_id: "1" };

let send: ReturnType<typeof vi.fn<(request: Request) => Promise<Response>>>;
beforeEach(() => {
  send = vi.fn();
  vi.stubGlobal("fetch", send);
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
  reportOnline();
});

describe("the client", () => {
  it("throws the house shape with the request's id", async () => {
    send.mockResolvedValue(
      json(400, {
        type: "validation_error",
        code: "required",
        detail: "Give a name.",
        attr: "name",
      }),
    );
    const failure = await call(
      api.POST("/api/projects/{project_id}/dashboards", { params: { path }, body: { name: "" } }),
    ).catch((error) => error);
    expect(failure).toBeInstanceOf(ApiError);
    expect(failure).toMatchObject({ status: 400, attr: "name", requestId: "request-1" });
    expect(fieldError(failure, "name")).toBe("Give a name.");
    expect(fieldError(failure, "email")).toBeUndefined();
  });

  it("sends the CSRF token of the cookie with writes only", async () => {
    // biome-ignore lint/suspicious/noDocumentCookie: the client reads this cookie.
    document.cookie = "hedgerow_csrf=abc";
    send.mockImplementation(async () => json(200, {}));
    await call(publicApi.POST("/api/logout", {}));
    await call(api.GET("/api/projects", {}));
    expect(send.mock.calls.map(([request]) => request.headers.get("X-CSRFToken"))).toEqual([
      "abc",
      null,
    ]);
  });

  it("asks for a log-in after 401 and repeats the request", async () => {
    send.mockResolvedValueOnce(json(401, {})).mockResolvedValueOnce(json(200, { id: 7 }));
    const answer = call(
      api.POST("/api/projects/{project_id}/dashboards", { params: { path }, body: { name: "A" } }),
    );
    await vi.waitFor(() => expect(sessionExpired.get()).toBe(true));
    finishLogIn(true);
    await expect(answer).resolves.toEqual({ id: 7 });
    expect(await send.mock.calls[1]?.[0].json()).toEqual({ name: "A" });
  });

  it("gives up with 401 when the person does", async () => {
    send.mockImplementation(async () => json(401, {}));
    const answer = call(api.GET("/api/projects", {})).catch((error) => error);
    await vi.waitFor(() => expect(sessionExpired.get()).toBe(true));
    finishLogIn(false);
    expect(await answer).toMatchObject({ status: 401 });
  });

  it("never repeats a write that the network lost", async () => {
    send.mockRejectedValue(new TypeError("Failed to fetch"));
    const failure = call(
      api.DELETE("/api/personal_api_keys/{id}", { params: { path: { id: "1" } } }),
    );
    await expect(failure).rejects.toBeInstanceOf(OfflineError);
    expect(connection.get().online).toBe(false);
  });

  it("repeats a read when the server is back", async () => {
    vi.useFakeTimers();
    send
      .mockRejectedValueOnce(new TypeError("Failed to fetch"))
      .mockResolvedValueOnce(new Response("ok"))
      .mockResolvedValueOnce(json(200, { results: [] }));
    const answer = call(api.GET("/api/projects", {}));
    await vi.advanceTimersByTimeAsync(1_000);
    await expect(answer).resolves.toEqual({ results: [] });
    expect(connection.get().online).toBe(true);
  });
});

it("waits longer with each attempt, at most thirty seconds", () => {
  expect([0, 1, 2, 5, 20].map((attempt) => backoffMs(attempt, 1))).toEqual([
    1_000, 2_000, 4_000, 30_000, 30_000,
  ]);
  expect(backoffMs(0, 0)).toBe(500);
});

it("names the remedy of a CSRF refusal", () => {
  const refusal = new ApiError(403, "", "", "CSRF Failed: …", null, null);
  expect(errorMessage(refusal)).toContain("Host header");
});

it("makes version 4 uuids without a secure context", () => {
  expect(uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(uuid()).not.toBe(uuid());
});

it("reads a cookie by its whole name", () => {
  expect(cookie("b", "ab=1; b=2=3")).toBe("2=3");
  expect(cookie("c", "ab=1")).toBeNull();
});

it("decides rights by what the API says of the object", () => {
  expect(mayEdit({ user_access_level: "viewer" }).allowed).toBe(false);
  expect(mayEdit({ user_access_level: "editor" }).allowed).toBe(true);
  expect(mayEdit({ user_access_level: "manager", effective_privilege_level: 21 }).allowed).toBe(
    false,
  );
  expect(mayManage({ user_access_level: "editor" }).reason).not.toBe("");
});

it("reads a line of the pulse, and nothing else", () => {
  expect(parsePulse('{"position":3,"events":{"a":2},"flags_changed":true}')).toEqual({
    position: 3,
    events: { a: 2 },
    more: false,
    flags_changed: true,
  });
  expect(parsePulse('{"events":{}}')).toBeNull();
  expect(parsePulse("no json")).toBeNull();
});
