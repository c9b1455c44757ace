import { useEffect, useRef, useState } from "react";
import { useDebounced } from "./useDebounced";

const REST_MS = 200;

/// The text of a search box, and the term that the URL takes once typing rests.
export function useSearchText(
  current: string | undefined,
  commit: (term: string | undefined) => void,
): [string, (text: string) => void] {
  const [text, setText] = useState(current ?? "");
  const term = useDebounced(text.trim(), REST_MS);
  const latest = useRef(commit);
  latest.current = commit;
  const committed = useRef(current ?? "");
  useEffect(() => {
    if (term === committed.current) return;
    committed.current = term;
    latest.current(term || undefined);
  }, [term]);
  return [text, setText];
}
