"""Renders the templates of tests/data/jinja/cases.json with Jinja2 and writes the results into the file.

    /usr/bin/python3 tools/text/jinja_cases.py

Needs Python's jinja2 (python3-jinja2 of Debian 12), which tests/text/jinja_environment.py sets up. A case is
[template, text] or [template, null, error]; the variables are the same for all cases.
"""
import json
import sys

sys.path.insert(0, "tests/text")
import jinja_environment  # noqa: E402

PATH = "tests/data/jinja/cases.json"


def run(environment, template, variables):
    try:
        return [template, environment.from_string(template).render(**variables)]
    except Exception as problem:
        return [template, None, f"{type(problem).__name__}: {problem}"]


def main():
    with open(PATH, encoding="utf-8") as file:
        data = json.load(file)
    environment = jinja_environment.make()
    cases = [run(environment, case[0], data["variables"]) for case in data["cases"]]
    with open(PATH, "w", encoding="utf-8") as file:
        file.write('{"variables": ' + json.dumps(data["variables"], ensure_ascii=False) + ',\n"cases": [\n')
        file.write(",\n".join(json.dumps(case, ensure_ascii=False) for case in cases))
        file.write("\n]}\n")


main()
