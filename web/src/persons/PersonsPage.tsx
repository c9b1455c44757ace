import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Download, Trash2, Users } from "lucide-react";
import { Suspense, useMemo, useState } from "react";
import { api, call } from "@/api/client";
import { lazy } from "@/api/lazy";
import { loadedRows } from "@/api/paging";
import { valueText } from "@/events/columns";
import { cohortsQuery } from "@/filters/definitions";
import { propertyLabel } from "@/filters/operators";
import { asGroup, type FilterGroup, type Filters, filterKey, isGroup } from "@/filters/types";
import { useProject } from "@/shell/useProject";
import { useSearchText } from "@/shell/useSearchText";
import { Badge, Button, buttonClass, Chip, EmptyState, RelativeTime, Skeleton, toast } from "@/ui";
import { exact } from "@/ui/format";
import { ListPanel, useChoice } from "@/ui/ListPanel";
import type { Column } from "@/ui/Table";
import { CSV_ROWS_MAX, downloadPersons } from "./csv";
import { PeopleFrame } from "./PeopleFrame";
import { type PersonItem, personParameters, personsQuery, ROWS_MAX } from "./personApi";
import type { PersonsSearch } from "./search";

// The filters come after the rows: the pickers are a third of the page's bytes.
const FilterEditor = lazy(() =>
  import("@/filters/FilterEditor").then((m) => ({ default: m.FilterEditor })),
);

const DeleteDialog = lazy(() =>
  import("./DeleteDialog").then((m) => ({ default: m.DeleteDialog })),
);

const route = getRouteApi("/project/$projectId/persons");
const SOURCES = ["person", "cohort"] as const;
const COLUMNS_MAX = 5;
/// Persons that the API deletes in one request.
const CHOSEN_MAX = 1_000;

/// The properties that a filter names: they become columns.
function filteredProperties(filters: Filters | undefined): string[] {
  const names = (group: FilterGroup): string[] =>
    group.values.flatMap((value) =>
      isGroup(value) ? names(value) : value.type === "person" ? [filterKey(value)] : [],
    );
  return [...new Set(names(asGroup(filters)))].slice(0, COLUMNS_MAX);
}

function personKey(person: PersonItem): string {
  return person.uuid;
}

export function PersonsPage() {
  const { projectId } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/persons" });
  const filter = route.useSearch();
  const { search, properties, cohort } = filter;
  const set = (patch: Partial<PersonsSearch>) =>
    navigate({ search: (before: PersonsSearch) => ({ ...before, ...patch }), replace: true });
  const [text, setText] = useSearchText(search, (term) => set({ search: term }));
  const query = useInfiniteQuery(personsQuery(projectId, filter));
  const persons = loadedRows(query.data);
  const choice = useChoice(persons, personKey, CHOSEN_MAX);
  const [deleting, setDeleting] = useState(false);
  const total = query.data?.pages[0]?.count;
  const cohorts = useQuery({ ...cohortsQuery(projectId), enabled: cohort !== undefined });
  const cohortName =
    cohorts.data?.results.find(({ id }) => String(id) === cohort)?.name ?? `Cohort ${cohort}`;

  const [exporting, setExporting] = useState(false);
  const save = async () => {
    setExporting(true);
    try {
      await downloadPersons("Persons", (offset, limit) =>
        call(
          api.GET("/api/projects/{project_id}/persons", {
            params: {
              path: { project_id: projectId },
              query: { ...personParameters(filter), offset, limit },
            },
          }),
        ),
      );
    } catch (error) {
      toast.error(error, "Could not download the persons");
    } finally {
      setExporting(false);
    }
  };

  const shownProperties = useMemo(() => filteredProperties(properties), [properties]);
  const columns = useMemo(
    (): Column<PersonItem>[] => [
      {
        id: "name",
        header: "Person",
        cell: (person) => (
          <span className="flex items-center gap-2">
            <Link
              to="/project/$projectId/persons/$id"
              params={{ projectId, id: person.uuid }}
              className="block max-w-44 truncate font-medium hover:underline sm:max-w-80"
            >
              {person.name}
            </Link>
            {person.is_identified && <Badge tone="accent">Identified</Badge>}
          </span>
        ),
      },
      ...shownProperties.map(
        (name): Column<PersonItem> => ({
          id: `property ${name}`,
          header: propertyLabel(name),
          cell: ({ properties: values }) => (
            <span className="block max-w-60 truncate">{valueText(values[name])}</span>
          ),
        }),
      ),
      {
        id: "ids",
        header: "Distinct ids",
        className: "text-muted",
        cell: ({ distinct_ids: ids }) => (
          <span className="flex gap-1.5">
            <code className="block max-w-56 truncate font-mono text-xs leading-5">{ids[0]}</code>
            {ids.length > 1 && (
              <span className="text-xs leading-5 whitespace-nowrap">
                and {exact(ids.length - 1)} more
              </span>
            )}
          </span>
        ),
      },
      {
        id: "created",
        header: "First seen",
        className: "text-muted whitespace-nowrap",
        cell: (person) => <RelativeTime at={person.created_at} />,
      },
    ],
    [projectId, shownProperties],
  );

  const notes = [
    ...(persons.length >= ROWS_MAX ? ["Narrow the filters, or download the CSV."] : []),
    ...(total && total > CSV_ROWS_MAX ? [`The CSV has the first ${exact(CSV_ROWS_MAX)}.`] : []),
  ];
  return (
    <PeopleFrame
      title="Persons"
      actions={
        <Button busy={exporting} icon={<Download aria-hidden />} onClick={() => void save()}>
          CSV
        </Button>
      }
    >
      <ListPanel
        label="Persons"
        nouns={["person", "persons"]}
        className="max-h-[max(20rem,calc(100dvh-16rem))]"
        query={query}
        rows={persons}
        columns={columns}
        rowKey={personKey}
        choice={choice}
        rowName={(person) => person.name}
        bulkActions={
          <Button size="sm" icon={<Trash2 aria-hidden />} onClick={() => setDeleting(true)}>
            Delete
          </Button>
        }
        search={{ text, onChange: setText, placeholder: "E-mail, name or distinct id" }}
        filtered={Boolean(search || properties || cohort)}
        filters={
          <>
            {cohort && (
              <Chip
                className="min-h-8"
                removeLabel={`Remove cohort ${cohortName}`}
                onRemove={() => void set({ cohort: undefined })}
              >
                <span className="text-muted">Cohort</span> {cohortName}
              </Chip>
            )}
            <Suspense fallback={<Skeleton className="h-8 w-24" />}>
              <FilterEditor
                className={properties ? "w-full" : "min-h-8 justify-center"}
                value={properties}
                sources={SOURCES}
                onChange={(next) => void set({ properties: next })}
              />
            </Suspense>
          </>
        }
        empty={
          <EmptyState
            icon={<Users aria-hidden />}
            title="No persons yet"
            action={
              <Link
                to="/project/$projectId/onboarding"
                params={{ projectId }}
                className={buttonClass("primary")}
              >
                Connect an app
              </Link>
            }
          >
            Everybody who sends an event appears here, with what is known about them: once an app
            calls identify, by name or e-mail address.
          </EmptyState>
        }
        total={total}
        note={notes.join(" ")}
        onOpen={(person) =>
          navigate({
            to: "/project/$projectId/persons/$id",
            params: { projectId, id: person.uuid },
            search: {},
          })
        }
      />
      <Suspense>
        {deleting && (
          <DeleteDialog
            projectId={projectId}
            persons={choice.rows}
            onClose={() => setDeleting(false)}
            onDeleted={() => {
              setDeleting(false);
              choice.choose([]);
            }}
          />
        )}
      </Suspense>
    </PeopleFrame>
  );
}
