import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { Button, type ButtonSize, IconButton } from "./Button";
import { toast } from "./Toast";

/// Copies, also on plain HTTP, where browsers have no clipboard API.
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  const active = document.activeElement;
  // Inside the open dialog: it would take the focus back from anywhere else.
  (active?.closest("[role=dialog]") ?? document.body).append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (active instanceof HTMLElement) active.focus();
  if (!copied) throw new Error("The browser did not allow copying. Select the text and copy it.");
}

export interface CopyButtonProps {
  text: string | (() => string);
  label?: string;
  size?: ButtonSize;
  /// Shows the label beside the icon.
  withLabel?: boolean;
}

export function CopyButton({ text, label = "Copy", size = "md", withLabel }: CopyButtonProps) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 2_000);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = () => {
    copyText(typeof text === "string" ? text : text()).then(
      () => setCopied(true),
      (error) => toast.error(error, "Could not copy"),
    );
  };
  const icon = copied ? <Check className="text-accent-text" aria-hidden /> : <Copy aria-hidden />;
  if (withLabel) {
    return (
      <Button size={size} icon={icon} onClick={copy}>
        {copied ? "Copied" : label}
      </Button>
    );
  }
  return (
    <IconButton size={size} label={copied ? "Copied" : label} onClick={copy}>
      {icon}
    </IconButton>
  );
}
