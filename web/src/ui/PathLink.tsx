import { useRouter } from "@tanstack/react-router";
import type { ComponentProps, MouseEvent } from "react";

/// A link to a path of this site, where its route is not known at compile time.
export function PathLink({ href, ...rest }: ComponentProps<"a"> & { href: string }) {
  const router = useRouter();
  const follow = (event: MouseEvent) => {
    // A modified click opens a tab, as with any link.
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    router.history.push(href);
  };
  return <a href={href} onClick={follow} {...rest} />;
}
