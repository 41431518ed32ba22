"""``tessarr completion SHELL``: a script that completes the command's words in a shell.

The scripts contain every verb, option and choice of the parser. Other words complete as paths,
because a node of a local hierarchy is a folder.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Print a script that lets a shell complete commands, options and paths.",
        epilog='bash: eval "$(tessarr completion bash)" in ~/.bashrc; zsh: tessarr completion zsh '
        "> a file _tessarr in a folder of $fpath; fish: tessarr completion fish > "
        "~/.config/fish/completions/tessarr.fish",
    )
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the name of the shell")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from tessarr.cli import build_parser

    print(_SCRIPTS[arguments.shell](_list_verbs(build_parser())), end="")
    return 0


@dataclass(frozen=True, slots=True)
class _Option:
    """An option of a verb: its names, its values and its help."""

    names: tuple[str, ...]
    takes_value: bool
    choices: tuple[str, ...]
    many: bool
    text: str


@dataclass(frozen=True, slots=True)
class _Verb:
    """A verb; its positional arguments are one of `choices`, or else a path."""

    name: str
    text: str
    options: tuple[_Option, ...]
    choices: tuple[str, ...]


def _list_verbs(parser: argparse.ArgumentParser) -> list[_Verb]:
    (verbs,) = (
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    texts = {action.dest: action.help or "" for action in verbs._choices_actions}
    return [
        _describe_verb(name, texts.get(name, ""), verb_parser._actions)
        for name, verb_parser in verbs.choices.items()
    ]


def _describe_verb(name: str, text: str, actions: list[argparse.Action]) -> _Verb:
    options = [_describe_option(action) for action in actions if action.option_strings]
    positional = [action for action in actions if not action.option_strings]
    choices = [str(choice) for action in positional for choice in action.choices or ()]
    return _Verb(name, text, tuple(options), tuple(choices))


def _describe_option(action: argparse.Action) -> _Option:
    choices: Any = action.choices or getattr(action.type, "choices", ())
    return _Option(
        tuple(action.option_strings),
        action.nargs != 0,
        tuple(map(str, choices)),
        isinstance(action, argparse._AppendAction),
        (action.help or "").replace("%%", "%"),
    )


# Bash


def _write_bash(verbs: list[_Verb]) -> str:
    lines = [
        "# Completion of tessarr for bash.",
        "_tessarr() {",
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}",
        "    local verb= word options= choices= values=",
        '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        "        [[ $word == -* ]] || { verb=$word; break; }",
        "    done",
        "    case $verb in",
        "    '') options='--help --version --traceback'",
        f"        choices='{' '.join(verb.name for verb in verbs)}' ;;",
    ]
    for verb in verbs:
        names = " ".join(name for option in verb.options for name in option.names)
        lines.append(f"    {verb.name}) options='{names}'")
        if verb.choices:
            lines.append(f"        choices='{' '.join(verb.choices)}'")
        chosen = [option for option in verb.options if option.choices]
        if chosen:
            lines.append("        case $prev in")
            lines += [
                f"        {'|'.join(option.names)}) values='{' '.join(option.choices)}' ;;"
                for option in chosen
            ]
            lines.append("        esac")
        lines.append("        ;;")
    lines += [
        "    esac",
        "    if [[ -n $values ]]; then",
        '        COMPREPLY=($(compgen -W "$values" -- "$cur"))',
        "    elif [[ $cur == -* ]]; then",
        '        COMPREPLY=($(compgen -W "$options" -- "$cur"))',
        "    elif [[ -n $choices ]]; then",
        '        COMPREPLY=($(compgen -W "$choices" -- "$cur"))',
        "    else",
        "        compopt -o filenames 2>/dev/null",
        "        local IFS=$'\\n'",
        '        COMPREPLY=($(compgen -f -- "$cur"))',
        "    fi",
        "}",
        "complete -F _tessarr tessarr",
    ]
    return "\n".join([*lines, ""])


# Zsh


def _write_zsh(verbs: list[_Verb]) -> str:
    lines = [
        "#compdef tessarr",
        "# Completion of tessarr for zsh.",
        "_tessarr() {",
        "    local context state line",
        "    typeset -A opt_args",
        "    _arguments -C \\",
        "        '(- *)'{-h,--help}'[show help]' \\",
        "        '(- *)--version[print the version]' \\",
        "        '--traceback[print tracebacks of errors]' \\",
        "        '1: :->verb' '*:: :->rest'",
        "    case $state in",
        "    verb)",
        "        local -a verbs=(",
        *(f"            {_quote(f'{verb.name}:{_escape_colons(verb.text)}')}" for verb in verbs),
        "        )",
        "        _describe 'command' verbs ;;",
        "    rest)",
        "        case $words[1] in",
    ]
    for verb in verbs:
        argument = f"*: :({' '.join(verb.choices)})" if verb.choices else "*:path:_files"
        specs = [
            *(spec for option in verb.options for spec in _list_zsh_specs(option)),
            _quote(argument),
        ]
        lines += [f"        {verb.name})", "            _arguments \\"]
        lines += [f"                {spec} \\" for spec in specs[:-1]]
        lines.append(f"                {specs[-1]} ;;")
    lines += [
        "        esac ;;",
        "    esac",
        "}",
        # zsh runs a file in $fpath as the function itself; a sourced script defines the function.
        'if [ "$funcstack[1]" = _tessarr ]; then _tessarr "$@"; else compdef _tessarr tessarr; fi',
    ]
    return "\n".join([*lines, ""])


def _list_zsh_specs(option: _Option) -> Iterator[str]:
    star = "*" if option.many else ""
    value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
    for name in option.names:
        text = f"{star}{name}[{_escape_colons(option.text)}]{value if option.takes_value else ''}"
        yield _quote(text)


def _escape_colons(text: str) -> str:
    """Return a text with escapes for the characters that are special in zsh."""
    return re.sub(r"[\[\]:`$\\]", " ", text)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# Fish


def _write_fish(verbs: list[_Verb]) -> str:
    lines = [
        "# Completion of tessarr for fish.",
        "complete -c tessarr -n __fish_use_subcommand -f",
        "complete -c tessarr -n __fish_use_subcommand -s h -l help -d 'show help'",
        "complete -c tessarr -n __fish_use_subcommand -l version -d 'print the version'",
    ]
    first = "complete -c tessarr -n __fish_use_subcommand"
    lines += [f"{first} -a {verb.name} -d {_quote_fish(verb.text)}" for verb in verbs]
    for verb in verbs:
        start = f"complete -c tessarr -n '__fish_seen_subcommand_from {verb.name}'"
        if verb.choices:
            lines.append(f"{start} -f -a '{' '.join(verb.choices)}'")
        for option in verb.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            value = f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r"
            value = value if option.takes_value else ""
            lines.append(f"{start} {names}{value} -d {_quote_fish(option.text)}")
    return "\n".join([*lines, ""])


def _quote_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: Final[dict[str, Callable[[list[_Verb]], str]]] = {
    "bash": _write_bash,
    "zsh": _write_zsh,
    "fish": _write_fish,
}
