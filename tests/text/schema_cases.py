#!/usr/bin/env python3
"""Cases for schema_random_test.cc and schema_answers_test.cc: random JSON Schemas, values for them, and an independent
validator.

  schema_cases.py generate --seed S --count N   prints a line {"schema", "accepted", "rejected"} per schema:
                                                texts of values that jsonschema accepts or rejects
  schema_cases.py bounded --seed S --count N    prints a line {"schema"} per schema, whose strings, arrays and
                                                objects have limits, so that random answers end soon
  schema_cases.py validate FILE                 reads lines {"schema", "texts"}, and prints a line
                                                {"schema", "text", "error"} for each text that jsonschema rejects

The validator is Debian's python3-jsonschema (draft 2020-12) with formats enforced, ECMA-262's meaning of \\d and
\\w in patterns, and exact decimal arithmetic for multipleOf.
"""

import argparse
import datetime
import decimal
import json
import random
import re
import sys

import jsonschema

FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email", "hostname", "duration", "unknown"]
PATTERNS = ["^[a-c]{1,3}$", "ab", "^x", "z$", "^(a|bc)*$", "^\\d{2,4}-\\d$", "^[^a-y]+$", "^(?:foo|ba[rz])+?$",
            "^\\w+ \\w+$", "^a?b?c?$", "[0-9]", "^.{2}$", "^(a|b$)", "^é+|\"$", "\\\\"]
NAMES = ["a", "b", "ab", "name", "x-y", "é", "q\"uote", "", "a\nb", "value"]
WORDS = ["", "a", "b", "ab", "abc", "bc", "x", "xz", "12-3", "foo", "bar baz", "é\"", "zz", "\\", "9", "a\n", "\U0001f600"]

decimal.getcontext().prec = 80

# A schema without "type" is written as values of the kind that its keywords concern.
KINDS = [("properties", "object"), ("required", "object"), ("additionalProperties", "object"),
         ("patternProperties", "object"), ("propertyNames", "object"), ("minProperties", "object"),
         ("maxProperties", "object"), ("items", "array"), ("prefixItems", "array"), ("minItems", "array"),
         ("maxItems", "array")]

checker = jsonschema.FormatChecker(formats=["date", "ipv4", "ipv6", "email"])


@checker.checks("time", raises=ValueError)
def is_time(text):
    if not isinstance(text, str):
        return True
    return datetime.time.fromisoformat(text).tzinfo is not None


@checker.checks("date-time", raises=ValueError)
def is_date_time(text):
    if isinstance(text, str):
        datetime.date.fromisoformat(text[:10])
        return text[10:11] == "T" and is_time(text[11:])
    return True


@checker.checks("uuid")
def is_uuid(text):
    return not isinstance(text, str) or bool(re.fullmatch("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text))


@checker.checks("duration")
def is_duration(text):
    return not isinstance(text, str) or bool(re.fullmatch(
        r"P(?=.)(\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)", text, re.ASCII))


@checker.checks("hostname")
def is_hostname(text):
    return not isinstance(text, str) or 0 < len(text) <= 253 and all(
        re.fullmatch("(?!-)[A-Za-z0-9-]{1,63}(?<!-)", label) for label in text.split("."))


def pattern(validator, text, instance, schema):
    if isinstance(instance, str) and not re.search(to_python(text), instance, re.ASCII):
        yield jsonschema.ValidationError(f"{instance!r} does not match {text!r}")


def to_python(text):
    """ECMA-262's $ matches only at the end of the text."""
    return re.sub(r"(?<!\\)\$", r"\\Z", text)


def multiple_of(validator, step, instance, schema):
    if isinstance(instance, (int, float)) and not isinstance(instance, bool):
        if decimal.Decimal(str(instance)) % decimal.Decimal(str(step)) != 0:
            yield jsonschema.ValidationError(f"{instance!r} is not a multiple of {step!r}")


Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator,
                                         {"pattern": pattern, "multipleOf": multiple_of})


class Maker:
    """Random schemas. Every keyword that the converter supports occurs."""

    def __init__(self, rng):
        self.rng = rng
        self.definitions = {}

    def chance(self, share):
        return self.rng.random() < share

    def document(self):
        for name in self.rng.sample(["d0", "d1", "d/2"], self.rng.randrange(3)):
            self.definitions[name] = None
        root = self.schema(0)
        for name in self.definitions:
            self.definitions[name] = self.schema(2)
        if self.definitions and isinstance(root, dict):
            root["$defs"] = self.definitions
        return root

    def schema(self, depth):
        rng = self.rng
        kinds = ["null", "boolean", "integer", "number", "string", "string", "constants", "types"]
        if depth < 3:
            kinds += ["object"] * 5 + ["array"] * 3 + ["anyOf", "oneOf", "allOf", "any", "ref", "mixed", "not"]
        kind = rng.choice(kinds)
        if kind in ("null", "boolean"):
            made = {"type": kind}
        elif kind in ("integer", "number"):
            made = self.number(kind)
        elif kind == "string":
            made = self.string()
        elif kind == "constants":
            made = self.constants(depth)
        elif kind == "types":
            made = {"type": rng.sample(["null", "boolean", "integer", "number", "string", "array", "object"], 2)}
        elif kind == "any":
            made = rng.choice([True, {}, {"title": "x"}])
        elif kind == "ref":
            names = [name for name in self.definitions] or None
            made = {"$ref": "#/$defs/" + rng.choice(names).replace("/", "~1")} if names else {"type": "null"}
        elif kind == "anyOf":
            made = {"anyOf": [self.schema(depth + 1) for _ in range(rng.randrange(1, 4))]}
        elif kind == "oneOf":
            made = self.one_of(depth)
        elif kind == "allOf":
            made = {"allOf": [self.object(depth + 1) for _ in range(2)]}
            if self.chance(0.3):
                made = {"allOf": [self.string(), self.string()]}
        elif kind == "mixed":
            made = self.object(depth + 1) | {"anyOf": [{"required": [rng.choice(NAMES)]}, self.object(depth + 2)]}
        elif kind == "not":
            made = {"type": rng.choice(["integer", "null", "string"]), "not": {"type": rng.choice(["null", "array"])}}
        elif kind == "object":
            made = self.object(depth)
        else:
            made = self.array(depth)
        if isinstance(made, dict) and self.chance(0.1):
            made["description"] = "annotation"
        return made

    def number(self, kind):
        rng = self.rng
        made = {"type": kind}
        bound = lambda: (rng.choice([0, 1, -1, 10, 99, 100, rng.randrange(-1000, 1000)]) if kind == "integer" or
                         self.chance(0.5) else rng.choice([0.5, -2.25, 1e-3, 12.75, -0.1, 3.14]))
        low, high = sorted([bound(), bound()])
        if self.chance(0.4):
            made[rng.choice(["minimum", "exclusiveMinimum"])] = low
        if self.chance(0.4):
            made[rng.choice(["maximum", "exclusiveMaximum"])] = high
        if self.chance(0.15):
            made["multipleOf"] = rng.choice([1, 2, 5, 10, 4] if kind == "integer" else [0.01, 0.1, 1, 0.5])
        return made

    def string(self):
        rng = self.rng
        made = {"type": "string"}
        if self.chance(0.3):
            made["pattern"] = rng.choice(PATTERNS)
        elif self.chance(0.25):
            made["format"] = rng.choice(FORMATS)
        if self.chance(0.3):
            made["minLength"] = rng.randrange(4)
        if self.chance(0.3):
            made["maxLength"] = rng.randrange(2, 7)
        return made

    def constant(self):
        rng = self.rng
        return rng.choice([None, True, False, 0, 1, -5, 2.5, rng.choice(WORDS), rng.choice(WORDS), [1, "a"], {"a": 1}])

    def constants(self, depth):
        rng = self.rng
        if self.chance(0.3):
            return {"const": self.constant()}
        made = {"enum": [self.constant() for _ in range(rng.randrange(1, 5))]}
        if self.chance(0.2):
            made |= rng.choice([{"type": "string"}, {"minLength": 1}, {"minimum": 0}, {"not": {"const": 1}}])
        return made

    def object(self, depth):
        rng = self.rng
        names = rng.sample(NAMES, rng.randrange(5))
        made = {"type": "object"} if self.chance(0.8) else {}
        if names or self.chance(0.3):
            made["properties"] = {name: self.schema(depth + 1) for name in names}
        required = [name for name in names if self.chance(0.5)]
        if self.chance(0.1):
            required.append(rng.choice(NAMES))
        if required:
            made["required"] = sorted(set(required), key=lambda name: rng.random())
        if self.chance(0.3):
            made["additionalProperties"] = rng.choice([False, True, self.schema(depth + 2)])
        if self.chance(0.1):
            made["patternProperties"] = {rng.choice(["^a", "b$", "[0-9]"]): self.schema(depth + 2)}
        if self.chance(0.1):
            made["propertyNames"] = rng.choice([{"maxLength": 3}, {"pattern": "^[a-z]*$"}, {"enum": ["a", "b", "zz"]}])
        if self.chance(0.1):
            made["minProperties"] = rng.randrange(3)
        if self.chance(0.1):
            made["maxProperties"] = rng.randrange(1, 4)
        return made or {"type": "object"}

    def array(self, depth):
        rng = self.rng
        made = {"type": "array"} if self.chance(0.8) else {"minItems": 0}
        if self.chance(0.3):
            made["prefixItems"] = [self.schema(depth + 1) for _ in range(rng.randrange(1, 4))]
        if self.chance(0.7):
            made["items"] = rng.choice([False, self.schema(depth + 1), self.schema(depth + 1)])
        if self.chance(0.3):
            made["minItems"] = rng.randrange(4)
        if self.chance(0.3):
            made["maxItems"] = rng.randrange(1, 5)
        if self.chance(0.05):
            made |= {"uniqueItems": True, "maxItems": 1}
        return made

    def one_of(self, depth):
        rng = self.rng
        if self.chance(0.4):
            return {"oneOf": [self.schema(depth + 1) for _ in range(2)]}
        branches = []
        for tag in rng.sample(["x", "y", "z"], 2):
            branch = self.object(depth + 1)
            branch["type"] = "object"
            branch["properties"] = {"kind": {"const": tag}} | branch.get("properties", {})
            branch["required"] = ["kind"] + branch.get("required", [])
            branches.append(branch)
        return {"oneOf": branches}


class BoundedMaker(Maker):
    """Schemas whose strings, arrays and objects have limits."""

    def schema(self, depth):
        made = super().schema(depth)
        if not isinstance(made, dict) or not made.keys() - {"title", "description"}:
            return {"type": "boolean"}
        if isinstance(made.get("type"), list):
            return {"type": ["null", "integer"]}
        if made.get("type") == "string" and "format" not in made:
            made.setdefault("maxLength", 6)
        return made

    def string(self):
        made = super().string()
        if "format" not in made:
            made.setdefault("maxLength", made.get("minLength", 0) + 4)
        return made

    def object(self, depth):
        made = super().object(depth)
        if made.get("additionalProperties") or "patternProperties" in made:
            made.setdefault("propertyNames", {"maxLength": 5})
            made.setdefault("maxProperties", max(len(made.get("properties", {})), made.get("minProperties", 0)) + 2)
        return made

    def array(self, depth):
        made = super().array(depth)
        made.setdefault("maxItems", max(len(made.get("prefixItems", [])), made.get("minItems", 0)) + 1)
        return made


class Sampler:
    """Random values for a schema. They need not satisfy it: the validator decides."""

    def __init__(self, rng, root):
        self.rng = rng
        self.root = root
        self.validator = Validator(root, format_checker=checker)
        self.is_doubtful = False

    def value(self, schema, depth=0):
        rng = self.rng
        if not isinstance(schema, dict):
            return rng.choice([None, 1, "x", [], {}])
        if depth > 6:
            return None
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1].replace("~1", "/")
            return self.value(self.root["$defs"][name], depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema and len(schema.keys() - {"description", "$defs"}) == 1:
                branch = rng.choice(schema[keyword])
                made = self.value(branch, depth + 1)
                # Another branch may accept the value as one that is valid and never written.
                self.is_doubtful = self.is_doubtful or not self.validator.evolve(schema=branch).is_valid(made)
                return made
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = rng.choice(kind)
        if kind is None and "allOf" in schema:
            return self.value(schema["allOf"][0], depth + 1)
        if kind is None:
            kind = next((kind for keyword, kind in KINDS if keyword in schema), rng.choice(["string", "null"]))
        if kind in ("integer", "number"):
            return self.number(schema, kind)
        if kind == "string":
            return rng.choice(WORDS)
        if kind == "array":
            return self.array(schema, depth)
        if kind == "object":
            return self.object(schema, depth)
        return rng.choice([True, False]) if kind == "boolean" else None

    def number(self, schema, kind):
        rng = self.rng
        bounds = [schema[k] for k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if k in schema]
        near = rng.choice(bounds + [0]) + rng.choice([0, 1, -1, 5, -10, 100])
        if kind == "integer":
            return int(near)
        return rng.choice([near, round(near + rng.choice([0.5, -0.01, 0.125]), 4)])

    def array(self, schema, depth):
        rng = self.rng
        prefix = schema.get("prefixItems", [])
        items = schema.get("items")
        count = rng.randrange(4) if items not in (None, False) or not prefix else len(prefix)
        count = max(count, schema.get("minItems", 0))
        return [self.value(prefix[i] if i < len(prefix) else items, depth + 1) for i in range(count)]

    def object(self, schema, depth):
        rng = self.rng
        made = {}
        for name, part in schema.get("properties", {}).items():
            if name in schema.get("required", []) or rng.random() < 0.6:
                made[name] = self.value(part, depth + 1)
        for name in schema.get("required", []):
            if name not in made:
                made[name] = self.value(schema.get("additionalProperties", {}), depth + 1)
        if schema.get("additionalProperties") not in (None, False) and rng.random() < 0.5:
            made["zz"] = self.value(schema["additionalProperties"], depth + 1)
        return made

    def changed(self, value):
        """A value that differs a little: it is often invalid."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.8:
            name = rng.choice(list(value))
            if rng.random() < 0.3:
                return {key: member for key, member in value.items() if key != name}
            return {key: self.changed(member) if key == name else member for key, member in value.items()}
        if isinstance(value, list) and value and rng.random() < 0.8:
            index = rng.randrange(len(value))
            if rng.random() < 0.3:
                return value + [value[index]]
            return value[:index] + [self.changed(value[index])] + value[index + 1:]
        if isinstance(value, dict):
            return value | {"new": 1}
        if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.7:
            return value + rng.choice([1, -1, 10])
        if isinstance(value, str) and rng.random() < 0.7:
            return value + rng.choice(["a", "0", "é"])
        return rng.choice([None, False, 7, -0.5, "text", [None], {"other": 0}])


def text_of(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def add_values(sampler, schema, line):
    sampler.is_doubtful = False
    value = sampler.value(schema)
    for candidate in (value, sampler.changed(value)):
        is_valid = sampler.validator.is_valid(candidate)
        if is_valid and (candidate is not value or sampler.is_doubtful):
            continue
        line["accepted" if is_valid else "rejected"].append(text_of(candidate))


def generate(seed, count):
    for number in range(count):
        rng = random.Random(seed * 1_000_003 + number)
        schema = Maker(rng).document()
        line = {"schema": schema, "accepted": [], "rejected": []}
        sampler = Sampler(rng, schema)
        try:
            for _ in range(2):
                add_values(sampler, schema, line)
        except RecursionError:  # a schema that is a reference to itself
            pass
        print(text_of(line))


def generate_bounded(seed, count):
    for number in range(count):
        rng = random.Random(seed * 1_000_003 + number)
        print(text_of({"schema": BoundedMaker(rng).document()}))


def validate(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            case = json.loads(line)
            validator = Validator(case["schema"], format_checker=checker)
            for text in case["texts"]:
                error = None
                try:
                    problem = jsonschema.exceptions.best_match(validator.iter_errors(json.loads(text)))
                    error = problem and problem.message
                except ValueError as exception:
                    error = str(exception)
                if error:
                    print(text_of({"schema": case["schema"], "text": text, "error": error}))


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("generate", "bounded"):
        generator = commands.add_parser(name)
        generator.add_argument("--seed", type=int, default=1)
        generator.add_argument("--count", type=int, default=100)
    commands.add_parser("validate").add_argument("file")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8")
    if arguments.command == "generate":
        generate(arguments.seed, arguments.count)
    elif arguments.command == "bounded":
        generate_bounded(arguments.seed, arguments.count)
    else:
        validate(arguments.file)


if __name__ == "__main__":
    main()
