import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { blocksOf, Markdown, safeHref } from "./Markdown";

const html = (text: string) =>
  renderToStaticMarkup(<Markdown text={text} />).replaceAll(/ class="[^"]*"/g, "");

describe("text tiles", () => {
  it("show headings, lists, quotes, rules and code", () => {
    expect(
      blocksOf("# A\ntext\nmore\n\n- x\n- y\n1. z\n> q\n---\n```\n<b>\n```").map(
        ({ kind }) => kind,
      ),
    ).toEqual(["heading", "paragraph", "list", "list", "quote", "rule", "code"]);
  });

  it("show emphasis, code and links inside a line", () => {
    expect(html("a **b** *c* `d*e*` [f](https://g.example/h_i_j)")).toBe(
      '<div><p>a <strong>b</strong> <em>c</em> <code>d*e*</code> <a href="https://g.example/h_i_j" target="_blank" rel="noopener noreferrer nofollow">f</a></p></div>',
    );
  });

  it("keep underscores of names", () => {
    expect(html("signed_up and project_created")).toBe(
      "<div><p>signed_up and project_created</p></div>",
    );
  });

  it("never become HTML", () => {
    const page = html("<script>alert(1)</script> <img src=x onerror=y> [a](<b>) **<i>**");
    expect(page).not.toMatch(/<(script|img|i|b)[ >]/);
  });

  it("link to web addresses and paths only", () => {
    for (const href of ["https://a.example", "HTTP://a", "mailto:a@b.example", "/insights"]) {
      expect(safeHref(href)).toBe(href);
    }
    for (const href of [
      "javascript:alert(1)",
      "java\tscript:x",
      "//evil.example",
      "/\\evil",
      "data:x",
      "x",
    ]) {
      expect(safeHref(href)).toBeNull();
    }
    expect(html("[a](javascript:alert(1))")).not.toContain("<a");
  });

  it("end at the end, even inside an open fence", () => {
    expect(blocksOf("```\nx")).toEqual([{ kind: "code", text: "x" }]);
    expect(blocksOf("")).toEqual([]);
  });
});
