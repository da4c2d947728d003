"""Command-line options made from the library's own dataclasses: names, types and defaults are written once.

A `Group` says which fields of a dataclass a command takes and what to tell about them; `takes` puts groups
into a command's signature. The command receives built values, checked where they are always checked: in the
dataclass.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Generic, TypeVar

import typer

T = TypeVar("T")

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="A .gguf file, a catalogue name, hf:user/repo[:quant] or ollama:name."
    ),
]


@dataclass(frozen=True, slots=True)
class Flag:
    """One field of a dataclass as an option.

    Parameters
    ----------
    field : str
        Name of the field; the option is ``--field-with-dashes`` unless `names` says otherwise.
    help : str
        One line with the unit; the default is added from the field.
    names : tuple of str
        Option names, such as ``("--top-k",)`` or ``("--mmap/--no-mmap",)``.
    metavar : str or None
        What stands for the value in the help.
    unset : str
        What None or an empty value means, shown as the default.
    repeated : bool
        The option may be given several times; the values arrive as a list of str.
    parse : callable
        Turns what was given into the field's value.
    """

    field: str
    help: str
    _: KW_ONLY
    names: tuple[str, ...] = ()
    metavar: str | None = None
    unset: str = ""
    repeated: bool = False
    parse: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Generic[T]):
    """Options that together make one `kind`.

    Parameters
    ----------
    kind : type
        A dataclass with keyword arguments and a default for every field that has a flag here.
    panel : str
        Heading in the help.
    flags : sequence of Flag
        The fields that can be set; the others keep their defaults.
    prefix : str
        Put before every option name and parameter name, such as "draft".
    """

    kind: type[T]
    panel: str
    flags: Sequence[Flag]
    prefix: str = ""

    def parameters(self) -> list[inspect.Parameter]:
        """The options as keyword-only parameters that typer understands."""
        hints = typing.get_type_hints(self.kind)
        return [self._parameter(flag, hints[flag.field]) for flag in self.flags]

    def build(self, given: Mapping[str, Any]) -> T:
        """The value that the parsed options ask for.

        Raises
        ------
        InputError
            If a value is outside its range.
        """
        return self.kind(**{flag.field: flag.parse(given[self._key(flag)]) for flag in self.flags})

    def given(self, value: T) -> list[str]:
        """Names of the options whose values in `value` are not the defaults."""
        return [
            self._names(flag)[0]
            for flag in self.flags
            if getattr(value, flag.field) != _default_of(self.kind, flag.field)
        ]

    def only(self, *fields: str) -> Group[T]:
        """The same group with some of its options."""
        return dataclasses.replace(self, flags=[flag for flag in self.flags if flag.field in fields])

    def without(self, *fields: str) -> Group[T]:
        """The same group less some of its options."""
        return dataclasses.replace(self, flags=[flag for flag in self.flags if flag.field not in fields])

    def _key(self, flag: Flag) -> str:
        return f"{self.prefix}_{flag.field}" if self.prefix else flag.field

    def _names(self, flag: Flag) -> tuple[str, ...]:
        return flag.names or ("--" + self._key(flag).replace("_", "-"),)

    def _parameter(self, flag: Flag, hint: Any) -> inspect.Parameter:
        default = _default_of(self.kind, flag.field)
        option = typer.Option(
            *self._names(flag),
            help=flag.help,
            metavar=flag.metavar,
            rich_help_panel=self.panel,
            show_default=flag.unset or True,
        )
        return inspect.Parameter(
            self._key(flag),
            inspect.Parameter.KEYWORD_ONLY,
            default=list(default) if flag.repeated else default,
            annotation=Annotated[list[str] if flag.repeated else hint, option],
        )


def takes(**groups: Group[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of each group; the command gets the built value under the group's name."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [
            parameter
            for name, parameter in inspect.signature(command, eval_str=True).parameters.items()
            if name not in groups
        ]
        added = [parameter for group in groups.values() for parameter in group.parameters()]

        @functools.wraps(command)
        def with_built_values(**given: Any) -> None:
            built = {name: group.build(given) for name, group in groups.items()}
            command(**{parameter.name: given[parameter.name] for parameter in own}, **built)

        signature = inspect.Signature([*own, *added])
        with_built_values.__signature__ = signature  # type: ignore[attr-defined]
        with_built_values.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        return with_built_values

    return decorate


def _default_of(kind: type[Any], name: str) -> Any:
    field = next(field for field in dataclasses.fields(kind) if field.name == name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
