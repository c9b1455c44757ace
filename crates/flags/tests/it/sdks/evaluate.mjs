// Reads one JSON document, answers what posthog-node evaluates locally, as JSON, and with it which
// dates JavaScript reads in the texts.
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'

const { PostHog } = createRequire(process.argv[2] + '/')('posthog-node')
const answers = []
for (const world of JSON.parse(readFileSync(0, 'utf8'))) {
  const reply = { status: 200, ok: true, headers: new Headers(), json: async () => world.definitions, text: async () => '' }
  const client = new PostHog('phc_x', {
    personalApiKey: 'phx_x',
    host: 'http://127.0.0.1:9',
    fetch: async () => reply,
    featureFlagsPollingInterval: 1e8,
  })
  await client.waitForLocalEvaluationReady()
  const rows = []
  for (const each of world.cases) {
    const device = each.device_id ? { $device_id: each.device_id } : {}
    const row = await client.getAllFlags(each.distinct_id, {
      groups: each.groups,
      personProperties: { ...each.person_properties, ...device },
      groupProperties: each.group_properties,
      onlyEvaluateLocally: true,
      disableGeoip: true,
    })
    const held = [each.person_properties, ...Object.values(each.group_properties ?? {})].flatMap(Object.values)
    const texts = held.filter((value) => typeof value === 'string')
    row.$dates = Object.fromEntries(texts.map((text) => [text, Date.parse(text)]))
    rows.push(row)
  }
  answers.push(rows)
  await client.shutdown(1)
}
// Not before the pipe has taken it all.
process.stdout.write(JSON.stringify(answers), () => process.exit(0))
