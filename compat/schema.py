"""Runs Schemathesis against /api/schema/: `schema.py HOST [SECONDS]`.

Schemathesis generates valid and invalid requests and chains of them from the OpenAPI document, and
checks the responses against it. Path parameters are real ids, so that requests get past 404; writes
and deletes use the newest object of a kind, so that older ones remain readable. Without SECONDS every
run sends the same requests.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import requests

host, seconds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
KEY = {"Authorization": "Bearer phx_test"}
WRITES = {"post", "put", "patch", "delete"}

# Checks that do not apply:
EXCLUDED = {
    # SDK endpoints accept unknown and malformed fields for compatibility.
    "negative_data_rejection",
    # Validation beyond the schema (filters, expressions, unique names) rejects more.
    "positive_data_acceptance",
    # Missing headers of capture v1 give 401 or 400, whichever is checked first.
    "missing_required_header",
}
# Endless streams.
SKIPPED = ["/api/projects/{project_id}/events/live", "/api/projects/{project_id}/pulse"]


def call(method, path, **sent):
    answer = requests.request(method, host + path, headers=KEY, timeout=60, **sent)
    return answer.json() if answer.ok and answer.content else None


def listed(path):
    found = call("GET", path) or {}
    return found.get("results", []) if isinstance(found, dict) else found


def name_of(thing):
    return next((thing[key] for key in ("id", "uuid") if thing.get(key) is not None), None)


def parameters(path, method):
    """Values of the path parameters, each taken from the list endpoint that prefixes it."""
    known = {}
    own = {"project_id": 1, "organization_id": organization}
    if method in WRITES and (path.endswith(("{project_id}", "{organization_id}")) or "token" in path):
        own = doomed if method == "delete" else spare
    for before, name in ((path[: path.index("{" + n + "}")], n) for n in names(path)):
        if name in own:
            known[name] = own[name]
        elif name == "token":
            known[name] = "phc_test"
        elif before == "/api/users/":
            known[name] = "@me"
        else:
            things = [name_of(thing) for thing in listed(before.format(**known)) if isinstance(thing, dict)]
            if not things or things[0] is None:
                break
            things = [thing for thing in things if thing not in ours] or things
            known[name] = things[-1 if method in WRITES else 0]
    return known


def names(path):
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


# Two of each, so that one remains after deletes.
person = {"type": "person", "key": "plan", "operator": "exact", "value": "pro"}
everybody = {"groups": [{"properties": [], "rollout_percentage": 50}]}
trends = {"kind": "TrendsQuery", "series": [{"kind": "EventsNode", "event": "looked"}]}
for number in "12":
    events = [
        {"event": "looked", "distinct_id": f"d{number}", "properties": {"$set": {"plan": "pro"}, "$groups": {"company": "acme"}}},
        {"event": "$groupidentify", "distinct_id": "d1", "properties": {"$group_type": "company", "$group_key": number, "$group_set": {"seats": 1}}},
    ]
    call("POST", "/batch/", json={"api_key": "phc_test", "batch": events})
    for path, body in {
        "organizations/@current/members": {"email": f"m{number}@example.com", "password": "mild steel teapot", "first_name": "M"},
        "organizations/@current/roles": {"name": f"r{number}"},
        "personal_api_keys": {"label": f"k{number}", "scopes": ["query:read"]},
        "projects/1/actions": {"name": f"a{number}", "steps": [{"event": "looked"}]},
        "projects/1/annotations": {"content": "noted"},
        "projects/1/cohorts": {"name": "c", "filters": {"properties": {"type": "OR", "values": [{"type": "AND", "values": [person]}]}}},
        "projects/1/dashboards": {"name": "d"},
        "projects/1/event_definitions": {"name": f"e{number}"},
        "projects/1/feature_flags": {"key": f"f{number}", "filters": everybody},
        "projects/1/insights": {"name": "i", "dashboards": [1], "query": trends},
    }.items():
        assert call("POST", f"/api/{path}/", json=body), path
ours = {call("GET", "/api/personal_api_keys/@current/")["id"]}
ours |= {member["id"] for member in listed("/api/organizations/@current/members/") if member["level"] == 15}
organization = call("GET", "/api/organizations/@current/")["id"]
spare, doomed = (
    {
        "project_id": call("POST", "/api/projects/", json={"name": name})["id"],
        "organization_id": call("POST", "/api/organizations/", json={"name": name})["id"],
    }
    for name in ("Spare", "Doomed")
)
# Its creation takes seconds, and Schemathesis waits ten; later requests return it at once.
assert call("POST", "/api/projects/1/demo/"), "demo"
document = call("GET", "/api/schema/")
# Schemathesis enumerates the combinations of nested unions: a body with a query or a tree of conditions
# would take tens of thousands of requests. Bodies get any object there, which other tests cover;
# responses are checked against the whole document.
UNIONS = {
    "CohortFilters",
    "DashboardTemplate",
    "FeatureFlagFields",
    "FilterOverrides",
    "FlagFilters",
    "LegacyCohortGroup",
    "LegacyFilters",
    "Query",
    "StoredQuery",
}
schemas = document["components"]["schemas"]


def is_union(schema):
    parts = [schema, *schema.get("anyOf", [])] if isinstance(schema, dict) else []
    return any(part.get("$ref", "").rsplit("/", 1)[-1] in UNIONS for part in parts)


def without_unions(field):
    if is_union(field):
        return {"type": "object"}
    if isinstance(field, dict) and is_union(field.get("items")):
        return {"type": "array", "items": {"type": "object"}}
    return field


for methods in document["paths"].values():
    for operation in methods.values():
        for content in operation.get("requestBody", {}).get("content", {}).values():
            sent = content["schema"]
            for part in sent.get("allOf", [sent]):
                body = schemas.get(part.get("$ref", "").rsplit("/", 1)[-1], {})
                if is_union(body):
                    content["schema"] = {"type": "object"}
                fields = body.get("properties", {})
                fields.update({key: without_unions(field) for key, field in fields.items()})


config = ["seed = 1\n[checks]"]
for check in EXCLUDED:
    config.append(f"{check}.enabled = false")
for path in SKIPPED:
    config.append(f'[[operations]]\ninclude-path = "{path}"\nenabled = false')
for path, methods in document["paths"].items():
    for method in methods:
        known = parameters(path, method)
        if known:
            config.append(f'[[operations]]\ninclude-name = "{method.upper()} {path}"\n[operations.parameters]')
            config += [f'"path.{name}" = {json.dumps(value)}' for name, value in known.items()]

with tempfile.TemporaryDirectory() as directory:
    file = Path(directory, "schemathesis.toml")
    file.write_text("\n".join(config))
    described = Path(directory, "schema.json")
    described.write_text(json.dumps(document))
    run = [Path(sys.executable).with_name("st"), "--config-file", file, "run", described, "--url", host]
    run += ["--header", f"Authorization: {KEY['Authorization']}", "--continue-on-failure"]
    run += ["--no-color", "--warnings", "off"]
    # Each phase gets its own time budget: otherwise stateful chains, which run last, would get none.
    if seconds:
        share = ["--max-time", str(int(seconds) // 2), "--phases"]
        parts = [[*share, "stateful"], [*share, "coverage,fuzzing"]]
    else:
        parts = [["--max-examples", "20", "--phases", "stateful"], ["--phases", "coverage"]]
    failed = [subprocess.run([*run, *part], cwd=directory).returncode for part in parts]
    sys.exit(any(failed))
