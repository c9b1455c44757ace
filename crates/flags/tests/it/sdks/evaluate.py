"""Reads one JSON document, answers what posthog-python evaluates locally, as JSON."""

import json
import logging
import sys

from posthog import Posthog

logging.disable(logging.CRITICAL)
answers = []
for world in json.load(sys.stdin):
    client = Posthog("phc_x", host="http://127.0.0.1:9", sync_mode=True, send=False)
    client._update_flag_state(world["definitions"])
    rows = []
    for case in world["cases"]:
        found, _, _ = client._get_all_flags_and_payloads_locally(
            case["distinct_id"],
            groups=case["groups"],
            person_properties=case["person_properties"],
            group_properties=case["group_properties"],
            device_id=case["device_id"],
        )
        rows.append(found["featureFlags"])
    answers.append(rows)
json.dump(answers, sys.stdout)
