"""Flags through PostHog's OpenFeature provider: `open_feature.py HOST`. Prints the values as JSON."""

import json
import sys

from openfeature import api
from openfeature.contrib.provider.posthog import PostHogProvider
from openfeature.evaluation_context import EvaluationContext
from posthog import Posthog

host = sys.argv[1]


def values(**options):
    sdk = Posthog("phc_test", host=host, flush_interval=0.1, **options)
    api.set_provider_and_wait(PostHogProvider(sdk))
    client = api.get_client()
    anna = EvaluationContext("anna", {"plan": "pro"})
    of_group = EvaluationContext(
        "anna", {"groups": {"company": "acme"}, "group_properties": {"company": {"seats": 12}}}
    )
    missing = client.get_boolean_details("no-such-flag", True, anna)
    found = {
        "on": client.get_boolean_value("on", False, anna),
        "off": client.get_boolean_value("off", True, anna),
        "colour": client.get_string_value("colour", "none", anna),
        "payload": client.get_object_value("colour", {}, anna),
        "of-company": client.get_boolean_value("of-company", False, of_group),
        "missing": [missing.value, missing.error_code],
        "reason": client.get_boolean_details("on", False, anna).reason,
    }
    sdk.shutdown()
    return found


print(json.dumps({"remote": values(), "local": values(secret_key="phx_test")}))
