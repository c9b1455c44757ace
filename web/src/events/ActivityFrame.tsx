import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useProject } from "@/shell/useProject";
import { SECTION_LINK, SectionFrame } from "@/ui/SectionFrame";

export interface ActivityFrameProps {
  title: string;
  actions?: ReactNode;
  children: ReactNode;
}

/// The head of the screens about events: the explorer, the live tail and what was refused.
export function ActivityFrame(props: ActivityFrameProps) {
  const { projectId } = useProject();
  const links = (
    <>
      <Link
        to="/project/$projectId/activity/explore"
        params={{ projectId }}
        className={SECTION_LINK}
      >
        Explore
      </Link>
      <Link
        to="/project/$projectId/activity/live"
        params={{ projectId }}
        activeOptions={{ includeSearch: true, explicitUndefined: true }}
        search={{ tab: undefined }}
        className={SECTION_LINK}
      >
        Live
      </Link>
      <Link
        to="/project/$projectId/activity/live"
        params={{ projectId }}
        activeOptions={{ includeSearch: true }}
        search={{ tab: "refused" }}
        className={SECTION_LINK}
      >
        Refused
      </Link>
    </>
  );
  return <SectionFrame heading="Events" label="Events" links={links} wide {...props} />;
}
