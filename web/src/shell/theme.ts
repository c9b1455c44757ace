import { cookie } from "@/api/ids";
import { createStore, useStore } from "@/api/store";

export type Theme = "light" | "dark" | "system";

const COOKIE = "hedgerow_theme";
const YEAR_SECONDS = 365 * 24 * 3_600;

function stored(): Theme {
  const value = cookie(COOKIE);
  return value === "light" || value === "dark" ? value : "system";
}

const theme = createStore<Theme>(stored());

/// The cookie lets the server write the theme into the page: no flash of the other one.
export function setTheme(next: Theme): void {
  // biome-ignore lint/suspicious/noDocumentCookie: the cookie store API is missing on plain HTTP.
  document.cookie = `${COOKIE}=${next}; Path=/; Max-Age=${YEAR_SECONDS}; SameSite=Lax`;
  document.documentElement.dataset.theme = next;
  theme.set(next);
}

export function useTheme(): Theme {
  return useStore(theme);
}
