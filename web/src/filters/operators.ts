import type { Schemas } from "@/api/client";
import {
  asGroup,
  compactFilters,
  type FilterGroup,
  type FilterOperator,
  type Filters,
  type FilterType,
  type FilterValue,
  filterKey,
  isGroup,
  type PropertyFilter,
} from "./types";

/// How the value of an operator is entered.
export type ValueInputKind =
  | "none"
  | "choices"
  | "text"
  | "number"
  | "range"
  | "date"
  | "cohort"
  | "flag";

export type PropertyKind = Schemas["PropertyType"];

interface Operator {
  label: string;
  input: ValueInputKind;
}

export const OPERATORS: Record<FilterOperator, Operator> = {
  exact: { label: "is", input: "choices" },
  is_not: { label: "is not", input: "choices" },
  icontains: { label: "contains", input: "text" },
  not_icontains: { label: "does not contain", input: "text" },
  icontains_multi: { label: "contains any of", input: "choices" },
  not_icontains_multi: { label: "contains none of", input: "choices" },
  starts_with: { label: "starts with", input: "text" },
  not_starts_with: { label: "does not start with", input: "text" },
  ends_with: { label: "ends with", input: "text" },
  not_ends_with: { label: "does not end with", input: "text" },
  regex: { label: "matches regex", input: "text" },
  not_regex: { label: "does not match regex", input: "text" },
  gt: { label: "is greater than", input: "number" },
  gte: { label: "is at least", input: "number" },
  lt: { label: "is less than", input: "number" },
  lte: { label: "is at most", input: "number" },
  min: { label: "is at least", input: "number" },
  max: { label: "is at most", input: "number" },
  between: { label: "is between", input: "range" },
  not_between: { label: "is not between", input: "range" },
  is_set: { label: "is set", input: "none" },
  is_not_set: { label: "is not set", input: "none" },
  is_date_exact: { label: "is on", input: "date" },
  is_date_before: { label: "is before", input: "date" },
  is_date_after: { label: "is after", input: "date" },
  is_cleaned_path_exact: { label: "is the cleaned path", input: "choices" },
  in: { label: "in cohort", input: "cohort" },
  not_in: { label: "not in cohort", input: "cohort" },
  flag_evaluates_to: { label: "evaluates to", input: "flag" },
  semver_eq: { label: "version is", input: "text" },
  semver_neq: { label: "version is not", input: "text" },
  semver_gt: { label: "version is after", input: "text" },
  semver_gte: { label: "version is at least", input: "text" },
  semver_lt: { label: "version is before", input: "text" },
  semver_lte: { label: "version is at most", input: "text" },
  semver_tilde: { label: "version matches ~", input: "text" },
  semver_caret: { label: "version matches ^", input: "text" },
  semver_wildcard: { label: "version matches *", input: "text" },
};

const SETNESS = ["is_set", "is_not_set"] as const;
const TEXT = [
  "exact",
  "is_not",
  "icontains",
  "not_icontains",
  "regex",
  "not_regex",
  ...SETNESS,
] as const;
const COMPARE = ["gt", "gte", "lt", "lte", "between", "not_between"] as const;
const SEMVER = (Object.keys(OPERATORS) as FilterOperator[]).filter((name) =>
  name.startsWith("semver_"),
);

/// The operators to choose from, the commonest first.
export function operatorsFor(
  type: FilterType,
  kind: PropertyKind | null,
  key: string,
): FilterOperator[] {
  if (type === "cohort" || type === "static-cohort") return ["in", "not_in"];
  if (type === "flag") return ["flag_evaluates_to"];
  if (type === "hogql") return [];
  if (type === "element" && (key === "selector" || key === "tag_name")) return ["exact", "is_not"];
  if (kind === "Numeric" || kind === "Duration") return ["exact", "is_not", ...COMPARE, ...SETNESS];
  if (kind === "Boolean") return ["exact", "is_not", ...SETNESS];
  if (kind === "DateTime") {
    return ["is_date_after", "is_date_before", "is_date_exact", "exact", "is_not", ...SETNESS];
  }
  return [...TEXT, "icontains_multi", "not_icontains_multi", ...COMPARE, ...SEMVER];
}

export function inputKind(operator: FilterOperator | null | undefined): ValueInputKind {
  // The server knows more operators than a page that was loaded before its update.
  return OPERATORS[operator ?? "exact"]?.input ?? "text";
}

/// The value after a change of the operator: kept where it still fits.
export function valueFor(operator: FilterOperator, value: FilterValue | undefined): FilterValue {
  const input = inputKind(operator);
  const list = Array.isArray(value) ? value : value === null || value === undefined ? [] : [value];
  const first = list[0] ?? null;
  if (input === "none") return null;
  if (input === "choices") return list;
  if (input === "flag") return first ?? true;
  if (input === "range") return list.length === 2 ? list : [];
  if (input === "number") return Number.isFinite(Number(first)) && first !== "" ? first : null;
  return first === null ? null : String(first);
}

/// Whether the filter can be sent: an unfinished one is left out of the query.
export function isComplete(filter: PropertyFilter): boolean {
  if (!filter.key) return false;
  if (filter.type === "hogql") return true;
  const { value } = filter;
  switch (inputKind(filter.operator)) {
    case "none":
      return true;
    case "range":
      return Array.isArray(value) && value.length === 2 && value.every((end) => end !== "");
    case "choices":
      return Array.isArray(value) ? value.length > 0 : value !== null && value !== undefined;
    default:
      return value !== null && value !== undefined && value !== "";
  }
}

/// The filters without those that are still being written.
export function completeFilters(filters: Filters | null | undefined): Filters | undefined {
  const strip = (group: FilterGroup): FilterGroup => ({
    type: group.type,
    values: group.values
      .map((value) => (isGroup(value) ? strip(value) : value))
      .filter((value) => (isGroup(value) ? value.values.length > 0 : isComplete(value))),
  });
  return compactFilters(strip(asGroup(filters)));
}

export function valueText(value: FilterValue | undefined): string {
  if (Array.isArray(value)) return value.map(String).join(" or ");
  return value === null || value === undefined ? "" : String(value);
}

/// As in "browser is Chrome".
export function describeFilter(filter: PropertyFilter): string {
  if (filter.type === "hogql") return filterKey(filter);
  const operator = filter.operator ?? "exact";
  const label = OPERATORS[operator]?.label ?? operator;
  if (filter.type === "cohort" || filter.type === "static-cohort") {
    return `${label} ${valueText(filter.value)}`;
  }
  const input = inputKind(operator);
  const value =
    input === "none"
      ? ""
      : input === "range" && Array.isArray(filter.value)
        ? filter.value.map(String).join(" and ")
        : valueText(filter.value);
  return [propertyLabel(filterKey(filter)), label, value].filter(Boolean).join(" ");
}

const NAMES: Record<string, string> = {
  $group_key: "Group key",
  $browser: "Browser",
  $browser_version: "Browser version",
  $os: "Operating system",
  $os_version: "OS version",
  $device_type: "Device type",
  $device_id: "Device",
  $current_url: "Current URL",
  $pathname: "Path",
  $host: "Host",
  $referrer: "Referrer",
  $referring_domain: "Referring domain",
  $lib: "Library",
  $lib_version: "Library version",
  $screen_name: "Screen",
  $session_id: "Session",
  $session_duration: "Session duration",
  $geoip_country_code: "Country code",
  $geoip_country_name: "Country",
  $geoip_city_name: "City",
  $geoip_continent_name: "Continent",
  $geoip_time_zone: "Time zone",
  $screen_width: "Screen width",
  $screen_height: "Screen height",
  $ip: "IP address",
};

/// "Current URL" as "current URL", but "IP address" as it is.
function withinSentence(name: string): string {
  return /^[A-Z][a-z]/.test(name) ? name.charAt(0).toLowerCase() + name.slice(1) : name;
}

/// A property's name for people. The key stays visible in pickers.
export function propertyLabel(key: string): string {
  if (NAMES[key]) return NAMES[key];
  if (key.startsWith("$initial_")) {
    const rest = NAMES[`$${key.slice("$initial_".length)}`];
    if (rest) return `Initial ${withinSentence(rest)}`;
  }
  if (key.startsWith("$feature/")) return `Flag ${key.slice("$feature/".length)}`;
  return key;
}

const EVENTS: Record<string, string> = {
  $pageview: "Page view",
  $pageleave: "Page leave",
  $screen: "Screen",
  $autocapture: "Autocapture",
  $identify: "Identify",
  $groupidentify: "Group identify",
  $feature_flag_called: "Flag called",
  $exception: "Exception",
  $web_vitals: "Web vitals",
  $rageclick: "Rage click",
  $set: "Set person properties",
};

export function eventLabel(event: string | null | undefined): string {
  if (!event) return "All events";
  return EVENTS[event] ?? event;
}
