import { History } from "lucide-react";
import { Button, Drawer, EmptyState, RelativeTime } from "@/ui";
import { count } from "@/ui/format";
import type { RunEntry } from "./localHistory";

export interface HistoryDrawerProps {
  runs: readonly RunEntry[];
  onOpen: (run: RunEntry) => void;
  onClear: () => void;
  onClose: () => void;
}

/// Statements that were run in this browser.
export function HistoryDrawer({ runs, onOpen, onClear, onClose }: HistoryDrawerProps) {
  return (
    <Drawer
      open
      onOpenChange={(open) => !open && onClose()}
      title="History"
      footer={runs.length > 0 && <Button onClick={onClear}>Clear</Button>}
    >
      {runs.length === 0 ? (
        <EmptyState icon={<History aria-hidden />} title="Nothing yet">
          Statements that you run are kept in this browser, and nowhere else.
        </EmptyState>
      ) : (
        <ul className="flex flex-col gap-2">
          {runs.map((run) => (
            <li key={run.at}>
              <button
                type="button"
                onClick={() => onOpen(run)}
                className="w-full rounded-md border p-2.5 text-left hover:bg-hover"
              >
                <code className="line-clamp-4 font-mono text-xs whitespace-pre-wrap wrap-anywhere">
                  {run.text}
                </code>
                <span className="mt-1 block text-xs text-muted">
                  <RelativeTime at={new Date(run.at).toISOString()} />
                  {run.rows !== null && ` · ${count(run.rows, "row")} in ${Math.round(run.ms)} ms`}
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </Drawer>
  );
}
