import { CodeBlock } from "./CodeBlock";
import { formatSql } from "./formatSql";

/// An insight's query in SQL, laid out to be read.
export function SqlBlock({ label, sql }: { label: string; sql: string }) {
  return <CodeBlock label={label} code={formatSql(sql)} />;
}
