/// A query as a call of the API, for terminals.

function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

export function curlOf(origin: string, projectId: string, query: object): string {
  const body = JSON.stringify({ query }, null, 2);
  return [
    `curl -s ${origin}/api/projects/${projectId}/query/ \\`,
    `  -H "Authorization: Bearer $PERSONAL_API_KEY" \\`,
    "  -H 'Content-Type: application/json' \\",
    `  -d ${shellQuoted(body)}`,
  ].join("\n");
}
