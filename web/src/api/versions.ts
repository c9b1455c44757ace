import { ApiError } from "./errors";
import { createStore } from "./store";

/// Somebody saved another version of what is being edited.
export interface Conflict {
  /// What is edited, as in "insight".
  noun: string;
  /// Who saved it; null if that is unknown.
  author: string | null;
  /// When; null if that is unknown.
  at: string | null;
}

export type Resolution = "theirs" | "mine" | "later";

interface OpenConflict extends Conflict {
  resolve: (resolution: Resolution) => void;
}

/// The conflict that a person is asked about.
export const conflict = createStore<OpenConflict | null>(null);

function ask(found: Conflict): Promise<Resolution> {
  return new Promise((resolve) => {
    conflict.get()?.resolve("later");
    conflict.set({
      ...found,
      resolve: (resolution) => {
        conflict.set(null);
        resolve(resolution);
      },
    });
  });
}

/// A write was not made, because somebody else changed the object and the person chose theirs or to go
/// on editing. Needs no message.
export class ConflictError extends Error {
  override readonly name = "ConflictError";

  constructor(readonly resolution: Exclude<Resolution, "mine">) {
    super("Somebody else changed it meanwhile.");
  }
}

export interface VersionedWrite<T extends { version: number }> {
  noun: string;
  /// The version that was edited.
  version: number | undefined;
  send: (version: number | undefined) => Promise<T>;
  /// What is stored now.
  load: () => Promise<T>;
  /// Who changed it last, and when.
  lastChange: (theirs: T) => Promise<Omit<Conflict, "noun">>;
  /// Shows what is stored in place of the draft.
  onTheirs: (theirs: T) => void;
}

/// Writes unless somebody else changed the object since it was loaded. Then the person decides: theirs
/// is loaded, or the draft is saved over it, or stays as it is.
export async function writeVersion<T extends { version: number }>(
  write: VersionedWrite<T>,
): Promise<T> {
  try {
    return await write.send(write.version);
  } catch (error) {
    if (!(error instanceof ApiError && error.isConflict)) throw error;
  }
  const theirs = await write.load();
  const change = await write.lastChange(theirs).catch(() => ({ author: null, at: null }));
  const resolution = await ask({ noun: write.noun, ...change });
  if (resolution === "mine") return writeVersion({ ...write, version: theirs.version });
  if (resolution === "theirs") write.onTheirs(theirs);
  throw new ConflictError(resolution);
}
