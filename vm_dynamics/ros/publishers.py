# SPDX-License-Identifier: Apache-2.0
"""Who else publishes what only one should: with two sources of joint states a robot jumps."""

from __future__ import annotations

import time
from typing import Any

GRAPH_POLL_PERIOD = 0.1  # [s] between looks at the graph
MAX_PUBLISHERS_SHOWN = 4  # publishers that a message names


class SolePublishers:
    """Watches topics that should have one publisher.

    Attributes:
        conflicts: names of all publishers of each topic that has several, by the topic's name in
            the node.
        due: when to look next, steady clock [s].
    """

    def __init__(self, node: Any) -> None:
        """Watch nothing yet."""
        self._node = node
        self._watched: dict[Any, tuple[str, str]] = {}
        self.conflicts: dict[str, str] = {}
        self.due = 0.0

    def watch(self, topic: str, entity: Any) -> None:
        """Watch the topic of a subscription or publisher, whatever it is mapped to."""
        self._watched = {**self._watched, entity: (topic, entity.topic_name)}

    def forget(self, entity: Any) -> None:
        """Watch it no more."""
        self._watched = {e: names for e, names in self._watched.items() if e is not entity}

    def look(self) -> None:
        """Count publishers, and name them where there are several."""
        self.due = time.monotonic() + GRAPH_POLL_PERIOD
        found = {}
        for topic, full in self._watched.values():
            # some microseconds; the names take ten times as long
            if self._node.count_publishers(full) > 1:
                who = sorted(_name(info) for info in self._node.get_publishers_info_by_topic(full))
                if len(who) > 1:
                    more = ", ..." if len(who) > MAX_PUBLISHERS_SHOWN else ""
                    found[topic] = ", ".join(who[:MAX_PUBLISHERS_SHOWN]) + more
        self.conflicts = found

    @property
    def message(self) -> str:
        """The conflicts in words, empty if there are none."""
        return "; ".join(
            f"{topic} has more than one publisher: {who}" for topic, who in self.conflicts.items()
        )


def _name(info: Any) -> str:
    return f"{info.node_namespace.rstrip('/')}/{info.node_name}"
