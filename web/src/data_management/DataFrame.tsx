import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useProject } from "@/shell/useProject";
import { SECTION_LINK, SectionFrame } from "@/ui/SectionFrame";

const LINKS = [
  { to: "/project/$projectId/data-management/events", label: "Events" },
  { to: "/project/$projectId/data-management/properties", label: "Properties" },
  { to: "/project/$projectId/data-management/actions", label: "Actions" },
  { to: "/project/$projectId/data-management/annotations", label: "Annotations" },
  { to: "/project/$projectId/data-management/variables", label: "Variables" },
] as const;

export interface DataFrameProps {
  title: string;
  actions?: ReactNode;
  children: ReactNode;
}

/// The head of the lists of definitions, actions, annotations and variables.
export function DataFrame(props: DataFrameProps) {
  const { projectId } = useProject();
  const links = LINKS.map(({ to, label }) => (
    <Link
      key={to}
      to={to}
      params={{ projectId }}
      activeOptions={{ exact: true, includeSearch: false }}
      className={SECTION_LINK}
    >
      {label}
    </Link>
  ));
  return <SectionFrame heading="Definitions" label="Definitions" links={links} wide {...props} />;
}
