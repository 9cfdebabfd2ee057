# SPDX-License-Identifier: Apache-2.0
"""The tables of the README are those of the tools; its code and commands: test_docs.py."""

import re
from pathlib import Path

import validation

from vm_dynamics.cli import _parser
from vm_dynamics.demo import SCENARIOS
from vm_dynamics.ros import reference

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_the_errors_found_are_below_those_of_the_validation_table():
    stated = dict(
        re.findall(r"^\| ([^|]+) \| [^|]+ \| ([0-9]e-\d+) \| [0-9e-]+ \|$", README, re.M)
    )
    for row in validation.measure():
        assert row.error < float(stated.pop(row.what)), row
    assert not stated


def test_the_speed_table_is_that_of_the_last_benchmark():
    results = (ROOT / "bench/results.md").read_text()
    table = re.search(r"## Ratios at a glance\n\n(.*?)\n\n", results, re.S).group(1)
    assert table in README


def test_the_topics_are_those_of_the_reference():
    assert reference.summary() in README


def test_every_scenario_of_the_demo_is_described():
    for page in (README, (ROOT / "docs/demo.md").read_text()):
        assert set(re.findall(r"^\| `(\w+)`(?: \(the default\))? \|", page, re.M)) >= set(
            SCENARIOS
        )


def test_every_command_is_described():
    commands = _parser()._subparsers._group_actions[0].choices
    assert set(re.findall(r"^\| `vm_dynamics (\w+)", README, re.M)) == set(commands)
