import { ArrowDown, ArrowUp, Braces, EllipsisVertical, Plus, Scale, Trash2 } from "lucide-react";
import { Button, Card, cx, IconButton, Input, Menu, NumberField } from "@/ui";
import { exact } from "@/ui/format";
import type { FlagVariant } from "../flagApi";
import { type FlagDraft, variantsOf } from "../model/draft";
import type { DraftProblem } from "../model/problems";
import { distribute, freeKey, sumOfShares, sumsTo100 } from "../model/variants";
import { VariantBar } from "../VariantBar";
import { Payload } from "./Payload";

export interface VariantsProps {
  draft: FlagDraft;
  edit: (draft: FlagDraft, topic?: string) => void;
  problems: readonly DraftProblem[];
  disabled: boolean;
}

export function Variants({ draft, edit, problems, disabled }: VariantsProps) {
  const { filters } = draft;
  const variants = variantsOf(filters);
  const payloads = filters.payloads ?? {};
  const set = (next: FlagVariant[], topic?: string) =>
    edit({ ...draft, filters: { ...filters, multivariate: { variants: next } } }, topic);
  /// A new key takes the payload and the overrides along.
  const rename = (at: number, key: string) => {
    const old = variants[at];
    if (!old) return;
    const groups = (filters.groups ?? []).map((condition) =>
      condition.variant === old.key ? { ...condition, variant: key } : condition,
    );
    const { [old.key]: payload, ...others } = payloads;
    edit(
      {
        ...draft,
        filters: {
          ...filters,
          groups,
          payloads: payload === undefined ? others : { ...others, [key]: payload },
          multivariate: { variants: variants.with(at, { ...old, key }) },
        },
      },
      `variant ${at}`,
    );
  };
  const remove = (at: number) => {
    const gone = variants[at]?.key ?? "";
    const { [gone]: _, ...rest } = payloads;
    const groups = (filters.groups ?? []).map((condition) =>
      condition.variant === gone ? { ...condition, variant: null } : condition,
    );
    const next = variants.toSpliced(at, 1);
    edit({
      ...draft,
      filters: { ...filters, groups, payloads: rest, multivariate: { variants: next } },
    });
  };
  const setPayload = (key: string, payload: string | undefined) => {
    const { [key]: _, ...rest } = payloads;
    const next = payload === undefined ? rest : { ...rest, [key]: payload };
    edit({ ...draft, filters: { ...filters, payloads: next } }, `payload ${key}`);
  };
  const move = (from: number, to: number) => {
    const next = [...variants];
    next.splice(to, 0, ...next.splice(from, 1));
    set(next);
  };
  const problem = problems.find(({ at }) => at === "variants");
  const sums = sumsTo100(variants);
  return (
    <Card
      title="Variants"
      actions={
        !disabled && (
          <Button size="sm" icon={<Scale aria-hidden />} onClick={() => set(distribute(variants))}>
            Distribute
          </Button>
        )
      }
    >
      <VariantBar variants={variants} className="mb-3 h-2.5" />
      <ul className="flex flex-col divide-y">
        {variants.map((variant, at) => (
          <li
            // biome-ignore lint/suspicious/noArrayIndexKey: a key changes as one types.
            key={at}
            aria-label={`Variant ${at + 1}`}
            className="flex flex-col gap-2 py-3 first:pt-0"
          >
            <div className="flex flex-wrap items-center gap-2">
              <Input
                aria-label={`Key of variant ${at + 1}`}
                className="w-36 font-mono"
                value={variant.key}
                disabled={disabled}
                onChange={(event) => rename(at, event.currentTarget.value)}
              />
              <Input
                aria-label={`Description of variant ${at + 1}`}
                className="min-w-32 flex-1"
                placeholder="Description"
                value={variant.name ?? ""}
                disabled={disabled}
                onChange={(event) =>
                  set(
                    variants.with(at, { ...variant, name: event.currentTarget.value }),
                    `variant name ${at}`,
                  )
                }
              />
              <span className="flex items-center gap-1">
                <NumberField
                  label={`Share of variant ${at + 1}, percent`}
                  value={variant.rollout_percentage}
                  min={0}
                  max={100}
                  disabled={disabled}
                  onChange={(share) =>
                    set(
                      variants.with(at, { ...variant, rollout_percentage: share ?? 0 }),
                      `variant share ${at}`,
                    )
                  }
                />
                <span className="text-muted" aria-hidden>
                  %
                </span>
              </span>
              <Menu
                align="end"
                trigger={
                  <IconButton
                    size="sm"
                    label={`Move or remove variant ${at + 1}`}
                    disabled={disabled}
                  >
                    <EllipsisVertical aria-hidden />
                  </IconButton>
                }
                items={[
                  {
                    label: "Move up",
                    icon: <ArrowUp />,
                    disabledReason: at === 0 ? "It is the first." : undefined,
                    onSelect: () => move(at, at - 1),
                  },
                  {
                    label: "Move down",
                    icon: <ArrowDown />,
                    disabledReason: at === variants.length - 1 ? "It is the last." : undefined,
                    onSelect: () => move(at, at + 1),
                  },
                  "separator",
                  {
                    label: "Remove",
                    icon: <Trash2 />,
                    danger: true,
                    disabledReason: variants.length === 1 ? "One has to stay." : undefined,
                    onSelect: () => remove(at),
                  },
                ]}
              />
            </div>
            {payloads[variant.key] === undefined || payloads[variant.key] === null ? (
              !disabled && (
                <Button
                  size="sm"
                  variant="ghost"
                  className="-ml-2 self-start"
                  icon={<Braces aria-hidden />}
                  aria-label={`Add payload of ${variant.key || `variant ${at + 1}`}`}
                  onClick={() => setPayload(variant.key, "{}")}
                >
                  Add payload
                </Button>
              )
            ) : (
              <Payload
                label={`Payload of ${variant.key || `variant ${at + 1}`}`}
                value={payloads[variant.key]}
                disabled={disabled}
                onChange={(payload) => setPayload(variant.key, payload)}
              />
            )}
          </li>
        ))}
      </ul>
      <div className="mt-1 flex flex-wrap items-center justify-between gap-2">
        {!disabled && (
          <Button
            icon={<Plus aria-hidden />}
            onClick={() =>
              set([...variants, { key: freeKey(variants), name: "", rollout_percentage: 0 }])
            }
          >
            Add variant
          </Button>
        )}
        <p role="status" className={cx("text-[0.8125rem]", sums ? "text-muted" : "text-danger")}>
          {problem ? problem.text : `Sum: ${exact(sumOfShares(variants))}%`}
        </p>
      </div>
    </Card>
  );
}
