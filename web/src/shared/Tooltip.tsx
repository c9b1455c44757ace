import { cloneElement, type ReactElement, type ReactNode } from "react";

/// In the place of `@/ui/Tooltip`, whose library is a tenth of a shared page: the browser's own.
export function Tooltip({
  label,
  children,
}: {
  label: ReactNode;
  children: ReactElement<Record<string, unknown>>;
}) {
  return typeof label === "string" ? cloneElement(children, { title: label }) : children;
}
