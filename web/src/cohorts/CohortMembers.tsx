import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Download, Plus, Upload, Users, X } from "lucide-react";
import { Suspense, useMemo, useState } from "react";
import { api, call } from "@/api/client";
import { lazy } from "@/api/lazy";
import { downloadPersons } from "@/persons/csv";
import { PersonPicker } from "@/persons/PersonPicker";
import type { PersonItem } from "@/persons/personApi";
import { useDebounced } from "@/shell/useDebounced";
import {
  Badge,
  Button,
  EmptyState,
  ErrorPanel,
  IconButton,
  RelativeTime,
  SearchInput,
  SkeletonRows,
  toast,
} from "@/ui";
import { type Column, Table } from "@/ui/Table";
import { addToCohort, type Cohort, cohortName, isPending, removeFromCohort } from "./cohortApi";

const UploadDialog = lazy(() =>
  import("./UploadDialog").then((m) => ({ default: m.UploadDialog })),
);

const PAGE_ROWS = 100;
/// More rows than these are for the CSV.
const ROWS_MAX = 10_000;

export interface CohortMembersProps {
  projectId: string;
  cohort: Cohort;
}

/// The persons of a cohort; those of a static one are added and removed here.
export function CohortMembers({ projectId, cohort }: CohortMembersProps) {
  const { id, is_static: isStatic, version } = cohort;
  const [text, setText] = useState("");
  const [uploading, setUploading] = useState(false);
  const [exporting, setExporting] = useState(false);
  const search = useDebounced(text.trim(), 200);
  const page = (limit: number, offset: number, signal?: AbortSignal) =>
    call(
      api.GET("/api/projects/{project_id}/cohorts/{id}/persons", {
        params: {
          path: { project_id: projectId, id },
          query: { search: search || undefined, limit, offset },
        },
        signal,
      }),
    );
  const query = useInfiniteQuery({
    queryKey: ["cohort_members", projectId, id, { search, version }],
    initialPageParam: 0,
    queryFn: ({ signal, pageParam }) => page(PAGE_ROWS, pageParam, signal),
    getNextPageParam: (last, pages) =>
      last.next && pages.length * PAGE_ROWS < ROWS_MAX ? pages.length * PAGE_ROWS : undefined,
  });
  const persons = useMemo(() => query.data?.pages.flatMap((one) => one.results) ?? [], [query]);
  const change = useMutation({
    mutationFn: async ({ person, add }: { person: PersonItem; add: boolean }) => {
      if (add) await addToCohort(projectId, id, [person.uuid]);
      else await removeFromCohort(projectId, id, person.uuid);
    },
    onSuccess: (_, { person, add }) =>
      toast.success(add ? `Added ${person.name}` : `Removed ${person.name}`, {
        undo: () => change.mutate({ person, add: !add }),
      }),
    onError: (error) => toast.error(error, "Could not change the cohort"),
  });
  const save = async () => {
    setExporting(true);
    try {
      await downloadPersons(cohortName(cohort), (offset, limit) => page(limit, offset));
    } catch (error) {
      toast.error(error, "Could not download the persons");
    } finally {
      setExporting(false);
    }
  };
  const columns: Column<PersonItem>[] = [
    {
      id: "name",
      header: "Person",
      cell: (person) => (
        <span className="flex items-center gap-2">
          <Link
            to="/project/$projectId/persons/$id"
            params={{ projectId, id: person.uuid }}
            className="block max-w-48 truncate font-medium hover:underline sm:max-w-80"
          >
            {person.name}
          </Link>
          {person.is_identified && <Badge tone="accent">Identified</Badge>}
        </span>
      ),
    },
    {
      id: "ids",
      header: "Distinct id",
      className: "text-muted",
      cell: ({ distinct_ids: ids }) => (
        <code className="block max-w-60 truncate font-mono text-xs">{ids[0]}</code>
      ),
    },
    {
      id: "created",
      header: "First seen",
      className: "text-muted whitespace-nowrap",
      cell: (person) => <RelativeTime at={person.created_at} />,
    },
    ...(isStatic
      ? [
          {
            id: "actions",
            header: <span className="sr-only">Actions</span>,
            align: "right" as const,
            width: 52,
            cell: (person: PersonItem) => (
              <IconButton
                size="sm"
                label={`Remove ${person.name}`}
                onClick={() => change.mutate({ person, add: false })}
              >
                <X aria-hidden />
              </IconButton>
            ),
          },
        ]
      : []),
  ];
  const buttons = isStatic && (
    <>
      <PersonPicker
        projectId={projectId}
        label="Person"
        onChange={(person) => change.mutate({ person, add: true })}
        trigger={
          <Button icon={<Plus aria-hidden />} busy={change.isPending} aria-label="Add person">
            Add person
          </Button>
        }
      />
      <Button icon={<Upload aria-hidden />} onClick={() => setUploading(true)}>
        Upload a list
      </Button>
    </>
  );
  return (
    <>
      <div className="flex flex-wrap items-center gap-2 border-b px-4 py-2">
        <SearchInput
          label="Search persons"
          className="w-full max-w-xs"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <div className="ml-auto flex flex-wrap gap-2">
          {buttons}
          <Button busy={exporting} icon={<Download aria-hidden />} onClick={() => void save()}>
            CSV
          </Button>
        </div>
      </div>
      {query.isPending ? (
        <SkeletonRows rows={10} label="Loading persons" />
      ) : query.isError && persons.length === 0 ? (
        <ErrorPanel
          title="Could not load the persons"
          error={query.error}
          onRetry={() => query.refetch()}
        />
      ) : persons.length === 0 ? (
        <EmptyState
          icon={<Users aria-hidden />}
          title={
            search
              ? "No person matches"
              : isPending(cohort)
                ? "Being calculated"
                : "Nobody is in it"
          }
        >
          {search
            ? "Search for another part of a property."
            : isPending(cohort)
              ? "The persons appear in a moment."
              : isStatic
                ? "Add persons one by one, or upload a list."
                : "Nobody matches the conditions now."}
        </EmptyState>
      ) : (
        <Table
          label="Persons"
          className="max-h-[max(20rem,calc(100dvh-22rem))]"
          rows={persons}
          columns={columns}
          rowKey={(person) => person.uuid}
          stale={query.isPlaceholderData}
          onEnd={() => {
            if (query.hasNextPage && !query.isFetching) void query.fetchNextPage();
          }}
        />
      )}
      {query.hasNextPage && (
        <div className="border-t p-2 text-center">
          <Button size="sm" busy={query.isFetchingNextPage} onClick={() => query.fetchNextPage()}>
            Show more
          </Button>
        </div>
      )}
      <Suspense>
        {uploading && (
          <UploadDialog projectId={projectId} cohort={cohort} onClose={() => setUploading(false)} />
        )}
      </Suspense>
    </>
  );
}
