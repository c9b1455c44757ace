import { useMutation } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, Suspense, useState } from "react";
import { fieldError } from "@/api/errors";
import { lazy } from "@/api/lazy";
import { useFragmentDraft } from "@/shell/useFragmentDraft";
import { useKeys } from "@/shell/useGlobalKeys";
import { useProject } from "@/shell/useProject";
import { Button, Card, ErrorPanel, Page, PageHeader, SkeletonRows, Tabs } from "@/ui";
import { type Cohort, cohortName, createCohort, createList } from "./cohortApi";
import { type CohortDraft, completeConditions, filtersOf, incompleteCount } from "./conditions";
import { DRAFT_CODEC } from "./draftCodec";
import { NameCard } from "./NameCard";
import { EMPTY_INPUT, type ListInput, listOf, PersonListInput } from "./PersonListInput";
import { resolvePersons } from "./personList";

const CohortForm = lazy(() => import("./CohortForm").then((m) => ({ default: m.CohortForm })));

const EMPTY: CohortDraft = { name: "", description: "", conditions: { type: "AND", values: [] } };
const route = getRouteApi("/project/$projectId/cohorts/new");

export function NewCohortPage() {
  const { projectId } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/cohorts/new" });
  const { static: isStatic } = route.useSearch();
  const draft = useFragmentDraft(EMPTY, DRAFT_CODEC);
  const [list, setList] = useState<ListInput>(EMPTY_INPUT);
  const { name, description, conditions } = draft.value;
  const create = useMutation({
    mutationFn: async () => {
      const fields = { name: name.trim() || null, description };
      if (isStatic) {
        const persons = await resolvePersons(projectId, listOf(list));
        return createList(projectId, fields, persons);
      }
      const complete = completeConditions(conditions);
      return createCohort(projectId, {
        ...fields,
        filters: filtersOf(complete ?? conditions),
      });
    },
    onSuccess: (cohort: Cohort) =>
      navigate({
        to: "/project/$projectId/cohorts/$id",
        params: { projectId, id: String(cohort.id) },
        search: {},
        hash: "",
      }),
  });
  const open = incompleteCount(conditions);
  const reason = isStatic
    ? list.error
    : conditions.values.length === 0
      ? "Add a condition first."
      : open > 0
        ? "A condition has no value yet."
        : undefined;
  const save = () => {
    if (!reason && !create.isPending) create.mutate();
  };
  useKeys([{ key: "mod+s", run: save }]);
  const nameError = fieldError(create.error, "name");
  return (
    <Page>
      <PageHeader
        title={name ? cohortName({ id: 0, name }) : "New cohort"}
        eyebrow={
          <Link
            to="/project/$projectId/cohorts"
            params={{ projectId }}
            className="inline-flex min-h-6 items-center hover:underline"
          >
            Cohorts
          </Link>
        }
        actions={
          <Button variant="primary" busy={create.isPending} disabledReason={reason} onClick={save}>
            Create cohort
          </Button>
        }
      />
      {create.isError && !nameError && (
        <Card className="mb-4">
          <ErrorPanel error={create.error} title="Could not create the cohort" className="py-2" />
        </Card>
      )}
      <Tabs<"dynamic" | "static">
        label="Kind of cohort"
        value={isStatic ? "static" : "dynamic"}
        onChange={(next) =>
          navigate({
            search: { static: next === "static" || undefined },
            hash: true,
            replace: true,
          })
        }
        items={[
          {
            value: "dynamic",
            label: "By conditions",
            panel: (
              <Suspense fallback={<SkeletonRows />}>
                <CohortForm
                  projectId={projectId}
                  draft={draft.value}
                  onChange={draft.edit}
                  nameError={nameError}
                />
              </Suspense>
            ),
          },
          {
            value: "static",
            label: "Static list",
            panel: (
              <form
                className="grid gap-4 lg:grid-cols-[1fr_17rem]"
                onSubmit={(event: FormEvent) => {
                  event.preventDefault();
                  save();
                }}
              >
                <Card title="Persons of the list">
                  <div className="flex max-w-xl flex-col gap-4">
                    <p className="text-muted">
                      A static cohort is a list: it changes only when persons are added or removed.
                    </p>
                    <PersonListInput input={list} onChange={setList} />
                  </div>
                </Card>
                <div className="max-lg:order-first">
                  <NameCard draft={draft.value} onChange={draft.edit} nameError={nameError} />
                </div>
              </form>
            ),
          },
        ]}
      />
    </Page>
  );
}
