// Prints, for each case, the local evaluation of posthog-node and the server's evaluation.
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'

const [directory, host, projectKey, personalApiKey] = process.argv.slice(2)
const { PostHog } = createRequire(directory + '/')('posthog-node')
const local = new PostHog(projectKey, { host, personalApiKey, featureFlagsPollingInterval: 1e8 })
await local.waitForLocalEvaluationReady()
const remote = new PostHog(projectKey, { host })
const answers = []
for (const each of JSON.parse(readFileSync(0, 'utf8'))) {
  const asked = { personProperties: each.properties, disableGeoip: true }
  answers.push({
    local: await local.getAllFlags(each.distinct_id, { ...asked, onlyEvaluateLocally: true }),
    remote: await remote.getAllFlags(each.distinct_id, asked),
  })
}
// Not before the pipe has taken it all.
process.stdout.write(JSON.stringify(answers), () => process.exit(0))
