import { useQuery } from "@tanstack/react-query";
import { meQuery } from "@/api/me";
import { queryClient } from "@/api/queryClient";
import { finishLogIn } from "@/api/session";
import { Dialog } from "@/ui";
import { LogInForm } from "./LogInForm";

/// Log-in over the page when the session has ended. What was being done goes on after it.
export function SessionDialog() {
  const { data: me } = useQuery({ ...meQuery, enabled: false });
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && finishLogIn(false)}
      title="Log in again"
      description="Your session has ended. Your edits are still here."
      size="sm"
    >
      <LogInForm
        email={me?.email}
        onLoggedIn={(email) => {
          // Somebody else: what is on the page is not for them to see, nor to save.
          if (email.toLowerCase() !== me?.email.toLowerCase()) return window.location.reload();
          finishLogIn(true);
          void queryClient.invalidateQueries({ queryKey: meQuery.queryKey });
        }}
      />
    </Dialog>
  );
}
