interface ListPage<Row> {
  next?: string | null;
  results: readonly Row[];
}

/// Where the next page of a list by offset begins; undefined after the last one.
export function nextOffset(
  last: ListPage<unknown>,
  pages: readonly ListPage<unknown>[],
): number | undefined {
  return last.next ? pages.reduce((sum, page) => sum + page.results.length, 0) : undefined;
}

/// The rows of all pages that are loaded.
export function loadedRows<Row>(data: { pages: readonly ListPage<Row>[] } | undefined): Row[] {
  return data?.pages.flatMap((page) => page.results) ?? [];
}
