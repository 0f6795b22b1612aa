"""scripts/check_prose.py finds what it has to find in pages, docstrings, errors and commit subjects, and no more."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import check_prose
from check_prose import (
    check_ansible,
    check_files,
    check_page,
    check_source,
    check_subjects,
    find_base,
    list_subjects,
    read_phrases,
)

PHRASES = read_phrases(check_prose.PHRASES.read_text())
LONG = "The agent publishes " + "one card and " * 13 + "stops."


def list_problems(text, check=check_page):
    return [problem.partition(": ")[2] for problem in check("a", text, PHRASES)]


@pytest.mark.parametrize(
    "text",
    [
        "Nobody reads it.",
        "A program is\ntold the limit.",
        "- nobody",
        "# For whoever reads",
        "| a | nobody |\n|---|---|",
        "[nobody](page.md)",
        "It is **nobody**.",
        "1. Text.\n\n    What nobody reads.",
        "This is no folder.",
        "These are no cards.",
    ],
)
def test_banned_phrase_is_found_in_prose(text):
    assert len(list_problems(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "`nobody`",
        "``a nobody``",
        "```text\nnobody\n```",
        "Text.\n\n    nobody\n",
        "[user](https://example.org/nobody)",
        "<https://example.org/nobody>",
        "<!-- nobody -->",
        "The user nobody-1.",
        "There is no folder, and the card is no longer free.",
        "| `a | nobody` | b |",
    ],
)
def test_code_and_addresses_are_not_prose(text):
    assert list_problems(text) == []


def test_problem_names_line_and_replacement():
    [problem] = check_page(
        "docs/a.md", "Title\n\nText.\n\nIt is done\nin vain.\n", read_phrases("in vain => without effect")
    )
    assert problem == "docs/a.md:5: 'in vain': write instead: without effect"


@pytest.mark.parametrize(("text", "count"), [(LONG, 1), (LONG.replace(" and", ".", 7), 0), (f"`{LONG}`", 0)])
def test_sentences_have_at_most_30_words(text, count):
    problems = list_problems(text)
    assert len(problems) == count
    assert all("a sentence of 43 words" in each for each in problems)


def test_sentences_of_different_items_and_cells_are_counted_separately():
    half = " ".join(["word"] * 20)
    assert list_problems(f"- {half}\n- {half}\n\n| {half} | {half} |\n") == []
    assert len(list_problems(f"{half}\n{half}\n")) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""What nobody reads."""',
        'def f():\n    """Return what nobody reads."""',
        'class A:\n    """A page that nobody reads."""',
        'raise ValueError("nobody reads it")',
        'raise ValueError(f"{name} is nobody")',
        'raise ValueError("a " + name + " nobody")',
        'raise MyError("x", next_step="ask somebody")',
        '@click.option("--x", help="What nobody reads.")\ndef f(): ...',
    ],
)
def test_docstrings_errors_and_help_are_checked(source):
    assert len(list_problems(source, check_source)) == 1


@pytest.mark.parametrize("source", ['nobody = "nobody"', '"""The user `nobody`."""', "raise nobody", "log(nobody=1)"])
def test_other_names_and_strings_are_not_checked(source):
    assert list_problems(source, check_source) == []


@pytest.mark.parametrize(
    "text",
    [
        "- name: Tell nobody",
        "- debug: {msg: nobody}",
        "- name: Play\n  tasks:\n    - name: Tell nobody",
        "- block:\n    - ansible.builtin.fail:\n        msg: it is told",
        "- assert:\n    that: a\n    fail_msg: >-\n      {{ a }} is\n      told; do b",
        "- assert: {that: a, success_msg: nobody}",
        "argument_specs: {main: {short_description: Tell nobody}}",
        "argument_specs: {main: {description: [It runs., It is told.]}}",
        "argument_specs: {main: {options: {a: {options: {b: {description: nobody}}}}}}",
        "- alert: A\n  annotations: {summary: nobody}",
        "questions: [{question_name: A, question_description: nobody}]",
        "a: 1\n---\n- name: Tell nobody",
        "- name: Create it\n  vars: {password: !vault x}\n- name: Tell nobody",
    ],
)
def test_texts_of_ansible_are_checked(text):
    assert len(list_problems(text, check_ansible)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "nobody: nobody",
        "name: nobody",
        "- name: Create it # nobody\n  when: nobody",
        "- debug:\n    msg: \"{{ nobody | default('it is told') }}\"",
        "- debug:\n    msg: >-\n      {%- for nobody in all -%}\n      {{ nobody }}\n      {%- endfor -%}",
        "- name: Run `nobody`",
        "- assert: {that: nobody is defined}",
        "a: [nobody]",
        "",
    ],
)
def test_expressions_and_other_values_of_ansible_are_not_checked(text):
    assert list_problems(text, check_ansible) == []


def test_problem_of_ansible_names_line_of_its_text():
    text = "- name: Create it\n  assert:\n    that: a\n    fail_msg: >-\n      it is told\n"
    [problem] = check_ansible("roles/a.yml", text, PHRASES)
    assert problem.startswith("roles/a.yml:4: 'is told'")


@pytest.mark.parametrize("text", ["nobody", "nobody=>user", "(nobody => user"])
def test_invalid_line_of_phrase_list_is_rejected(text):
    with pytest.raises(ValueError, match="cannot read the banned phrase"):
        read_phrases(text)


def test_all_files_except_generated_ones_are_checked(tmp_path):
    for name in (
        "docs/a.md",
        "docs/adr/b.md",
        "docs/reference/commands.md",
        "roles/x/README.md",
        "src/accelkit/c.py",
        "roles/x/tasks/d.yml",
        "playbooks/e.yml",
        "extensions/molecule/x/f.yml",
        "awx/vars/g.yml",
        "inventories/h.yml",
        "README.md",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text({".py": '"""Nobody."""', ".yml": "name: Tell nobody"}.get(path.suffix, "Nobody."))
    named = [problem.partition(":")[0] for problem in check_files(tmp_path, PHRASES)]
    assert named == [
        *("README.md", "docs/a.md", "docs/adr/b.md", "roles/x/README.md", "src/accelkit/c.py"),
        *("awx/vars/g.yml", "extensions/molecule/x/f.yml", "playbooks/e.yml", "roles/x/tasks/d.yml"),
    ]


@pytest.mark.parametrize(
    "subject",
    [
        "Add a page",
        "node: ignore events older than the last read",
        "audit, docs: process what kubelets report",
        "scripts/roads.py: bring a registry",
        "Pass the unit on",
    ],
)
def test_imperative_subject_is_accepted(subject):
    assert list(check_subjects([subject])) == []


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("Added a page", "'added' is not an imperative verb"),
        ("docs: adding a page", "'adding' is not an imperative verb"),
        ("docs: adds a page", "'adds' is not an imperative verb"),
        ("Add " + "x" * 69, "73 characters, at most 72"),
    ],
)
def test_other_subject_is_reported(subject, problem):
    [reported] = check_subjects([subject])
    assert reported.endswith(problem)


def git(folder, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def test_only_commits_of_the_branch_are_checked(tmp_path):
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "commit", "--allow-empty", "-m", "Added before")
    git(tmp_path, "switch", "--create", "work")
    git(tmp_path, "commit", "--allow-empty", "-m", "Add later")
    base = find_base(tmp_path, ["origin/main", "main"])
    assert base is not None
    assert list_subjects(tmp_path, base) == ["Add later"]


def test_clone_without_main_branch_has_no_base(tmp_path):
    git(tmp_path, "init", "--initial-branch=work")
    git(tmp_path, "commit", "--allow-empty", "-m", "Added")
    assert find_base(tmp_path, ["origin/main", "main"]) is None
    assert find_base(tmp_path / "absent", ["main"]) is None


def test_missing_base_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(check_prose, "find_base", lambda *_: None)
    monkeypatch.setattr(check_prose, "check_files", lambda *_: iter(()))
    assert check_prose.main([]) == 0
    assert "commit subjects are not checked: this clone has no main branch" in capsys.readouterr().out
