import { type RefObject, useEffect, useState } from "react";

/// A tile begins to load a little before it is scrolled into view.
const MARGIN = "200px";

/// Whether an element is in view now, and whether it ever was.
export function useSeen(element: RefObject<Element | null>): { visible: boolean; seen: boolean } {
  const [state, setState] = useState({ visible: false, seen: false });
  useEffect(() => {
    if (!element.current) return;
    const observer = new IntersectionObserver(
      ([entry]) => {
        const visible = entry?.isIntersecting ?? false;
        setState((before) => ({ visible, seen: before.seen || visible }));
      },
      { rootMargin: MARGIN },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [element]);
  return state;
}
