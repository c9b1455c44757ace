import { Tabs as Base } from "@base-ui/react/tabs";
import type { ReactNode } from "react";
import { cx } from "./cx";

export interface TabItem<T extends string> {
  value: T;
  label: ReactNode;
  panel?: ReactNode;
}

export interface TabsProps<T extends string> {
  label: string;
  value: T;
  onChange: (value: T) => void;
  items: readonly TabItem<T>[];
  className?: string;
  /// Controls beside the tabs.
  actions?: ReactNode;
}

export function Tabs<T extends string>({
  label,
  value,
  onChange,
  items,
  className,
  actions,
}: TabsProps<T>) {
  return (
    <Base.Root
      value={value}
      onValueChange={(next) => onChange(next as T)}
      className={cx("flex min-h-0 flex-col", className)}
    >
      <div className="flex items-center justify-between gap-2 border-b">
        <Base.List aria-label={label} className="scroll-thin relative flex gap-4 overflow-x-auto">
          {items.map((item) => (
            <Base.Tab
              key={item.value}
              value={item.value}
              className="-mb-px flex h-9 items-center gap-1.5 border-b-2 border-transparent font-medium whitespace-nowrap text-muted -outline-offset-2 hover:text-text data-active:border-accent data-active:text-text"
            >
              {item.label}
            </Base.Tab>
          ))}
        </Base.List>
        {actions}
      </div>
      {items.map((item) =>
        item.panel === undefined ? null : (
          <Base.Panel key={item.value} value={item.value} className="min-h-0 flex-1 pt-3">
            {item.panel}
          </Base.Panel>
        ),
      )}
    </Base.Root>
  );
}
