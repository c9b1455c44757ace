import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { groupTypeName, groupTypesQuery } from "@/filters/definitions";
import { useProject } from "@/shell/useProject";
import { cx } from "@/ui";
import { SECTION_LINK, SectionFrame } from "@/ui/SectionFrame";

const ACTIVE = { exact: true, includeSearch: false };

export interface PeopleFrameProps {
  title: string;
  actions?: ReactNode;
  children: ReactNode;
}

/// The head of the lists of persons and of each type of group.
export function PeopleFrame(props: PeopleFrameProps) {
  const { projectId } = useProject();
  const types = useQuery(groupTypesQuery(projectId));
  const groups = (types.data ?? []).map((type) => ({
    index: String(type.group_type_index),
    label: groupTypeName(type, true),
  }));
  if (!types.isError && groups.length === 0) groups.push({ index: "0", label: "Groups" });
  const links = (
    <>
      <Link
        to="/project/$projectId/persons"
        params={{ projectId }}
        activeOptions={ACTIVE}
        className={SECTION_LINK}
      >
        Persons
      </Link>
      {groups.map(({ index, label }) => (
        <Link
          key={index}
          to="/project/$projectId/groups/$index"
          params={{ projectId, index }}
          activeOptions={ACTIVE}
          className={cx(SECTION_LINK, "capitalize")}
        >
          {label}
        </Link>
      ))}
    </>
  );
  return <SectionFrame label="Persons and groups" links={links} {...props} />;
}
