"""Check the language of documentation, docstrings, error texts and commit subjects against docs/reference/style.md.

The script checks what a machine can check:

- phrases of scripts/banned_phrases.txt, in README.md, docs/, the READMEs of the roles, docstrings, error texts, and the
  texts of Ansible: names of plays and tasks, messages, descriptions of options, alerts and questions of surveys;
- sentences of more than 30 words, in the same Markdown files;
- subjects of the commits since the merge base with the main branch: imperative, at most 72 characters.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from git_history import list_merge_bases, run_git
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

REPOSITORY = Path(__file__).resolve().parent.parent
PHRASES = Path(__file__).with_name("banned_phrases.txt")
PAGES = ("README.md", "docs/**/*.md", "roles/*/README.md")
SOURCES = ("src/accelkit/**/*.py", "plugins/**/*.py", "scripts/*.py")
ANSIBLE = ("roles/**/*.yml", "playbooks/**/*.yml", "extensions/**/*.yml", "awx/**/*.yml")
GENERATED = ("src/accelkit/node/_proto/*", "docs/reference/commands.md")
MAX_WORDS = 30
MAX_SUBJECT = 72
BASES = ("origin/main", "main")
# Keys of YAML files whose values users read.
ANSIBLE_TEXTS = frozenset(
    {"name", "msg", "fail_msg", "success_msg", "description", "short_description", "summary", "question_name"}
    | {"question_description"}
)
# Arguments of calls that users read.
USER_TEXTS = frozenset({"help", "next_step"})
# Imperatives that end as other forms do.
IMPERATIVES = frozenset({"alias", "bring", "embed", "exceed", "feed", "focus", "need", "proceed", "seed", "succeed"})


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of prose and the line on which it starts."""

    line: int
    words: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """A banned phrase with its replacement."""

    pattern: re.Pattern[str]
    replacement: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all checks; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="the branch whose commits are not checked (default: origin/main, else main)")
    options = parser.parse_args(arguments)
    problems = [*check_files(REPOSITORY, read_phrases(PHRASES.read_text()))]
    base = find_base(REPOSITORY, [options.base] if options.base else BASES)
    if base is None:
        print("commit subjects are not checked: this clone has no main branch to compare with")
    else:
        problems += check_subjects(list_subjects(REPOSITORY, base))
    print(*problems, sep="\n", end="\n" if problems else "")
    if problems:
        print(f"{len(problems)} problems; docs/reference/style.md has the rules", file=sys.stderr)
    return 1 if problems else 0


def read_phrases(text: str) -> list[Phrase]:
    """Return the banned phrases of a data file.

    Raises:
        ValueError: a line is not of the form PHRASE => REPLACEMENT, or its phrase is not a regular expression.
    """
    phrases = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            continue
        phrase, arrow, replacement = line.partition(" => ")
        if not arrow:
            raise ValueError(f"cannot read the banned phrase {line!r}: it has no replacement. Write PHRASE => WORDS.")
        try:
            pattern = re.compile(rf"(?<![\w-])(?:{phrase})(?![\w-])", re.IGNORECASE)
        except re.error as exc:
            raise ValueError(f"cannot read the banned phrase {line!r}: {exc}. Correct the expression.") from exc
        phrases.append(Phrase(pattern, replacement))
    return phrases


def check_files(root: Path, phrases: Sequence[Phrase]) -> Iterator[str]:
    """Yield the problems of all files below a folder, except generated ones."""
    for globs, check in ((PAGES, check_page), (SOURCES, check_source), (ANSIBLE, check_ansible)):
        for path in sorted({path for each in globs for path in root.glob(each)}):
            name = path.relative_to(root).as_posix()
            if not any(fnmatch(name, each) for each in GENERATED):
                yield from check(name, path.read_text(), phrases)


def check_page(name: str, text: str, phrases: Sequence[Phrase]) -> Iterator[str]:
    """Yield the problems of a Markdown page."""
    for each in list_paragraphs(text):
        yield from find_phrases(name, each, phrases)
        for sentence in re.split(r"(?<=[.!?])\s+", each.words):
            if (count := len(re.findall(r"\w[\w'/.-]*", sentence))) > MAX_WORDS:
                start = " ".join(sentence.split()[:8])
                yield f"{name}:{each.line}: a sentence of {count} words, at most {MAX_WORDS}: {start} …"


def check_source(name: str, text: str, phrases: Sequence[Phrase]) -> Iterator[str]:
    """Yield the problems of the docstrings and error texts of a Python file."""
    for each in list_python_texts(text):
        yield from find_phrases(name, each, phrases)


def check_ansible(name: str, text: str, phrases: Sequence[Phrase]) -> Iterator[str]:
    """Yield the problems of the texts of a YAML file of Ansible."""
    for document in YAML(typ="safe", pure=True).compose_all(text):
        for each in list_ansible_texts(document):
            yield from find_phrases(name, each, phrases)


def find_phrases(name: str, text: Text, phrases: Sequence[Phrase]) -> Iterator[str]:
    """Yield one problem for each banned phrase of a text."""
    words = " ".join(text.words.split())
    for phrase in phrases:
        for found in phrase.pattern.finditer(words):
            yield f"{name}:{text.line}: {found[0].strip()!r}: write instead: {phrase.replacement}"


def list_paragraphs(text: str) -> Iterator[Text]:
    """Yield the paragraphs, list items, headings and table cells of a Markdown page, without code."""
    start, lines = 0, list[str]()
    for number, line in enumerate([*blank_code(text), ""], 1):
        item = re.match(r"\s*(?:[-*+]|\d+\.|#+|>)\s+(.*)", line)
        row = line.lstrip().startswith("|")
        if lines and (item or row or not line.strip()):
            yield Text(start, strip_markup(" ".join(lines)))
            lines = []
        if row:
            yield from (Text(number, strip_markup(cell)) for cell in line.split("|") if cell.strip(" -:"))
        elif line.strip():
            start = start if lines else number
            lines.append(item[1] if item else line.strip())


def blank_code(text: str) -> list[str]:
    """Return the lines of a Markdown page; those of code blocks and comments are empty."""
    # A vertical bar in code does not end a table cell.
    text = re.sub(r"`[^`\n]*\|[^`\n]*`", "`code`", text)
    text = re.sub(r"<!--.*?-->", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    lines, fenced, indented = [], False, False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            lines.append("")
            continue
        # An indented block follows an empty line, and is not a part of a list.
        in_list = any(re.match(r"\s*(?:[-*+]|\d+\.)\s", each) for each in last_block(lines))
        indented = line.startswith("    ") and (indented or not (lines and lines[-1].strip())) and not in_list
        lines.append("" if fenced or indented else line)
    return lines


def last_block(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines back to the last one that starts in the first column, which is a list item in a list."""
    for line in reversed(lines):
        yield line
        if line and not line[0].isspace():
            return


def strip_markup(text: str) -> str:
    """Return a text in which code is one word and links are their words."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(`+)(?!`).*?\1", "CODE", text)
    text = re.sub(r"<?https?://\S+", "URL", text)
    return re.sub(r"[*_]{1,2}(\w[^*_]*)[*_]{1,2}", r"\1", text).strip()


def list_python_texts(text: str) -> Iterator[Text]:
    """Yield the docstrings of a Python file and the strings of its errors, next steps and help texts."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if docstring := ast.get_docstring(node):
                yield Text(node.body[0].lineno, re.sub(r"`[^`]*`", "CODE", docstring))
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from (read_string(argument) for argument in node.exc.args)
        elif isinstance(node, ast.Call):
            yield from (read_string(each.value) for each in node.keywords if each.arg in USER_TEXTS)


def read_string(node: ast.expr) -> Text:
    """Return the constant parts of an expression, with a word in place of each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return Text(node.lineno, node.value)
    if isinstance(node, ast.JoinedStr):
        parts = [each.value if isinstance(each, ast.Constant) else "VALUE" for each in node.values]
        return Text(node.lineno, "".join(map(str, parts)))
    inner = [read_string(each).words for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
    return Text(node.lineno, " … ".join(filter(None, inner)))


def list_ansible_texts(node: Node, *, is_text: bool = False) -> Iterator[Text]:
    """Yield the texts below a node of YAML, with a word in place of each expression of Jinja and each code span.

    Args:
        node: the node.
        is_text: whether the node is the value of a key whose values users read.
    """
    if isinstance(node, MappingNode):
        for key, value in node.value:
            # A name of one word identifies an object.
            identifies = key.value == "name" and " " not in str(value.value)
            yield from list_ansible_texts(value, is_text=key.value in ANSIBLE_TEXTS and not identifies)
    elif isinstance(node, SequenceNode):
        for each in node.value:
            yield from list_ansible_texts(each, is_text=is_text)
    elif isinstance(node, ScalarNode) and is_text:
        words = re.sub(r"\{%.*?%\}", " ", node.value, flags=re.DOTALL)
        words = re.sub(r"\{\{.*?\}\}", "VALUE", words, flags=re.DOTALL)
        yield Text(node.start_mark.line + 1, re.sub(r"`[^`]*`", "CODE", words))


def find_base(root: Path, branches: Sequence[str]) -> str | None:
    """Return the commit at which this branch left one of these branches; None where no branch exists."""
    return next(list_merge_bases(root, branches), None)


def list_subjects(root: Path, base: str) -> list[str]:
    """Return the subjects of the commits since a commit, without merges."""
    return (run_git(root, "log", "--no-merges", "--format=%s", f"{base}..HEAD") or "").splitlines()


def check_subjects(subjects: Sequence[str]) -> Iterator[str]:
    """Yield the problems of commit subjects."""
    for subject in subjects:
        if len(subject) > MAX_SUBJECT:
            yield f"commit {subject!r}: {len(subject)} characters, at most {MAX_SUBJECT}"
        first = re.sub(r"^[\w./, -]+: ", "", subject).split(" ", 1)[0].lower()
        if re.search(r"(ed|ing|(?<!s)s)$", first) and first not in IMPERATIVES:
            yield f"commit {subject!r}: {first!r} is not an imperative verb"


if __name__ == "__main__":
    sys.exit(main())
