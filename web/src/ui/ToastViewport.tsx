import { Toast as Base } from "@base-ui/react/toast";
import { CircleCheck, Info, TriangleAlert, X } from "lucide-react";
import { useEffect } from "react";

export interface ShownToast {
  type: "success" | "error" | "info";
  title: string;
  description?: string;
  button?: { label: string; onClick: () => void };
}

const manager = Base.createToastManager();
const SHORT_MS = 5_000;
/// Long enough to read an error or to take something back.
const LONG_MS = 10_000;

let mounted: () => void = () => {};
const whenMounted = new Promise<void>((resolve) => {
  mounted = resolve;
});

export async function show({ type, title, description, button }: ShownToast): Promise<void> {
  await whenMounted;
  const id = manager.add({
    type,
    title,
    description,
    timeout: type === "error" || button ? LONG_MS : SHORT_MS,
    priority: type === "error" ? "high" : "low",
    actionProps: button && {
      children: button.label,
      onClick: () => {
        manager.close(id);
        button.onClick();
      },
    },
  });
}

const ICON = {
  success: <CircleCheck className="size-4 text-accent-text" aria-hidden />,
  error: <TriangleAlert className="size-4 text-danger" aria-hidden />,
  info: <Info className="size-4 text-info" aria-hidden />,
};

function Toasts() {
  const { toasts } = Base.useToastManager();
  return toasts.map((item) => (
    <Base.Root
      key={item.id}
      toast={item}
      // Base UI hides errors, which it announces apart, although they take the focus.
      aria-hidden={false}
      className="popup data-[type=error]:border-danger/60"
      swipeDirection={["right", "down"]}
    >
      <Base.Content className="flex items-start gap-2.5 p-3">
        <span className="mt-0.5">{ICON[item.type as keyof typeof ICON] ?? ICON.info}</span>
        <div className="min-w-0 flex-1">
          <Base.Title className="font-medium" />
          <Base.Description className="text-muted wrap-break-word" />
        </div>
        <Base.Action className="-my-1 h-7 shrink-0 rounded-md px-2 font-medium text-accent-text hover:bg-hover" />
        <Base.Close
          aria-label="Dismiss"
          // Base UI hides it while toasts are stacked; these lie one below the other.
          aria-hidden={false}
          className="-my-0.5 grid size-6 shrink-0 place-items-center rounded text-muted hover:bg-hover"
        >
          <X className="size-4" aria-hidden />
        </Base.Close>
      </Base.Content>
    </Base.Root>
  ));
}

export function ToastViewport() {
  useEffect(() => mounted(), []);
  return (
    <Base.Provider toastManager={manager} limit={4}>
      <Base.Portal>
        <Base.Viewport className="fixed right-4 bottom-16 z-60 flex w-[calc(100vw-2rem)] flex-col gap-2 sm:bottom-4 sm:w-88">
          <Toasts />
        </Base.Viewport>
      </Base.Portal>
    </Base.Provider>
  );
}
