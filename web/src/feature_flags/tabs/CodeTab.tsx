import { useState } from "react";
import { CodeBlock } from "@/insights/CodeBlock";
import { useProject } from "@/shell/useProject";
import { Card, Select } from "@/ui";
import { CODE_LABELS, CODE_SDKS, type CodeSdk, flagSnippets } from "../model/codeSnippets";
import type { FlagDraft } from "../model/draft";

/// How code asks for the flag, with this host and this project's key.
export function CodeTab({ flag }: { flag: FlagDraft }) {
  const { projectId, project } = useProject();
  const [sdk, setSdk] = useState<CodeSdk>("web");
  const snippets = flagSnippets(sdk, {
    host: window.location.origin,
    projectKey: project.api_token,
    projectId,
    flag,
  });
  return (
    <Card
      title="Ask for it in code"
      actions={
        <Select
          label="Language"
          size="sm"
          value={sdk}
          onChange={setSdk}
          options={CODE_SDKS.map((value) => ({ value, label: CODE_LABELS[value] }))}
        />
      }
    >
      <div className="flex flex-col gap-4">
        {snippets.map(({ title, code }) => (
          <section key={title} aria-label={title}>
            <h3 className="mb-1.5 text-[0.8125rem] font-medium">{title}</h3>
            <CodeBlock label={`${CODE_LABELS[sdk]}: ${title}`} code={code} />
          </section>
        ))}
        {flag.evaluation_runtime === "server" && (sdk === "web" || sdk === "react") && (
          <p className="text-warn">
            This flag is evaluated on servers only: browsers never get it.
          </p>
        )}
        {flag.evaluation_runtime === "client" && (sdk === "node" || sdk === "python") && (
          <p className="text-warn">This flag is evaluated in clients only: servers never get it.</p>
        )}
      </div>
    </Card>
  );
}
