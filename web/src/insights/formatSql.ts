const TOKEN = /'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|"(?:[^"\\]|\\.)*"|\s+|[A-Za-z_$][\w$]*|./gs;
/// Words that begin a line of a query. One that follows another of them stays beside it: LEFT JOIN.
const CLAUSE =
  /^(?:WITH|SELECT|FROM|ANY|ALL|ASOF|LEFT|RIGHT|FULL|INNER|CROSS|ARRAY|JOIN|PREWHERE|WHERE|GROUP|HAVING|WINDOW|ORDER|LIMIT|OFFSET|UNION|EXCEPT|INTERSECT|SETTINGS)$/;
/// Words whose parts get a line each.
const LIST = /^(?:SELECT|WHERE|PREWHERE|HAVING)$/;
const INDENT = "  ";

interface Nesting {
  clause: string;
  indent: number;
  /// Brackets inside the query that hold no query.
  depth: number;
}

/// SQL on many lines: one a clause, one a selected column or condition, with inner queries indented.
/// The server prints an insight's query on one.
export function formatSql(sql: string): string {
  const tokens = (sql.match(TOKEN) ?? []).map((token) => (/^\s/.test(token) ? " " : token));
  const next = (at: number) => tokens.slice(at + 1).find((token) => token !== " ") ?? "";
  let query: Nesting = { clause: "", indent: 0, depth: 0 };
  const outer: Nesting[] = [];
  let text = "";
  let last = "";
  let indent = 0;
  const line = (level: number) => {
    indent = level;
    text = `${text.trimEnd()}${text ? "\n" : ""}${INDENT.repeat(level)}`;
  };
  tokens.forEach((token, at) => {
    const top = query.depth === 0;
    if (token === " ") {
      if (!/\s$/.test(text)) text += token;
      return;
    }
    if (token === "(" && /^(?:SELECT|WITH)$/.test(next(at))) {
      text += token;
      outer.push(query);
      query = { clause: "", indent: indent + 1, depth: 0 };
    } else if (token === ")" && top && outer.length > 0) {
      line(query.indent - 1);
      text += token;
      query = outer.pop() ?? query;
    } else if (top && CLAUSE.test(token) && next(at) !== "(") {
      if (token === "SELECT" || !CLAUSE.test(last)) line(query.indent);
      text += token;
      query.clause = token;
      if (LIST.test(token)) line(query.indent + 1);
    } else if (top && token === "," && (LIST.test(query.clause) || query.clause === "WITH")) {
      text += token;
      line(query.indent + (query.clause === "WITH" ? 0 : 1));
    } else {
      if (top && /^(?:AND|OR)$/.test(token) && LIST.test(query.clause)) line(query.indent + 1);
      if (token === "(" || token === "[") query.depth += 1;
      if (token === ")" || token === "]") query.depth -= 1;
      text += token;
    }
    last = token;
  });
  return text.trim();
}
