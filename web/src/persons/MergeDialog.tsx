import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, call } from "@/api/client";
import { valueText } from "@/events/columns";
import { propertyLabel } from "@/filters/operators";
import { Button, Dialog, ErrorPanel, SkeletonRows, toast } from "@/ui";
import { count, exact } from "@/ui/format";
import { PersonPicker } from "./PersonPicker";
import { type Person, type PersonItem, personChanged } from "./personApi";

/// It names the event that made the person, so it differs always and says nothing.
const CREATOR = "$creator_event_uuid";

export interface MergeDialogProps {
  projectId: string;
  person: Person;
  onClose: () => void;
}

/// Shows the person that a merge makes before it does it.
export function MergeDialog({ projectId, person, onClose }: MergeDialogProps) {
  const [other, setOther] = useState<PersonItem | null>(null);
  const distinctId = other?.distinct_ids[0];
  const path = { project_id: projectId, id: person.uuid };
  const preview = useQuery({
    queryKey: ["person_merge", projectId, person.uuid, distinctId],
    enabled: distinctId !== undefined,
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/persons/{id}/merge_preview", {
          params: { path, query: { distinct_id: distinctId } },
          signal,
        }),
      ),
  });
  const conflicts = preview.data?.conflicts.filter(({ key }) => key !== CREATOR) ?? [];
  const merge = useMutation({
    mutationFn: () =>
      call(
        api.POST("/api/projects/{project_id}/persons/{id}/merge", {
          params: { path },
          body: { distinct_id: distinctId ?? "" },
        }),
      ),
    onSuccess: async () => {
      toast.success(`Merged ${other?.name} into ${person.name}`);
      onClose();
      await personChanged(projectId);
    },
  });
  const found = preview.data;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      size="lg"
      title={`Merge another person into ${person.name}`}
      description="For somebody who appears twice. This cannot be undone, but ids can be split off again."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="primary"
            busy={merge.isPending}
            disabled={!found}
            onClick={() => merge.mutate()}
          >
            Merge
          </Button>
        </>
      }
    >
      <div className="flex flex-col items-start gap-1">
        <span aria-hidden className="text-[0.8125rem] font-medium">
          The other person
        </span>
        <PersonPicker
          projectId={projectId}
          label="The other person"
          className="w-full max-w-md"
          except={[person.uuid]}
          chosen={other}
          onChange={setOther}
        />
      </div>
      {distinctId !== undefined && preview.isPending && <SkeletonRows rows={3} />}
      {preview.isError && (
        <ErrorPanel
          error={preview.error}
          title="These two cannot be merged"
          className="py-4"
          onRetry={() => preview.refetch()}
        />
      )}
      {found && (
        <section aria-label="After the merge" className="mt-4 flex flex-col gap-3">
          <p>
            <strong className="font-medium">{found.person.name}</strong> then has{" "}
            {count(found.distinct_ids, "distinct id")} and{" "}
            {count(Object.keys(found.properties).length, "property", "properties")}, and all events
            of both. <strong className="font-medium">{found.other.name}</strong> is no person of its
            own any more.
          </p>
          {conflicts.length > 0 ? (
            <table className="w-full text-left">
              <caption className="mb-1 text-left text-muted">
                {count(conflicts.length, "property differs", "properties differ")}:
              </caption>
              <thead className="text-xs text-muted max-sm:sr-only">
                <tr className="border-b">
                  <th scope="col" className="py-1 pr-3 font-medium">
                    Property
                  </th>
                  <th scope="col" className="py-1 pr-3 font-medium">
                    Kept
                  </th>
                  <th scope="col" className="py-1 font-medium">
                    Dropped
                  </th>
                </tr>
              </thead>
              <tbody>
                {conflicts.map(({ key, kept, dropped }) => (
                  <tr key={key} className="border-b last:border-b-0 max-sm:block max-sm:py-1.5">
                    <th
                      scope="row"
                      className="py-1 pr-3 font-normal text-muted wrap-anywhere max-sm:block max-sm:py-0"
                    >
                      {propertyLabel(key)}
                    </th>
                    <td className="py-1 pr-3 wrap-anywhere max-sm:block max-sm:py-0">
                      <span className="text-muted sm:hidden">Kept: </span>
                      {valueText(kept)}
                    </td>
                    <td className="py-1 text-muted wrap-anywhere max-sm:block max-sm:py-0">
                      <span className="sm:hidden">Dropped: </span>
                      <span className="line-through">{valueText(dropped)}</span>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          ) : (
            <p className="text-muted">No property of the two differs: nothing is lost.</p>
          )}
          <p className="text-xs text-muted">
            Of the other’s {exact(Object.keys(found.other.properties).length)} properties, those
            that {found.person.name} lacks are added.
          </p>
        </section>
      )}
      {merge.isError && (
        <ErrorPanel error={merge.error} title="Could not merge them" className="py-3" />
      )}
    </Dialog>
  );
}
