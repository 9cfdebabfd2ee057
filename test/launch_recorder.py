# SPDX-License-Identifier: Apache-2.0
"""What a launch file would start, without starting it: ``python test/launch_recorder.py``.

Launch files are evaluated with the real ``launch`` and ``launch_ros`` where they import. Elsewhere
small stand-ins take their place, with as much of their behaviour as the launch files here use;
the same tests run on both. As a program it prints the tables of arguments in docs/launch.md.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from vm_dynamics.paths import config_dir

ROOT = Path(__file__).resolve().parent.parent
FILES = ("vm_dynamics", "sim", "gazebo", "hardware")

# -- the stand-ins --------------------------------------------------------------------------------


class Entity:
    """Something in a description; a visit returns what it stands for."""

    def visit(self, context):
        return []


class LaunchDescription(Entity):
    def __init__(self, initial_entities=None):
        self.entities = list(initial_entities or [])

    def visit(self, context):
        return self.entities

    def get_launch_arguments(self):
        """Declarations, those of included files too; the first of a name counts."""
        out = {}
        for entity in self.entities:
            if isinstance(entity, DeclareLaunchArgument):
                out.setdefault(entity.name, entity)
            elif isinstance(entity, IncludeLaunchDescription):
                for inner in entity.source.description.get_launch_arguments():
                    out.setdefault(inner.name, inner)
        return list(out.values())


class LaunchContext:
    def __init__(self):
        self.launch_configurations = {}


class LaunchConfiguration:
    def __init__(self, name):
        self.name = name

    def perform(self, context):
        return context.launch_configurations[self.name]

    def describe(self):
        return f"LaunchConfig('{self.name}')"


class DeclareLaunchArgument(Entity):
    def __init__(self, name, *, default_value, description):
        assert isinstance(default_value, (str, LaunchConfiguration)), name
        self.name, self.description = name, description
        self.default_value = [default_value]

    def visit(self, context):
        if self.name not in context.launch_configurations:
            context.launch_configurations[self.name] = _performed(self.default_value[0], context)


class OpaqueFunction(Entity):
    def __init__(self, *, function):
        self.function = function

    def visit(self, context):
        return self.function(context)


class PythonLaunchDescriptionSource:
    def __init__(self, path):
        self.path = path

    @property
    def description(self):
        return load(self.path).generate_launch_description()


class IncludeLaunchDescription(Entity):
    def __init__(self, source, *, launch_arguments=()):
        self.source, self.launch_arguments = source, tuple(launch_arguments)

    def visit(self, context):
        for name, value in self.launch_arguments:
            context.launch_configurations[name] = _performed(value, context)
        return [self.source.description]


class ParameterValue:
    def __init__(self, value, *, value_type):
        assert isinstance(value, value_type)
        self.value = value


class Node(Entity):
    def __init__(
        self,
        *,
        package,
        executable,
        name,
        namespace,
        parameters=(),
        remappings=(),
        arguments=(),
        output,
    ):
        self.node_package, self.node_executable = package, executable
        self.name, self.namespace = name, namespace
        self.parameters, self.remappings = parameters, remappings
        self.arguments = arguments


class PackageNotFoundError(KeyError):
    pass


def get_package_prefix(name):
    raise PackageNotFoundError(name)


def _performed(value, context):
    return value if isinstance(value, str) else value.perform(context)


def _install():
    """Put the stand-ins where the launch files look for the real ones; returns the packages."""

    def module(name, *items, **more):
        out = types.ModuleType(name)
        out.__dict__.update({item.__name__: item for item in items}, **more)
        sys.modules[name] = out
        return out

    actions = (DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction)
    module("launch", LaunchDescription, LaunchContext)
    module("launch.actions", *actions)
    module("launch.substitutions", LaunchConfiguration)
    module("launch.launch_description_sources", PythonLaunchDescriptionSource)
    module("launch_ros")
    module("launch_ros.actions", Node)
    module("launch_ros.parameter_descriptions", ParameterValue)
    with suppress(ImportError):
        from ament_index_python import packages

        return packages
    packages = module(
        "ament_index_python.packages",
        PackageNotFoundError,
        get_package_prefix,
        get_package_share_directory=get_package_prefix,
    )
    module("ament_index_python", packages=packages)
    return packages


try:
    # the folder launch/ here is no package, but a bare `import launch` would take it for one
    from ament_index_python import packages
    from launch import LaunchContext  # noqa: F811
    from launch_ros.actions import Node  # noqa: F811

    REAL = True
except ImportError:
    REAL = False
    packages = _install()

from vm_dynamics.ros import launching  # noqa: E402 - imports the stand-ins, where they are needed

# -- what a description comes to ------------------------------------------------------------------


@dataclass
class Started:
    """A process that would be started.

    Attributes:
        layers: contents of its parameter files, as ROS reads them, in their order.
        files: those of them that were there before.
    """

    package: str
    executable: str
    full_name: str
    layers: list[dict[str, Any]]
    remappings: dict[str, str]
    arguments: list[str]
    files: list[str] = field(default_factory=list)

    @property
    def namespace(self):
        return self.full_name.rpartition("/")[0]

    @property
    def parameters(self):
        """Values of its parameters, nested ones with dots in their names."""
        rules = {}
        for layer in self.layers:
            for name, content in layer.items():
                rules.setdefault(name, {}).update(launching.flat(content["ros__parameters"]))
        out = {}
        for name, values in rules.items():  # of all that match, the last one to appear wins
            if launching.matches(name, self.full_name):
                out.update(values)
        return out

    def topic(self, name):
        """Full name of a topic after remapping."""
        rules = {self._full(old): self._full(new) for old, new in self.remappings.items()}
        return rules.get(self._full(name), self._full(name))

    def _full(self, name):
        if name.startswith("~/"):
            return f"{self.full_name}/{name[2:]}"
        return name if name.startswith("/") else f"{self.namespace}/{name}"

    def ros_arguments(self, folder):
        """Command line with which the process is started; parameters go into files there."""
        namespace = self.namespace or "/"
        out = ["-r", f"__node:={self.full_name.rpartition('/')[2]}", "-r", f"__ns:={namespace}"]
        for i, layer in enumerate(self.layers):
            path = Path(folder, f"{self.executable}-{i}.yaml")
            path.write_text(yaml.safe_dump(layer, sort_keys=False))
            out += ["--params-file", str(path)]
        for old, new in self.remappings.items():
            out += ["-r", f"{old}:={new}"]
        return out


@dataclass
class Launch:
    """What a launch file comes to.

    Attributes:
        started: its processes, by executable.
        configuration: values of all arguments at the end.
    """

    started: dict[str, Started]
    configuration: dict[str, str]


def load(path):
    """A launch file as a module."""
    name = re.sub(r"\W", "_", Path(path).stem)
    spec = importlib.util.spec_from_file_location(name, path)
    out = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(out)
    return out


def path_of(name):
    return ROOT / "launch" / f"{name}.launch.py"


def evaluate(name, arguments=None, started=None):
    """What a launch file of the package starts with these arguments, as of a command line.

    Args:
        name: of the launch file.
        arguments: as text.
        started: list that is filled on the way, for what was started before an exception.
    """
    context = LaunchContext()
    context.launch_configurations.update(arguments or {})
    out = [] if started is None else started
    _walk(load(path_of(name)).generate_launch_description(), context, out)
    names = [item.executable for item in out]
    assert len(set(names)) == len(names), f"twice: {names}"
    return Launch(dict(zip(names, out, strict=True)), dict(context.launch_configurations))


def arguments_of(name):
    """Arguments of a launch file, those of files that it includes too: (default, description)."""
    out = {}
    for item in load(path_of(name)).generate_launch_description().get_launch_arguments():
        default = "".join(_shown(token) for token in item.default_value)
        out[item.name] = default, item.description
    return out


def _shown(token):
    if isinstance(token, str):
        return token
    text = token.describe()
    # the real thing quotes text
    return text[1:-1] if text[:1] == text[-1:] == "'" else text


def _walk(entity, context, out):
    if isinstance(entity, Node):
        out.append(_of_real(entity, context) if REAL else _of_stand_in(entity))
        return
    for inner in entity.visit(context) or []:
        _walk(inner, context, out)


def _of_real(node, context):
    node._perform_substitutions(context)
    layers, files = [], []
    for path, is_file in node._Node__expanded_parameter_arguments or []:
        assert is_file
        # tuples have a tag of Python's
        layers.append(_plain(yaml.load(Path(path).read_text(), yaml.FullLoader)))
        if not Path(path).name.startswith("launch_params_"):
            files.append(path)
    return Started(
        node.node_package,
        node.node_executable,
        node.node_name,
        layers,
        dict(node.expanded_remapping_rules or []),
        list(node._Node__arguments or []),
        files,
    )


def _of_stand_in(node):
    namespace = f"/{node.namespace.strip('/')}".rstrip("/")
    full_name = f"{namespace}/{node.name}"
    layers, files = [], []
    for item in node.parameters:
        if isinstance(item, str):
            layers.append(yaml.safe_load(Path(item).read_text()))
            files.append(item)
        else:
            values = {name: _parameter(name, value) for name, value in item.items()}
            layers.append({full_name: {"ros__parameters": values}})
    return Started(
        node.node_package,
        node.node_executable,
        full_name,
        layers,
        dict(node.remappings),
        list(node.arguments),
        files,
    )


def _parameter(name, value):
    if isinstance(value, ParameterValue):
        return value.value
    # launch reads bare text as YAML, and knows no type of an empty list
    assert isinstance(value, (bool, int, float, list)) and value != [], (name, value)
    return value


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


# -- documentation --------------------------------------------------------------------------------


def tables():
    """Tables of arguments, in Markdown: of the suite, and what the other files add or change."""
    common = arguments_of("vm_dynamics")
    parts = []
    for name in FILES:
        rows = arguments_of(name)
        if name != FILES[0]:
            rows = {key: row for key, row in rows.items() if common.get(key) != row}
        lines = [f"### {name}.launch.py", "", "| argument | default | what |", "|---|---|---|"]
        for key, (default, what) in rows.items():
            default = default.replace(str(config_dir()), "config")
            default = default.replace("LaunchConfig('rviz')", "as rviz")
            lines.append(f"| `{key}` | {f'`{default}`' if default else ''} | {what} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        print(tables())
