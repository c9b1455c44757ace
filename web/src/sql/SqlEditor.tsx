import { acceptCompletion, autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { SQLDialect, sql } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, linter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState, Prec } from "@codemirror/state";
import { EditorView, keymap, lineNumbers, placeholder, tooltips } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { type Ref, useEffect, useImperativeHandle, useRef } from "react";
import { completionSource, insertion } from "./completion";
import type { SqlProblem } from "./positions";
import type { SqlNames } from "./schema";

export interface SqlEditorHandle {
  focus: () => void;
  /// The selected text and where it begins; null without a selection.
  selection: () => { text: string; from: number } | null;
  /// Underlines problems until the text changes.
  show: (problems: readonly SqlProblem[]) => void;
  /// Puts a name at the cursor, or in place of the selection.
  insert: (name: string, kind: "table" | "column") => void;
}

export interface SqlEditorProps {
  ref: Ref<SqlEditorHandle>;
  value: string;
  onChange: (text: string) => void;
  onRun: () => void;
  onSelect: (selected: boolean) => void;
  names: SqlNames;
  /// Finds problems a while after the last key; null where nobody can tell.
  check: (text: string, signal: AbortSignal) => Promise<SqlProblem[] | null>;
}

const CHECK_MS = 450;

const DIALECT = SQLDialect.define({
  keywords:
    "select distinct from where prewhere group by having order limit offset with as and or not in is null between like ilike case when then else end left right inner outer full cross array any asof join on using union all except intersect interval asc desc over partition rows range unbounded preceding following current row totals fill nulls first last window sample qualify true false",
  types: "String Int64 UInt64 Float64 Date DateTime Array Tuple Map Nullable",
  backslashEscapes: true,
  identifierQuotes: '`"',
  slashComments: false,
  doubleQuotedStrings: false,
});

const THEME = EditorView.theme({
  "&": {
    height: "100%",
    fontSize: "13px",
    backgroundColor: "var(--surface)",
    color: "var(--text)",
  },
  "&.cm-focused": { outline: "none" },
  // Above the gutter, which covers an outline.
  "&.cm-focused::after": {
    content: "''",
    position: "absolute",
    inset: "0",
    border: "2px solid var(--accent)",
    pointerEvents: "none",
    zIndex: "250",
  },
  ".cm-scroller": {
    fontFamily: "ui-monospace, SFMono-Regular, Menlo, monospace",
    lineHeight: "1.6",
  },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--muted)", border: "none" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-matchingBracket": {
    backgroundColor: "var(--hover)",
    outline: "1px solid var(--line-strong)",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--surface)",
    color: "var(--text)",
    border: "1px solid var(--line-strong)",
    borderRadius: "6px",
    boxShadow: "0 1px 2px var(--shadow-color), 0 8px 24px -6px var(--shadow-color)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete": { overflow: "hidden", "& > ul": { minWidth: "8rem" } },
  ".cm-tooltip-autocomplete > ul > li": { padding: "3px 8px" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent-soft)",
    color: "var(--accent-text)",
  },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal", marginLeft: "12px" },
  ".cm-lintRange-error": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--danger)",
    textUnderlineOffset: "3px",
  },
  ".cm-diagnostic-error": { borderLeftColor: "var(--danger)" },
  ".cm-diagnosticAction": {
    backgroundColor: "var(--accent)",
    color: "var(--on-accent)",
    minHeight: "24px",
  },
});

const COLOURS = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.keyword, color: "var(--accent-text)", fontWeight: "600" },
    { tag: [tags.string, tags.special(tags.string)], color: "var(--info)" },
    { tag: [tags.number, tags.bool, tags.null], color: "var(--warn)" },
    { tag: [tags.lineComment, tags.blockComment], color: "var(--muted)", fontStyle: "italic" },
    { tag: tags.typeName, color: "var(--info)" },
  ]),
);

function diagnostics(problems: readonly SqlProblem[], length: number): Diagnostic[] {
  return problems.map(({ from, to, message, fix }) => ({
    from: Math.min(from, length),
    to: Math.min(Math.max(to, from + 1), length),
    severity: "error",
    message,
    actions:
      fix === null
        ? undefined
        : [
            {
              name: `Write ${fix}`,
              apply: (view, start, end) =>
                view.dispatch({ changes: { from: start, to: end, insert: fix } }),
            },
          ],
  }));
}

/// The statement, with completion and underlined errors.
export function SqlEditor({ ref, value, ...callbacks }: SqlEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const latest = useRef(callbacks);
  latest.current = callbacks;
  const initial = useRef(value);
  // What running found, for a server that cannot check without.
  const shown = useRef<{ text: string; problems: readonly SqlProblem[] }>(null);

  useEffect(() => {
    const nonce = document.querySelector<HTMLMetaElement>("meta[name=csp-nonce]")?.content;
    let checking: AbortController | null = null;
    const check = async (editor: EditorView) => {
      checking?.abort();
      checking = new AbortController();
      const text = editor.state.doc.toString();
      if (text.trim() === "") return [];
      try {
        const problems = await latest.current.check(text, checking.signal);
        const ran = shown.current?.text === text ? shown.current.problems : [];
        return diagnostics(problems ?? ran, text.length);
      } catch {
        // A check that fails says nothing about the statement; running it will.
        return [];
      }
    };
    const editor = new EditorView({
      parent: host.current ?? undefined,
      state: EditorState.create({
        doc: initial.current,
        extensions: [
          Prec.highest(
            keymap.of([
              {
                key: "Mod-Enter",
                run: () => {
                  latest.current.onRun();
                  return true;
                },
              },
              { key: "Tab", run: acceptCompletion },
            ]),
          ),
          EditorView.cspNonce.of(nonce ?? ""),
          EditorView.contentAttributes.of({ "aria-label": "SQL" }),
          EditorView.lineWrapping,
          lineNumbers(),
          history(),
          bracketMatching(),
          sql({ dialect: DIALECT }),
          autocompletion({
            override: [completionSource(() => latest.current.names)],
            icons: false,
            maxRenderedOptions: 80,
          }),
          // Popups may reach below the editor, but not beside it.
          tooltips({
            tooltipSpace: ({ dom }) => {
              const { left, right } = dom.getBoundingClientRect();
              return { left, right, top: 0, bottom: window.innerHeight };
            },
          }),
          linter(check, { delay: CHECK_MS }),
          keymap.of([...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap]),
          placeholder("SELECT event, count() FROM events GROUP BY event"),
          THEME,
          COLOURS,
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
            if (update.selectionSet || update.docChanged) {
              latest.current.onSelect(!update.state.selection.main.empty);
            }
          }),
        ],
      }),
    });
    view.current = editor;
    return () => {
      checking?.abort();
      editor.destroy();
      view.current = null;
    };
  }, []);

  // The draft changed elsewhere: a pasted link, or an entry of the history.
  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value]);

  useImperativeHandle(ref, () => ({
    focus: () => view.current?.focus(),
    selection: () => {
      const state = view.current?.state;
      const range = state?.selection.main;
      if (!state || !range || range.empty) return null;
      return { text: state.sliceDoc(range.from, range.to), from: range.from };
    },
    show: (problems) => {
      const editor = view.current;
      if (!editor) return;
      shown.current = { text: editor.state.doc.toString(), problems };
      const found = diagnostics(problems, editor.state.doc.length);
      editor.dispatch(setDiagnostics(editor.state, found));
    },
    insert: (name, kind) => {
      const editor = view.current;
      if (!editor) return;
      const { from } = editor.state.selection.main;
      const text = insertion(editor.state.sliceDoc(0, from), name, kind);
      editor.dispatch(editor.state.replaceSelection(text), { scrollIntoView: true });
    },
  }));
  return <div ref={host} className="h-full min-h-0 overflow-hidden" />;
}
