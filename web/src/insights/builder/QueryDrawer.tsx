import type { ReactNode } from "react";
import { Drawer } from "@/ui";

/// The query on narrow screens, below the chart that it changes.
export function QueryDrawer({ children, onClose }: { children: ReactNode; onClose: () => void }) {
  return (
    <Drawer open onOpenChange={(open) => !open && onClose()} title="Query" side="bottom">
      <div className="-mx-4">{children}</div>
    </Drawer>
  );
}
