import { exact } from "@/ui/format";
import type { Flag } from "./flagApi";
import { conditionsOf, kindOf, rolloutOf, variantsOf } from "./model/draft";
import { VariantBar } from "./VariantBar";

/// How far a flag is rolled out, at a glance: the widest of its conditions.
export function RolloutCell({ flag }: { flag: Flag }) {
  const kind = kindOf(flag);
  if (kind === "remote") return <span className="text-muted">Everybody</span>;
  const shares = conditionsOf(flag.filters).map(rolloutOf);
  if (shares.length === 0) return <span className="text-muted">No conditions</span>;
  const most = Math.max(...shares);
  const variants = variantsOf(flag.filters);
  const isOne = new Set(shares).size === 1;
  return (
    <span className="flex min-w-32 flex-col gap-1 py-1">
      <span className="flex items-center gap-2 text-xs whitespace-nowrap tabular-nums">
        <span className="h-1.5 w-16 overflow-hidden rounded-full bg-sunken" aria-hidden>
          <span
            className="block h-full rounded-full bg-accent"
            style={{ width: `${most}%`, opacity: flag.active ? 1 : 0.45 }}
          />
        </span>
        {isOne ? "" : "up to "}
        {exact(most)}%
      </span>
      {shares.length > 1 && variants.length === 0 && (
        <span className="text-xs text-muted">{shares.length} conditions</span>
      )}
      {variants.length > 0 && <VariantBar variants={variants} className="h-1.5 w-16" />}
    </span>
  );
}
