import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { call, publicApi } from "@/api/client";
import { meQuery } from "@/api/me";
import { queryClient } from "@/api/queryClient";
import { LogInForm } from "./LogInForm";
import { SessionFrame } from "./SessionFrame";

const route = getRouteApi("/login");

export function LogInPage() {
  const { next } = route.useSearch();
  const router = useRouter();
  const { data: setup } = useQuery({
    queryKey: ["setup"],
    queryFn: ({ signal }) => call(publicApi.GET("/api/setup", { signal })),
  });
  const enter = async () => {
    await queryClient.fetchQuery({ ...meQuery, staleTime: 0 });
    router.history.push(`${next ?? "/"}${router.history.location.hash}`);
  };
  return (
    <SessionFrame title="Log in">
      {setup?.needed && (
        <p className="mb-4 rounded-md bg-info-soft px-3 py-2 text-info">
          This server is not set up yet. Open the setup link that it printed when it started.
        </p>
      )}
      <LogInForm onLoggedIn={enter} />
      <p className="mt-4 text-xs text-muted">
        Forgot your password? An administrator runs{" "}
        <code className="font-mono whitespace-nowrap">hedgerow admin setup-link</code> and sends you
        the link.
      </p>
    </SessionFrame>
  );
}
