/// Drafts in the URL's fragment, which reaches no log: `#q=` and JSON.

/// A fragment may be long, but not without end: browsers and chat programs cut links.
const FRAGMENT_CHARS_MAX = 32_768;

/// As `encodeURIComponent`, but what a fragment may hold stays readable.
function encodeFragment(text: string): string {
  return encodeURIComponent(text).replace(/%(3A|2C|40|2F|3F|24|3B)/g, (code) =>
    decodeURIComponent(code),
  );
}

export function encodeJson(value: unknown): string {
  return `q=${encodeFragment(JSON.stringify(value))}`;
}

/// What `read` makes of the fragment's JSON; null where it has none that it takes.
export function decodeJson<T>(fragment: string, read: (value: unknown) => T | null): T | null {
  const text = fragment.replace(/^#/, "");
  if (!text.startsWith("q=") || text.length > FRAGMENT_CHARS_MAX) return null;
  const value = text.slice(2);
  for (const candidate of [value, decoded(value)]) {
    try {
      const found = read(JSON.parse(candidate));
      if (found) return found;
    } catch {
      // Not JSON: not a draft.
    }
  }
  return null;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function sameJson(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

/// JSON with sorted keys, without empty ones: two drafts that mean the same are equal.
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    const entries = Object.entries(inner).filter(
      ([, item]) => item !== undefined && item !== null && !isEmptyObject(item),
    );
    return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

function isEmptyObject(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.keys(value).length === 0
  );
}
