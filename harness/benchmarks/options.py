"""Options of a benchmark: the choice of its tasks, and the rules for grading answers.

A benchmark that has options declares them as a model, and its `Definition.configure` returns the definition
for given values. Values come from Python (`load_benchmark(name, release="v1")`), from `options` in a config,
or from `--option release=v1`, and all are validated the same way.
"""

from __future__ import annotations

import datetime
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.core.errors import UsageError, unknown_name
from harness.core.invalid_values import describe_requirement

# A value of these types chooses among things that the benchmark knows. It cannot name a server or a file.
_CLOSED = (bool, int, float, datetime.date, Enum, type(None))
_COLLECTIONS = (list, tuple, set, frozenset)


class Options(BaseModel):
    """The base of all models of options. An unknown name is an error."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )


Some = TypeVar("Some", bound=Options)


def option_names(model: type[Options]) -> list[str]:
    """Return the names of all options, sorted, as `--option` takes them: `protocol`, `kg.strict`."""
    names: list[str] = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Options):
            names += [f"{name}.{each}" for each in option_names(inner)]
        else:
            names.append(name)
    return sorted(names)


def validate_options(model: type[Some], values: Mapping[str, Any], benchmark: str) -> Some:
    """Return the options with these values. Raises UsageError with the name of the option."""
    for _, problem in list_option_problems(model, values, benchmark):
        raise problem
    return model.model_validate(dict(values))


def list_option_problems(
    model: type[Options] | None, values: Mapping[str, Any], benchmark: str
) -> list[tuple[tuple[str, ...], UsageError]]:
    """Return an error for each option that cannot be used, with the keys that lead to it.

    Args:
        model: the model of the options, None for a benchmark that checks them itself.
        values: the values by the names of the options.
        benchmark: the name of the benchmark.
    """
    if model is None:
        return []
    unknown = [name for name in values if name not in model.model_fields]
    problems: list[tuple[tuple[str, ...], UsageError]] = [
        ((name,), _unknown_option(name, model, benchmark)) for name in unknown
    ]
    try:
        model.model_validate({name: value for name, value in values.items() if name not in unknown})
    except ValidationError as error:
        problems += [
            (tuple(map(str, each["loc"])), _explain(dict(each), model, benchmark)) for each in error.errors()
        ]
    return problems


def _explain(problem: dict[str, Any], model: type[Options], benchmark: str) -> UsageError:
    raised = problem.get("ctx", {}).get("error")
    if isinstance(raised, UsageError):
        return raised
    place = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden" and place not in option_names(model):
        return _unknown_option(place, model, benchmark)
    return UsageError(f"{benchmark}: option '{place}' {describe_requirement(problem)}")


def _unknown_option(name: str, model: type[Options], benchmark: str) -> UsageError:
    names = option_names(model)
    # A user who forgets the group of an option gets it as the suggestion.
    full = [each for each in names if each.rpartition(".")[2] == name.lower()]
    unknown = unknown_name("option", name, names)
    hint = f"did you mean '{full[0]}'? known: {', '.join(names)}" if full else unknown.hint
    return UsageError(f"{benchmark}: {unknown.message}", hint=hint)


def list_plain_defaults(model: type[Options]) -> dict[str, Any]:
    """Return the defaults of options that have plain ones, a group's by its name."""
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Options):
            if inner := list_plain_defaults(field.annotation):
                found[name] = inner
        elif not field.is_required():
            default = field.get_default(call_default_factory=True)
            default = default.value if isinstance(default, Enum) else default
            if isinstance(default, str | bool | int | float):
                found[name] = default
    return found


def parse_options(texts: list[str], *, option: str = "--option", is_text: bool = False) -> dict[str, Any]:
    """Return the values in `name=value` texts by name. Each value is YAML. Raises UsageError.

    `group.name=value` sets one name of the map `group`. With `is_text`, names and values are taken as they
    are.

    `option` is the command-line option that the texts come from.
    """
    from harness.core.inputs.yaml_text import parse_yaml

    values: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            examples = {"--run-budget": "cost=5", "--base-image": "'*=packages'"}
            example = examples.get(option, "release=v1")
            raise UsageError(f"{option} '{text}' is not NAME=VALUE", hint=f"for example {option} {example}")
        try:
            parsed = value if is_text else parse_yaml(value)
        except UsageError as error:
            raise UsageError(f"{option} '{text[:200]}': {error.message}") from error
        outer, dot, inner = (name.strip(), "", "") if is_text else name.strip().partition(".")
        if not dot:
            if outer in values:
                raise UsageError(f"{option} {outer} is given twice", hint="name it once")
            values[outer] = parsed
            continue
        group = values.setdefault(outer, {})
        if not isinstance(group, dict):
            raise UsageError(f"{option} '{text[:200]}': '{outer}' already has the value {group!r}")
        if inner in group:
            raise UsageError(f"{option} {outer}.{inner} is given twice", hint="name it once")
        group[inner] = parsed
    return values


@dataclass(frozen=True, slots=True)
class OptionEffect:
    """The effect of an option outside of sandboxes."""

    action: str
    """The effect as a clause before the value: `send requests to`."""


NO_EFFECT: Final = OptionEffect("")
"""Declares that no value of the option has an effect outside of sandboxes."""


def list_option_effects(
    model: type[Options] | None, values: Mapping[str, Any], prefix: str = ""
) -> Iterator[str]:
    """Yield the effects of options outside of sandboxes, each with the name and the value of its option.

    Args:
        model: the model of the options, None for a benchmark that checks them itself.
        values: the values by the names of the options. They need not be valid.
        prefix: the part of the names before these, such as `kg.`.
    """
    for key, value in values.items():
        name = f"{prefix}{key}"
        field = None if model is None else model.model_fields.get(key)
        inner = None if field is None else field.annotation
        if field is not None and value == field.default:
            continue
        group = _find_group(model, key)
        if group is not None and isinstance(value, Mapping):
            yield from list_option_effects(group, value, f"{name}.")
            continue
        facts = [] if field is None else field.metadata
        declared = next((each for each in facts if isinstance(each, OptionEffect)), None)
        if declared is None and not _is_closed(inner):
            declared = OptionEffect("use the value")
        if declared is not None and declared.action:
            yield f"{declared.action} {value}, as option {name} says"


def drop_option_effects(model: type[Options] | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have no effect outside of sandboxes.

    The definition for these can be made without consent, while that for all may read a file or ask a server.
    """
    kept: dict[str, Any] = {}
    for key, value in values.items():
        if not any(list_option_effects(model, {key: value})):
            kept[key] = value
        elif isinstance(value, Mapping) and (inner := _find_group(model, key)) is not None:
            kept[key] = drop_option_effects(inner, value)
    return kept


def _find_group(model: type[Options] | None, key: str) -> type[Options] | None:
    """Return the model of a group of options, None for a single option."""
    field = None if model is None else model.model_fields.get(key)
    inner = None if field is None else field.annotation
    return inner if isinstance(inner, type) and issubclass(inner, Options) else None


def _is_closed(annotation: Any) -> bool:
    """Return whether a type has no value that could name a server or a file."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return True
    if origin is Annotated:
        return _is_closed(arguments[0])
    if origin in (Union, types.UnionType, *_COLLECTIONS):
        return all(_is_closed(each) for each in arguments if each is not Ellipsis)
    return isinstance(annotation, type) and issubclass(annotation, _CLOSED)
