/// Names as statements write them.

const VARIABLE = /\{\s*variables\s*\.\s*(?:([A-Za-z_]\w*)|`([^`]+)`)\s*\}/g;
/// More are not asked for.
const VARIABLES_MAX = 20;

/// The variables that a statement names, in their order.
export function variableNames(text: string): string[] {
  const names = [...text.matchAll(VARIABLE)].map(([, plain, quoted = ""]) => plain ?? quoted);
  return [...new Set(names)].slice(0, VARIABLES_MAX);
}

/// A name as a statement writes it.
export function writtenName(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : `\`${name.replaceAll("`", "\\`")}\``;
}
