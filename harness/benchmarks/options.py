"""Options of a benchmark: the choice of its tasks, and the rules by which answers are graded.

A benchmark that has options declares them as a model, and its `Definition.configure` returns the definition
for given values. Values come from Python (`load_benchmark(name, release="v1")`), from `options` in a config,
or from `--option release=v1`, and all are validated the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import UsageError, describe_requirement, unknown_name


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


def parse_options(texts: list[str], *, option: str = "--option") -> dict[str, Any]:
    """Return the values in `name=value` texts by name. Each value is YAML. Raises UsageError.

    `group.name=value` sets one name of the map `group`.

    `option` is the command-line option that the texts come from.
    """
    from harness.inputs.yaml_text import parse_yaml

    values: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            example = "cost=5" if option == "--run-budget" else "release=v1"
            raise UsageError(f"{option} '{text}' is not NAME=VALUE", hint=f"for example {option} {example}")
        try:
            parsed = parse_yaml(value)
        except UsageError as error:
            raise UsageError(f"{option} '{text[:200]}': {error.message}") from error
        outer, dot, inner = name.strip().partition(".")
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
