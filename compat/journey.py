"""Script for posthog-python: `journey.py HOST JOURNEY`. Prints the SDK's results as JSON."""

import json
import sys
from datetime import datetime, timezone

from posthog import Posthog

host, journey = sys.argv[1:3]
UUID = "018dfa00-0000-7000-8000-000000000001"


def client(**options):
    failures = []
    options = {"flush_interval": 0.1, "on_error": lambda error, _: failures.append(str(error))} | options
    made = Posthog("phc_test", host=host, **options)
    made.failures = failures
    return made


def finish(made, answer=None):
    made.shutdown()
    print(json.dumps({"failures": made.failures, "answer": answer}))


def capture(**options):
    sdk = client(**options)
    sdk.capture("looked", distinct_id="visitor", properties={"page": "/"})
    sdk.capture("$identify", distinct_id="anna", properties={"$anon_distinct_id": "visitor", "$set": {"plan": "free"}})
    sdk.alias("laptop", "anna")
    sdk.capture("bought", distinct_id="laptop", properties={"amount": 9.5}, groups={"company": "acme"})
    sdk.set(distinct_id="anna", properties={"plan": "paid"})
    sdk.set_once(distinct_id="anna", properties={"plan": "ignored", "first": 1})
    sdk.group_identify("company", "acme", {"seats": 12})
    sdk.capture(
        "dated", distinct_id="anna", uuid=UUID, timestamp=datetime(2024, 2, 29, 12, 30, tzinfo=timezone.utc)
    )
    sdk.capture("nobody's", properties={"$process_person_profile": False})
    finish(sdk)


def many():
    """Sends events while the server is restarted."""
    sdk = client(flush_at=5, max_retries=30)
    for number in range(300):
        sdk.capture("counted", distinct_id="d", properties={"number": number})
        if number % 50 == 49:
            print(number, flush=True)
            sys.stdin.readline()
    finish(sdk)


def flags():
    """Remote and local evaluation, which must agree."""
    sdk = client()
    about = {"person_properties": {"plan": "pro"}}
    remote = sdk.get_all_flags("anna", **about)
    called = sdk.get_feature_flag("colour", "anna", **about)
    payload = sdk.get_feature_flag_payload("colour", "anna", **about)
    local = client(personal_api_key="phx_test")
    local.load_feature_flags()
    decided = local.get_all_flags("anna", only_evaluate_locally=True, **about)
    local.shutdown()
    finish(sdk, {"remote": remote, "local": decided, "called": called, "payload": payload})


JOURNEYS = {
    "plain": capture,
    "gzip": lambda: capture(gzip=True),
    "at once": lambda: capture(sync_mode=True),
    "v1": lambda: capture(capture_mode="v1"),
    "many": many,
    "flags": flags,
}
JOURNEYS[journey]()
