import { useStore } from "@/api/store";
import { conflict } from "@/api/versions";
import { Button, Dialog, RelativeTime } from "@/ui";

/// Asks whose version stays when two people edited the same object.
export function ConflictDialog() {
  const asked = useStore(conflict);
  if (!asked) return null;
  const { noun, author, at, resolve } = asked;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && resolve("later")}
      title={`This ${noun} was changed meanwhile`}
      footer={
        <>
          <Button className="sm:mr-auto" onClick={() => resolve("later")}>
            Keep editing
          </Button>
          <Button onClick={() => resolve("theirs")}>Load theirs</Button>
          <Button variant="primary" onClick={() => resolve("mine")}>
            Save mine over it
          </Button>
        </>
      }
    >
      <p>
        <strong>{author ?? "Somebody"}</strong> changed it after you opened it
        {at && (
          <>
            , <RelativeTime at={at} />
          </>
        )}
        . Nothing of yours is saved yet, and nothing is lost.
      </p>
    </Dialog>
  );
}
