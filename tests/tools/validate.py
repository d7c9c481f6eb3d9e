#!/usr/bin/env python3
"""Reads a list with a JSON schema and values, and prints whether the schema accepts each value."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".tools" / "fastjsonschema"))

import fastjsonschema  # noqa: E402, from the folder above


def is_valid(value):
    try:
        check(value)
    except fastjsonschema.JsonSchemaValueException:
        return False
    return True


schema, values = json.load(sys.stdin)
check = fastjsonschema.compile(schema, use_default=False)
print(json.dumps([is_valid(value) for value in values]))
