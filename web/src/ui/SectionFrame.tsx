import { type ReactNode, useEffect, useRef } from "react";
import { Page, PageHeader } from "./PageHeader";

/// A link of a section's head, as a tab.
export const SECTION_LINK =
  "-mb-px flex h-9 items-center border-b-2 border-transparent font-medium whitespace-nowrap text-muted -outline-offset-2 hover:text-text aria-[current=page]:border-accent aria-[current=page]:text-text";

/// For links that are wider than a phone: scrolls the current one into view.
export function useCurrentLink(title: string) {
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    const current = nav.current?.querySelector("[aria-current=page]");
    if (title) current?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [title]);
  return nav;
}

export interface SectionFrameProps {
  /// Names the browser's tab, and the section where that has no heading.
  title: string;
  heading?: string;
  /// The name of the links' navigation.
  label: string;
  links: ReactNode;
  actions?: ReactNode;
  wide?: boolean;
  children: ReactNode;
}

/// Several screens that belong together: one heading, and links between them.
export function SectionFrame({
  title,
  heading = title,
  label,
  links,
  actions,
  wide,
  children,
}: SectionFrameProps) {
  const nav = useCurrentLink(title);
  return (
    <Page wide={wide}>
      <PageHeader
        title={title}
        heading={<h1 className="flex min-h-8 items-center text-xl font-semibold">{heading}</h1>}
        actions={actions}
      />
      <nav
        ref={nav}
        aria-label={label}
        className="scroll-thin mb-3 flex gap-4 overflow-x-auto overflow-y-hidden border-b"
      >
        {links}
      </nav>
      {children}
    </Page>
  );
}
