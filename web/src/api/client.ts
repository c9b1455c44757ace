import createClient from "openapi-fetch";
import type { Readable } from "openapi-typescript-helpers";
import { reportOffline, reportOnline, waitUntilOnline } from "./connection";
import { apiError, isAbort, OfflineError } from "./errors";
import { cookie, uuid } from "./ids";
import type { components, paths } from "./schema";
import { logInAgain } from "./session";

/** As the client returns them: it reads tuples as arrays. */
export type Schemas = {
  [Name in keyof components["schemas"]]: Readable<components["schemas"][Name]>;
};

const READ = /^(GET|HEAD)$/;
/// Queries are reads, although their body makes them POST.
const QUERY_PATH = /\/query\/?$/;
const SESSION_PATH = /^\/api\/(login|logout|setup)\/?$/;

/// Sends a request, again after the server was away (reads only) or after a new log-in.
async function send(request: Request, prompt: boolean): Promise<Response> {
  const { pathname } = new URL(request.url);
  const isRead = READ.test(request.method) || QUERY_PATH.test(pathname);
  for (;;) {
    const attempt = request.clone();
    if (!READ.test(request.method)) {
      // Read again for each attempt: a new log-in changes it.
      attempt.headers.set("X-CSRFToken", cookie("hedgerow_csrf") ?? "");
    }
    let response: Response;
    try {
      response = await fetch(attempt);
    } catch (error) {
      if (isAbort(error)) throw error;
      reportOffline();
      if (!isRead) throw new OfflineError();
      await waitUntilOnline(request.signal);
      continue;
    }
    reportOnline();
    if (response.status !== 401 || !prompt || SESSION_PATH.test(pathname)) return response;
    if (!(await logInAgain())) return response;
  }
}

const options = { baseUrl: window.location.origin, credentials: "same-origin" } as const;

/// The typed client of every screen. Without a session it opens the log-in dialog and goes on after.
export const api = createClient<paths, "application/json">({
  ...options,
  fetch: (request) => send(request, true),
});

/// The client of pages that work without a session: 401 is an answer like any other.
export const publicApi = createClient<paths, "application/json">({
  ...options,
  fetch: (request) => send(request, false),
});

/// The body of a success; throws `ApiError` or `OfflineError` otherwise.
export async function call<T>(
  answer: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<T> {
  const { data, error, response } = await answer;
  if (!response.ok) throw apiError(response, error);
  return data as T;
}

export type Query = Schemas["Query"];

export interface QueryOptions {
  signal?: AbortSignal;
  refresh?: "blocking" | "force_blocking" | "force_cache";
  filtersOverride?: Schemas["FilterOverrides"];
}

/// Runs a query. An aborted signal also cancels it on the server, by its client query id.
export async function runQuery(projectId: string, query: Query, options: QueryOptions = {}) {
  const id = uuid();
  const { signal, refresh = "blocking", filtersOverride } = options;
  const cancel = () => {
    void api
      .DELETE("/api/projects/{project_id}/query/{id}", {
        params: { path: { project_id: projectId, id } },
      })
      .catch(() => {});
  };
  signal?.addEventListener("abort", cancel, { once: true });
  try {
    const answer = await call(
      api.POST("/api/projects/{project_id}/query", {
        params: { path: { project_id: projectId } },
        body: { query, client_query_id: id, refresh, filters_override: filtersOverride },
        signal,
      }),
    );
    // Only an asynchronous query answers with its status.
    return answer as Schemas["QueryResponse"];
  } finally {
    signal?.removeEventListener("abort", cancel);
  }
}
