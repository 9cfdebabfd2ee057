# SPDX-License-Identifier: Apache-2.0
"""The pages are true: their code runs and prints what they say, their commands and links exist.

Every ``python`` block runs, those of a page one after the other in one namespace. Every ``bash``
block, and every command in running text, is held against the tool that it calls: our own argument
parser, the launch files, the nodes, the Makefile. Formulas and what a program prints have no
language.
"""

import ast
import contextlib
import inspect
import io
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from launch_recorder import FILES, arguments_of

import vm_dynamics as vm
from vm_dynamics.cli import _parser
from vm_dynamics.paths import robot_names
from vm_dynamics.ros import reference

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
# What a block prints stands behind it, in a block of its own or in the line.
PRINTED = re.compile(r"\n\nprints(?:\n\n```\n(.*?)```| `([^`]+)`(?: and `([^`]+)`)?)", re.S)
LANGUAGES = {"", "python", "bash", "yaml"}
# Commands that others make; what they are given is not looked at.
FOREIGN = {"cd", "colcon", "docker", "git", "kill", "pkill", "rosdep", "source", "touch"}


def blocks(page, language):
    """Blocks of a page in a language, each with what the page says that it prints."""
    text = page.read_text()
    for match in FENCE.finditer(text):
        if match[1] == language:
            said = PRINTED.match(text, match.end())
            yield match[2], said and "\n".join(filter(None, said.groups()))


def plain(printed):
    """Text without what differs from machine to machine: blanks, the sign of a zero."""
    return re.sub(r"-(?=0\.?(?![\d.]))", "", printed).split()


@each_page
def test_every_block_has_a_language_that_is_known(page):
    assert {match[1] for match in FENCE.finditer(page.read_text())} <= LANGUAGES


@pytest.mark.parametrize(
    "page", [page for page in PAGES if [*blocks(page, "python")]], ids=lambda page: page.name
)
def test_the_python_of_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    (tmp_path / "config").symlink_to(ROOT / "config")
    monkeypatch.chdir(tmp_path)  # for what an example writes
    names = {}
    for code, said in blocks(page, "python"):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, page.name, "exec"), names)
        if said:
            assert plain(out.getvalue()) == plain(said)


def test_the_yaml_of_the_pages_is_read_by_the_library(tmp_path):
    robot = vm.load(ROOT / "config/robots/quad_arm1.urdf")
    for text, _ in blocks(ROOT / "docs/propulsion.md", "yaml"):
        path = tmp_path / "propulsion.yaml"
        path.write_text(text)
        vm.Propulsion.load(robot, path)
    others = [page for page in PAGES if page.name != "propulsion.md"]
    assert all(yaml.safe_load(text) for page in others for text, _ in blocks(page, "yaml"))


# -- commands -------------------------------------------------------------------------------------


def commands(page):
    """Commands of a page, as lists of words: of its blocks, and in its running text."""
    text = page.read_text()
    for block, _ in blocks(page, "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            yield from split(line)
    rest = FENCE.sub("", text)
    start = r"(?:vm_dynamics|make|ros2|python3?|pip|\.venv/bin/\w+) [^`]+"
    for span in re.findall(rf"`({start})`", rest):
        span = span.replace("\\|", "|")
        yield from split(re.sub(r"[\[\]](?![^']*')", "", span) if "[--" in span else span)


def split(line):
    words = shlex.split(line, comments=True)
    command = []
    for word in [*words, "&&"]:
        if word in ("&&", ";", "|"):
            if command:
                yield command
            command = []
        else:
            command.append(word)


def check(words):
    """Hold one command against what it calls.

    Raises:
        AssertionError: there is no such thing.
    """
    name, *rest = words
    name = name.removeprefix(".venv/bin/")
    if rest[:1] == ["..."] or rest == ["..."]:
        rest = []
    if name == "vm_dynamics":
        check_own(rest)
    elif name == "make":
        check_make(rest)
    elif name == "ros2":
        if rest[1:]:  # else it is spoken of by its name
            ROS2[rest[0]](rest[1:])
    elif name in reference.NODES:
        check_node(name, rest)
    elif name in ("python", "python3"):
        assert rest[0] == "-m" or (ROOT / rest[0]).is_file(), rest
    elif name == "pip":
        check_pip(rest)
    else:
        assert name in FOREIGN, f"{name!r} is a command that this test does not know"


def check_own(words):
    parser = _parser()
    if len(words) == 1:  # spoken of by its name
        assert words[0] in parser._subparsers._group_actions[0].choices
        return
    if words[-1] == "--help":
        return check_own(words[:-1])
    try:
        parser.parse_args([word for word in words if word != "..."])
    except SystemExit:
        raise AssertionError(f"vm_dynamics refuses {words}") from None


def check_make(words):
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        variable, equals, value = word.partition("=")
        if equals:
            assert f"$({variable})" in makefile, word
            if variable == "DEMO_ARGS":
                check_own(["demo", *("tumbling" if w == "..." else w for w in value.split())])
        else:
            assert re.search(rf"^{re.escape(word)}:.*## ", makefile, re.M), f"make {word}"


def check_launch(words):
    words = [word for word in words if word not in ("--noninteractive", "--show-args", "...")]
    if not words:
        return
    package, file, *arguments = words
    assert package == "vm_dynamics"
    name = file.removesuffix(".launch.py")
    assert name in FILES and (ROOT / "launch" / file).is_file(), file
    declared = arguments_of(name)
    for argument in arguments:
        key, assigned, value = argument.partition(":=")
        assert assigned and key in declared, f"{file} has no argument {argument}"
        if key == "robot" and value != "...":
            assert value in robot_names() or Path(value).suffix in (".urdf", ".xacro"), value


def check_run(words):
    package, executable, *rest = words
    assert package == "vm_dynamics"
    check([executable, *rest])


def check_node(node, words):
    if not words or words == ["--ros-args"]:
        return
    assert words[0] == "--ros-args", words
    parameters = parameters_of(node)
    topics = {topic.name for topic in reference.TOPICS[node]}
    pairs = [word for word in words[1:] if word != "..."]
    for option, value in zip(pairs[::2], pairs[1::2], strict=True):
        key = value.partition(":=")[0]
        assert key in {"-p": parameters, "-r": topics}[option], f"{node} has no {key}"


def check_param(words):
    if len(words) < 3:  # spoken of by its name, as `ros2 param dump`
        return
    _, node, name, *_ = words
    assert name in parameters_of(node.rpartition("/")[2]), words


def check_service(words):
    _, service, kind, *_ = words
    node, _, name = service.rpartition("/")
    topics = {topic.name: topic.kinds for topic in reference.TOPICS[node.rpartition("/")[2]]}
    assert kind.replace("/srv/", "/") in topics[f"~/{name}"], words


def check_lifecycle(words):
    assert words[1].rpartition("/")[2] in reference.NODES


def check_pip(words):
    extras = setup_value("extras_require")
    for word in words:
        if word.startswith("vm_dynamics["):
            assert set(word[12:-1].split(",")) <= extras, word


ROS2 = {
    "launch": check_launch,
    "run": check_run,
    "param": check_param,
    "service": check_service,
    "lifecycle": check_lifecycle,
    "topic": lambda words: None,
    "bag": lambda words: None,
}


def parameters_of(node):
    kind = reference.NODES[node]
    return {kind.ros_name(item.name) for item in fields(kind)} | {"use_sim_time"}


def setup_value(name):
    """Keys of a mapping that setup.py hands to setuptools."""
    for node in ast.walk(ast.parse((ROOT / "setup.py").read_text())):
        if isinstance(node, ast.keyword) and node.arg == name:
            return {key.value for key in node.value.keys}
    raise KeyError(name)


@each_page
def test_every_command_of_a_page_is_one_that_its_tool_takes(page):
    for words in commands(page):
        check(words)


@pytest.mark.parametrize(
    "line",
    [
        "vm_dynamics nonsense",
        "vm_dynamics show robot.urdf --bases SE3",
        "vm_dynamics demo --scenario nonsense",
        "make nonsense",
        "make demo NONSENSE=1",
        "make demo DEMO_ARGS='--nonsense 1'",
        "ros2 launch vm_dynamics nonsense.launch.py",
        "ros2 launch vm_dynamics sim.launch.py world:=earth",
        "ros2 launch vm_dynamics sim.launch.py robot:=satellite",
        "ros2 run vm_dynamics nonsense_node",
        "ros2 run vm_dynamics observer_node --ros-args -p law:=2",
        "ros2 run vm_dynamics observer_node --ros-args -r poses:=/mocap/pose",
        "ros2 param set /observer_node law 2",
        "ros2 service call /compensator_node/enable std_srvs/srv/Trigger",
        "ros2 lifecycle set /nonsense deactivate",
        "pip install 'vm_dynamics[nonsense]'",
        "python test/nonsense.py",
        "nonsense",
    ],
)
def test_a_wrong_command_is_found(line):
    with pytest.raises((AssertionError, KeyError)):
        for words in split(line):
            check(words)


def test_enough_commands_are_found():
    found = [" ".join(words[:2]) for page in PAGES for words in commands(page)]
    for start, least in {"ros2 launch": 15, "vm_dynamics": 12, "make": 8, "ros2 run": 3}.items():
        assert sum(command.startswith(start) for command in found) >= least, start


# -- names and links ------------------------------------------------------------------------------


@each_page
def test_every_name_of_the_library_exists(page):
    for name in re.findall(r"\bvm((?:\.[A-Za-z_]\w*)+)", page.read_text()):
        found = vm
        for part in name[1:].split("."):
            assert hasattr(found, part), f"vm{name}"
            found = getattr(found, part)


def calls(page):
    """Calls in running text: what is called, and the keywords that it is given."""
    for span in re.findall(r"`([^`]+)`", FENCE.sub("", page.read_text())):
        for owner, name, given in re.findall(r"\b(vm|robot)\.(\w+)\(([^()]*)", span):
            found = getattr(vm if owner == "vm" else vm.Robot, name, None)
            if callable(found):
                yield found, set(re.findall(r"(?:^|[\s,])(\w+)=(?!=)", given))


@each_page
def test_every_keyword_is_one_of_the_function(page):
    for function, keywords in calls(page):
        assert keywords <= set(inspect.signature(function).parameters), function


def test_the_arguments_of_load_are_those_of_its_signature():
    readme = (ROOT / "README.md").read_text()
    shown = re.search(r"`vm\.load\(urdf, ([^)]*)\)`", readme)[1]
    assert shown.split(", ") == [f"{name}=" for name in inspect.signature(vm.load).parameters][1:]


def anchors(page):
    """Anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", "-") for text in headings}


@each_page
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path) if path else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), target


@each_page
def test_every_file_that_a_page_names_exists(page):
    folders = r"(?:vm_dynamics|test|bench|config|docs|launch|examples|\.github)"
    for name in re.findall(rf"`({folders}/[\w./-]+\.\w+)`", page.read_text()):
        assert (ROOT / name).is_file(), name


def test_the_index_lists_every_page():
    listed = re.findall(r"\]\((\w+\.md)", (ROOT / "docs/README.md").read_text())
    assert sorted(listed) == sorted(page.name for page in DOCS if page.name != "README.md")
