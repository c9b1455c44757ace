import { call, publicApi } from "@/api/client";
import { toast } from "@/ui/Toast";

/// Ends the session. The page is loaded anew, so that nothing of it stays in memory.
export async function logOut(): Promise<void> {
  try {
    await call(publicApi.POST("/api/logout", {}));
  } catch (error) {
    toast.error(error, "Could not log out");
    return;
  }
  window.location.assign("/login");
}
