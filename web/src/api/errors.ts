/// An answer of the API that is no success, in the house shape.
export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    readonly status: number,
    readonly type: string,
    readonly code: string,
    readonly detail: string,
    /// The field of the request body that is wrong, as a dotted path.
    readonly attr: string | null,
    readonly requestId: string | null,
  ) {
    super(detail);
  }

  get isNotFound(): boolean {
    return this.status === 404;
  }

  get isForbidden(): boolean {
    return this.status === 403;
  }

  get isConflict(): boolean {
    return this.status === 409;
  }

  /// Whether the server may answer the same request later.
  get isTransient(): boolean {
    return this.status === 429 || this.status >= 502;
  }
}

/// The server could not be reached. A write that fails so may or may not have been stored.
export class OfflineError extends Error {
  override readonly name = "OfflineError";

  constructor() {
    super("The server does not answer. Check your connection and try again.");
  }
}

/// Whether the answer is that there is nothing, or nothing for this person: the same for them.
export function isHidden(error: unknown): boolean {
  return error instanceof ApiError && (error.isNotFound || error.isForbidden);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/// The message of the field `attr`, if the error is about it.
export function fieldError(error: unknown, attr: string): string | undefined {
  return error instanceof ApiError && error.attr === attr ? error.detail : undefined;
}

/// A sentence for people, of anything that was thrown.
export function errorMessage(error: unknown): string {
  if (error instanceof ApiError) {
    return error.detail.startsWith("CSRF Failed")
      ? `${error.detail} If a proxy is in front of Hedgerow, it must pass the Host header.`
      : error.detail;
  }
  return error instanceof Error ? error.message : "Something went wrong.";
}

function text(body: unknown, key: string): string | null {
  if (typeof body !== "object" || body === null) return null;
  const value = (body as Record<string, unknown>)[key];
  return typeof value === "string" ? value : null;
}

export function apiError(response: Response, body: unknown): ApiError {
  return new ApiError(
    response.status,
    text(body, "type") ?? "server_error",
    text(body, "code") ?? "error",
    text(body, "detail") ?? `The server answered with status ${response.status}.`,
    text(body, "attr"),
    response.headers.get("x-request-id"),
  );
}
