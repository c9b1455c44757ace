"""Prints, for each case, the local evaluation of posthog-python and the server's evaluation."""

import json
import logging
import sys

from posthog import Posthog

logging.disable(logging.CRITICAL)
host, project_key, personal_key = sys.argv[1:]
quiet = {"host": host, "sync_mode": True, "send": False}
local = Posthog(project_key, personal_api_key=personal_key, poll_interval=10**6, **quiet)
local.load_feature_flags()
remote = Posthog(project_key, **quiet)
answers = []
for case in json.load(sys.stdin):
    asked = {"person_properties": case["properties"]}
    answers.append(
        {
            "local": local.get_all_flags(
                case["distinct_id"], only_evaluate_locally=True, **asked
            ),
            "remote": remote.get_all_flags(case["distinct_id"], **asked),
        }
    )
json.dump(answers, sys.stdout)
