import type { Schemas } from "@/api/client";
import { Button, Dialog, RelativeTime } from "@/ui";
import { SecretText } from "./SecretText";

export interface SetupLink extends Pick<Schemas["SetupLinkItem"], "path" | "expires_at"> {
  /// Whose link it is.
  name: string;
}

/// A link with which somebody sets their password. The API answers it once.
export function SetupLinkDialog({ link, onClose }: { link: SetupLink; onClose: () => void }) {
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Setup link of ${link.name}`}
      description="Send it to them: whoever opens it sets the password of the account."
      footer={
        <Button variant="primary" onClick={onClose}>
          I have copied it
        </Button>
      }
    >
      <SecretText label="link" value={`${window.location.origin}${link.path}`} />
      <p className="mt-3 text-muted">
        It works once and ends <RelativeTime at={link.expires_at} />. It is shown only now; earlier
        links of theirs have ended.
      </p>
    </Dialog>
  );
}
