import { Dialog, Kbd, Switch } from "@/ui";
import { DESTINATIONS } from "./navigation";
import { useSingleKeys } from "./useGlobalKeys";

const SECTIONS: { title: string; keys: [string, string][] }[] = [
  {
    title: "Everywhere",
    keys: [
      ["mod+k", "Search and actions"],
      ["?", "This sheet"],
      ["/", "Search this list"],
      ["mod+s", "Save"],
      ["mod+z", "Undo an edit"],
      ["mod+enter", "Run or apply"],
    ],
  },
  {
    title: "Go to",
    keys: DESTINATIONS.map(({ letter, label }): [string, string] => [`g ${letter}`, label]),
  },
  {
    title: "Charts and dashboards",
    keys: [
      ["e", "Edit"],
      ["r", "Refresh"],
      ["[", "Earlier range"],
      ["]", "Later range"],
    ],
  },
  {
    title: "Lists",
    keys: [
      ["j", "Next row"],
      ["k", "Previous row"],
      ["enter", "Open"],
    ],
  },
];

export function KeySheet({ onClose }: { onClose: () => void }) {
  const [singleKeys, setSingleKeys] = useSingleKeys();
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title="Keyboard shortcuts" size="lg">
      <div className="grid gap-x-8 gap-y-5 sm:grid-cols-2">
        {SECTIONS.map((section) => (
          <section key={section.title}>
            <h3 className="mb-1 text-xs font-semibold text-muted">{section.title}</h3>
            <dl>
              {section.keys.map(([keys, label]) => (
                <div
                  key={keys}
                  className="flex min-h-8 items-center justify-between gap-4 border-b"
                >
                  <dt>{label}</dt>
                  <dd>
                    <Kbd keys={keys} />
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <Switch
        className="mt-4"
        label="Single-key shortcuts"
        checked={singleKeys}
        onChange={setSingleKeys}
      />
    </Dialog>
  );
}
