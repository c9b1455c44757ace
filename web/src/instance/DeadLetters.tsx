import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { CircleCheck, RotateCw } from "lucide-react";
import { api, call, type Schemas } from "@/api/client";
import { useProject } from "@/shell/useProject";
import { Badge, Button, Card, ErrorPanel, RelativeTime, SkeletonRows, toast } from "@/ui";
import { exact } from "@/ui/format";
import { type Column, Table } from "@/ui/Table";

type Letter = Schemas["DeadLetter"];

const PAGE_ROWS = 50;

/// Records of this project that could not be applied, to try again.
export function DeadLetters({ waiting }: { waiting: number }) {
  const { projectId, project } = useProject();
  const client = useQueryClient();
  const queryKey = ["dead_letters", projectId];
  const query = useInfiniteQuery({
    queryKey,
    initialPageParam: 0,
    queryFn: ({ pageParam, signal }) =>
      call(
        api.GET("/api/projects/{project_id}/dead_letters", {
          params: {
            path: { project_id: projectId },
            query: { limit: PAGE_ROWS, offset: pageParam },
          },
          signal,
        }),
      ),
    getNextPageParam: (page, pages) => (page.next ? pages.length * PAGE_ROWS : null),
  });
  const replay = useMutation({
    mutationFn: ({ id }: Letter) =>
      call(
        api.POST("/api/projects/{project_id}/dead_letters/{id}/replay", {
          params: { path: { project_id: projectId, id } },
        }),
      ),
    onSuccess: () => {
      toast.success("The record is in the journal again");
      void client.invalidateQueries({ queryKey });
    },
    onError: (error) => toast.error(error, "Could not replay it"),
  });
  const rows = query.data?.pages.flatMap(({ results }) => results) ?? [];
  const here = rows.filter(({ replayed_at }) => !replayed_at).length;
  const columns: Column<Letter>[] = [
    {
      id: "event",
      header: "Event",
      cell: ({ event, distinct_id }) => (
        <span className="flex min-w-32 flex-col py-1.5">
          <span className="font-medium">{event ?? "A change of a person or group"}</span>
          {distinct_id && (
            <span className="max-w-56 truncate text-xs text-muted">{distinct_id}</span>
          )}
        </span>
      ),
    },
    {
      id: "reason",
      header: "Why it failed",
      cell: ({ step, reason }) => (
        <span className="line-clamp-3 max-w-96 min-w-48">
          <Badge>{step}</Badge> {reason}
        </span>
      ),
    },
    { id: "at", header: "When", cell: ({ timestamp }) => <RelativeTime at={timestamp} /> },
    {
      id: "replay",
      header: <span className="sr-only">Replay</span>,
      align: "right",
      cell: (letter) =>
        letter.replayed_at ? (
          <span className="text-muted">
            Replayed <RelativeTime at={letter.replayed_at} />
          </span>
        ) : (
          <Button
            size="sm"
            icon={<RotateCw aria-hidden />}
            busy={replay.isPending && replay.variables?.id === letter.id}
            onClick={() => replay.mutate(letter)}
          >
            Replay
          </Button>
        ),
    },
  ];
  return (
    <Card
      flush
      title="Dead letters"
      description={`Records of ${project.name} that could not be applied. ${
        waiting === 0
          ? "None waits in any project."
          : `${exact(waiting)} wait in all projects${waiting > here ? "; open the other projects to replay theirs" : ""}.`
      }`}
    >
      {query.isPending ? (
        <SkeletonRows rows={2} label="Loading dead letters" />
      ) : query.isError ? (
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
      ) : rows.length === 0 ? (
        <p className="flex items-center gap-2 px-4 pb-4 text-muted">
          <CircleCheck className="size-4 shrink-0 text-accent-text" aria-hidden />
          No dead letters. A record that keeps failing is set aside here, and the rest goes on.
        </p>
      ) : (
        <Table
          label="Dead letters"
          rows={rows}
          columns={columns}
          rowKey={({ id }) => id}
          footer={
            query.hasNextPage && (
              <div className="border-t p-2 text-center">
                <Button busy={query.isFetchingNextPage} onClick={() => query.fetchNextPage()}>
                  Show more
                </Button>
              </div>
            )
          }
        />
      )}
    </Card>
  );
}
