import { keepPreviousData, QueryClient } from "@tanstack/react-query";
import { backoffMs } from "./connection";
import { ApiError } from "./errors";

const ATTEMPTS_MAX = 5;

/// Reads are tried again when the server is busy. Writes never are: the first may have been stored.
/// A server that cannot be reached is waited for in `client.ts`.
export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // `navigator.onLine` says nothing about a server on the same machine or network.
        networkMode: "always",
        retry: (count, error) =>
          error instanceof ApiError && error.isTransient && count < ATTEMPTS_MAX,
        retryDelay: (attempt) => backoffMs(attempt),
        staleTime: 10_000,
        gcTime: 5 * 60_000,
        refetchOnWindowFocus: false,
        placeholderData: keepPreviousData,
      },
      mutations: { networkMode: "always", retry: false },
    },
  });
}

export const queryClient = createQueryClient();
