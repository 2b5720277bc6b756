"""Renders the templates of tests/data/jinja/cases.json with Jinja2 and writes the results into the file.

    python3 tools/text/jinja_cases.py

Needs Python's jinja2 (python3-jinja2 of Debian 12). Jinja2 is set up as for chat templates: immutable sandbox,
trim_blocks, lstrip_blocks, loop controls, tojson without escapes of ASCII. A case is [template, text] or
[template, null, error]; the variables are the same for all cases.
"""
import datetime
import json

import jinja2
import jinja2.nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

PATH = "tests/data/jinja/cases.json"


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment():
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    now = datetime.datetime(2026, 11, 22, 12, 34, 56)
    environment.globals["strftime_now"] = now.strftime
    return environment


def run(environment, template, variables):
    try:
        return [template, environment.from_string(template).render(**variables)]
    except Exception as problem:
        return [template, None, f"{type(problem).__name__}: {problem}"]


def main():
    with open(PATH, encoding="utf-8") as file:
        data = json.load(file)
    environment = make_environment()
    cases = [run(environment, case[0], data["variables"]) for case in data["cases"]]
    with open(PATH, "w", encoding="utf-8") as file:
        file.write('{"variables": ' + json.dumps(data["variables"], ensure_ascii=False) + ',\n"cases": [\n')
        file.write(",\n".join(json.dumps(case, ensure_ascii=False) for case in cases))
        file.write("\n]}\n")


main()
