import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, call } from "@/api/client";
import { meQuery, type Project, projectQuery } from "@/api/me";
import { mayAdminister } from "@/api/permissions";
import { useProject } from "@/shell/useProject";
import { Button, Card, Confirm, toast } from "@/ui";
import { SecretText } from "./SecretText";

type KeyChange = "reset" | "rotate" | "forget";

/// The key that SDKs send, and the secret one of servers that evaluate flags themselves.
export function ProjectKeys() {
  const { projectId, project } = useProject();
  const client = useQueryClient();
  const [asking, setAsking] = useState<KeyChange | null>(null);
  const { allowed, reason } = mayAdminister(project);
  const params = { params: { path: { project_id: projectId } } };
  const change = useMutation({
    mutationFn: (question: KeyChange): Promise<Project> => {
      switch (question) {
        case "reset":
          return call(api.PATCH("/api/projects/{project_id}/reset_token", params));
        case "rotate":
          return call(api.PATCH("/api/projects/{project_id}/rotate_secret_token", params));
        case "forget":
          return call(api.PATCH("/api/projects/{project_id}/delete_secret_token_backup", params));
      }
    },
    onSuccess: (changed) => {
      client.setQueryData(projectQuery(projectId).queryKey, changed);
      void client.invalidateQueries({ queryKey: meQuery.queryKey });
      setAsking(null);
      toast.success("The key is changed");
    },
    onError: (error) => toast.error(error, "Could not change the key"),
  });
  const { secret_api_token: secret, secret_api_token_backup: backup } = project;
  const disabledReason = allowed ? undefined : reason;
  return (
    <Card
      title="Project keys"
      description="Personal API keys, for programs that read and change, are under your account."
    >
      <div className="flex flex-col gap-4">
        <div className="flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
          <div className="min-w-0">
            <h3 className="font-medium">Project API key</h3>
            <div className="mt-1">
              <p className="mb-1 text-xs text-muted">
                SDKs send it with events. It is public: everybody who opens your app can read it.
              </p>
              <SecretText label="project API key" value={project.api_token} />
            </div>
          </div>
          <Button disabledReason={disabledReason} onClick={() => setAsking("reset")}>
            Replace
          </Button>
        </div>
        <div className="flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
          <div className="min-w-0">
            <h3 className="font-medium">Secret key</h3>
            <div className="mt-1">
              <p className="mb-1 text-xs text-muted">
                Servers load flag definitions and encrypted payloads with it. Keep it out of apps.
              </p>
              {secret ? (
                <SecretText label="secret key" value={secret} secret />
              ) : (
                <span className="text-muted">{allowed ? "None yet." : reason}</span>
              )}
            </div>
          </div>
          <Button disabledReason={disabledReason} onClick={() => setAsking("rotate")}>
            {secret ? "Rotate" : "Create"}
          </Button>
        </div>
        {backup && (
          <div className="flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
            <div className="min-w-0">
              <h3 className="font-medium">Former secret key</h3>
              <div className="mt-1">
                <p className="mb-1 text-xs text-muted">
                  It works on, until all servers have the new one.
                </p>
                <SecretText label="former secret key" value={backup} secret />
              </div>
            </div>
            <Button disabledReason={disabledReason} onClick={() => setAsking("forget")}>
              End it
            </Button>
          </div>
        )}
      </div>
      <Confirm
        open={asking === "reset"}
        onOpenChange={(open) => !open && setAsking(null)}
        title="Replace the project API key?"
        action="Replace key"
        danger
        busy={change.isPending}
        onConfirm={() => change.mutate("reset")}
      >
        Events and flag requests with the present key are refused at once. Change it in all apps.
      </Confirm>
      <Confirm
        open={asking === "rotate"}
        onOpenChange={(open) => !open && setAsking(null)}
        title={secret ? "Rotate the secret key?" : "Create a secret key?"}
        action={secret ? "Rotate key" : "Create key"}
        busy={change.isPending}
        onConfirm={() => change.mutate("rotate")}
      >
        {secret
          ? "A new key is made. The present one works on until you end it; one before it ends now."
          : "Servers then load flag definitions with it."}
      </Confirm>
      <Confirm
        open={asking === "forget"}
        onOpenChange={(open) => !open && setAsking(null)}
        title="End the former secret key?"
        action="End key"
        danger
        busy={change.isPending}
        onConfirm={() => change.mutate("forget")}
      >
        Servers that still use it are refused at once.
      </Confirm>
    </Card>
  );
}
