"""The facts that each setting declares on its field, and the tables that follow from them.

The command line, the rules of resumed, compared and merged runs, the refusal of unread settings and the
example config read these facts, so none of them has a list of settings of its own.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

_Fact = TypeVar("_Fact")

Text = Annotated[str, Field(min_length=1)]
# The headings of the help and of the example config.
Panel = Literal["Tasks", "Agent", "Model", "Grading", "Attempts", "Sandboxes"]
# The part of a run that reads a setting: any run, the agent, an agent with a model, tasks whose agent calls
# tools, tasks with a sandbox of their own, tasks with an image of their own, tasks that need any sandbox, or
# tasks that set their own timeouts.
Reader = Literal["run", "agent", "model", "tools", "own sandbox", "task image", "sandbox", "task timeouts"]


class Keys(BaseModel):
    """The keys of a config below one heading. Each field declares a `Setting`."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        # The help of a command needs only the facts.
        defer_build=True,
    )

    panel: ClassVar[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The rules for one key of a config."""

    # Whether a resumed run may change it freely because it changes no verdict, only if the user accepts the
    # change, or never because it decides which attempts there are and what they start from.
    on_resume: Literal["free", "ask", "fixed"]
    # Whether a difference makes a comparison of runs unfair, is shown, or is not looked at, because it
    # changes no verdict, or because another field of the manifest shows its effect better.
    difference: Literal["unfair", "shown", "hidden"]
    read_by: Reader = "run"
    # Whether a run without a model refuses another value than the default.
    needs_model: bool = False
    # Whether the shards of one run may differ in it, because it changes no verdict, or because another field
    # of the manifest has its effect, such as the hash of a file whose path differs between machines.
    differs_in_shards: bool = False
    # Whether the value in a run folder of somebody else needs --trust, is examined by rules of its own in
    # `harness.runs.trust`, or is taken, because it starts nothing, reaches nothing and weakens nothing.
    foreign: Literal["refused", "examined", "harmless"] = "refused"
    # Whether a replay takes it from the recorded run.
    is_replayed: bool = False
    # The type of the keyword argument of `harness.run`, if it does not follow from the field's.
    keyword: str | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """The command-line option that sets a value. It may be repeated if the value is a list or a mapping."""

    help: str
    metavar: str = ""
    # Without a name it follows from the key, such as `--sample-size` for `sample_size`.
    name: str = ""
    short: str = ""
    completes: Literal["agent", "benchmark", "run"] | None = None
    is_path: bool = False
    # Whether `harness run` takes several values, and makes a run for each.
    is_axis: bool = False


class Aliases(tuple[str, ...]):
    """Names of an option in other tools, and near misses. An error suggests the option for them."""

    def __new__(cls, *names: str) -> Aliases:
        return super().__new__(cls, names)


@dataclass(frozen=True, slots=True)
class Useless:
    """A condition that leaves a setting without effect, so that a run refuses it."""

    holds: Callable[[Any], bool]
    # The message after the name of the option, and what the user can do instead of leaving it out.
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Example:
    """The value of a setting in an example config."""

    # A function takes the definition of the benchmark, and returns None for a benchmark without the setting.
    value: Any
    # Whether the example sets it, instead of showing it in a comment.
    is_set: bool = False
    # The only agent in whose examples it is.
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class KeyOption:
    """An option with the key that it sets, such as `generation.temperature`, and the type of the value."""

    key: str
    option: Option
    kind: Any
    panel: Panel

    @property
    def name(self) -> str:
        return self.option.name or "--" + self.key.rpartition(".")[2].replace("_", "-")


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a config with everything that its field declares."""

    name: str
    panel: Panel
    kind: Any
    description: str
    rules: Setting
    # Its own option, or the options of the keys in its group.
    options: tuple[KeyOption, ...]
    aliases: tuple[str, ...]
    useless: Useless | None
    example: Example | None
    # The model of the settings in it. It may hold several of them by names of their own.
    group: type[BaseModel] | None
    # Whether its values are not text, so that the text of a variable is read as YAML.
    is_typed: bool


def list_keys(model: type[BaseModel]) -> Mapping[str, Key]:
    """Return the keys of a config by their names. Raises TypeError for a field that declares no Setting."""
    return {name: _read_key(model, name, field) for name, field in model.model_fields.items()}


def _read_key(model: type[BaseModel], name: str, field: FieldInfo) -> Key:
    rules = _find_fact(field, Setting)
    if rules is None:
        raise TypeError(f"{model.__name__}.{name} declares no Setting")
    owner: Any = next(each for each in model.__mro__ if name in inspect.get_annotations(each))
    group = next(_list_models(field.annotation), None)
    fields = {name: field} | {
        f"{name}.{inner}": each for inner, each in (group.model_fields if group else {}).items()
    }
    declared = {key: (each, _find_fact(each, Option)) for key, each in fields.items()}
    return Key(
        name=name,
        panel=owner.panel,
        kind=field.annotation,
        description=" ".join((field.description or "").split()),
        rules=rules,
        options=tuple(
            KeyOption(key, option, each.annotation, owner.panel)
            for key, (each, option) in declared.items()
            if option is not None
        ),
        aliases=_find_fact(field, Aliases) or (),
        useless=_find_fact(field, Useless),
        example=_find_fact(field, Example),
        group=group,
        is_typed=_is_typed(field.annotation),
    )


def _find_fact(field: FieldInfo, kind: type[_Fact]) -> _Fact | None:
    return next((fact for fact in field.metadata if isinstance(fact, kind)), None)


def list_members(kind: Any) -> list[Any]:
    """Return the members of a union but None, or the type itself. Annotations of types are left out."""
    if get_origin(kind) is Annotated:
        return list_members(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return [each for inner in get_args(kind) if inner is not type(None) for each in list_members(inner)]
    return [kind]


def _list_models(kind: Any) -> Iterator[type[BaseModel]]:
    for member in list_members(kind):
        if isinstance(member, type) and issubclass(member, BaseModel):
            yield member
        for inner in get_args(member) if get_origin(member) in (list, dict) else ():
            yield from _list_models(inner)


def _is_typed(kind: Any) -> bool:
    for member in list_members(kind):
        if get_origin(member) is list:
            return _is_typed(get_args(member)[0])
        if isinstance(member, type) and issubclass(member, BaseModel):
            return any(_is_typed(field.annotation) for field in member.model_fields.values())
        if member in (int, float, bool):
            return True
    return False
