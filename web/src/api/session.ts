import { createStore } from "./store";

/// The session ended under an open page: the log-in dialog is shown, requests wait for it.
export const sessionExpired = createStore(false);

let pending: { promise: Promise<boolean>; resolve: (again: boolean) => void } | null = null;

/// Resolves with true when the person has logged in again, with false when they gave up.
export function logInAgain(): Promise<boolean> {
  if (!pending) {
    let resolve: (again: boolean) => void = () => {};
    const promise = new Promise<boolean>((done) => {
      resolve = done;
    });
    pending = { promise, resolve };
    sessionExpired.set(true);
  }
  return pending.promise;
}

export function finishLogIn(again: boolean): void {
  pending?.resolve(again);
  pending = null;
  sessionExpired.set(false);
}
