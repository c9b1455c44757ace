import { useEffect } from "react";
import { subscribePulse } from "@/api/live";
import { queryClient } from "@/api/queryClient";

/// Reads flags again when somebody changed one.
export function useFlagChanges(projectId: string): void {
  useEffect(
    () =>
      subscribePulse(projectId, ({ flags_changed: changed }) => {
        if (!changed) return;
        void queryClient.invalidateQueries({ queryKey: ["feature_flags", projectId] });
        void queryClient.invalidateQueries({ queryKey: ["feature_flag", projectId] });
      }),
    [projectId],
  );
}
