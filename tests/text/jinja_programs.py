#!/usr/bin/env python3
"""Writes random Jinja programs with what Jinja2 makes of them, one JSON object in a line.

  jinja_programs.py --seed N --count N (--formats FILE | --templates DIR) [--jobs N]

A line is {"template", "variables", "text"}, or with "error" and "raised" in place of "text" if Jinja2 failed; "raised"
is true if the template called raise_exception. A line without "template" has that of the line before. The last line
is {"counts": {construct: programs that render and have it}, "rendered", "mutated", "mutated_rendered", "dropped"}.
The programs depend on the seed, and on the templates that are mutated. With --formats, two thirds of the programs are
from a grammar, and one third are mutations of this project's templates: those of jinja_chat_templates.py, and the
strings of the JSON list in FILE. With --templates, all are mutations of the templates in DIR, a folder for each.
"""
import argparse
import collections
import gc
import json
import multiprocessing
import random
import re
import resource
import signal
import sys
import warnings

import jinja2

import jinja_constructs
import jinja_environment
import jinja_mutations
import jinja_statements
import jinja_variables

# Compiling is most of the time, so each template is rendered with several sets of variables.
SETS_PER_GRAMMAR = 2
SETS_PER_MUTATION = 4
# One group of programs in five is a mutation: 4 of 12 programs.
GROUPS_PER_MUTATION = 5
CPU_SECONDS_MAX = 2
MEMORY_BYTES_MAX = 2 << 30
TEXT_CHARACTERS_MAX = 50_000
# Texts that show an address, a Python type or a view: none of the language's business.
PYTHON_ONLY = re.compile(
    r" at 0x[0-9a-f]{6}|(<|&lt;)(bound method |class ('|&#39;)|slot wrapper |method ('|&#39;))|dict_(items|keys|values)\(\[",
    re.I)
LONG_NUMBER = re.compile(r'-?\d{19,}')


class TimeLimit(BaseException):
    """Raised into a program that takes too long."""


class Dropped(Exception):
    """A program has a result that is not part of the language."""


def stop(_signal, _frame):
    raise TimeLimit


def unsupported(text):
    """Returns whether a text has what the language leaves out: Python's objects, integers beyond 64 bits."""
    return (len(text) > TEXT_CHARACTERS_MAX or PYTHON_ONLY.search(text) is not None or
            any(not -2**63 <= int(number) < 2**63 for number in LONG_NUMBER.findall(text)))


class Writer:
    """Makes the programs of one process."""

    def __init__(self, seed, options):
        self.seed = seed
        self.environment = jinja_environment.make()
        self.only_mutations = options.templates is not None
        if self.only_mutations:
            weighted = jinja_mutations.published(options.templates)
        else:
            weighted = jinja_mutations.own(options.formats)
        self.templates, self.weights = zip(*weighted)
        self.counts = collections.Counter()

    def render(self, compiled, variables):
        """Returns the result as a dictionary; raises Dropped or TimeLimit."""
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS_MAX)
        try:
            text = compiled.render(variables)
        except MemoryError:
            raise
        except Exception as error:
            raised = isinstance(error, jinja_environment.Raised)
            return {'error': str(error)[:None if raised else 1000], 'raised': raised}
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if unsupported(text):
            raise Dropped
        return {'text': text}

    def compile(self, source):
        """Returns the constructs and the template, or None and an error's message; raises TimeLimit."""
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS_MAX)
        try:
            tree = self.environment._parse(source, None, None)
            # Before compiling, which replaces constant parts of the tree by their values.
            constructs = jinja_constructs.of(tree, source)
            code = self.environment.compile(tree)
            made = jinja2.Template.from_code(self.environment, code, self.environment.globals)
            return constructs, made
        except MemoryError:
            raise
        except Exception as error:
            # Jinja2's compiler does not find names in the filter of a set block.
            if 'Tried to resolve a name' in str(error):
                raise Dropped from None
            return None, str(error)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def group(self, index):
        """Returns the lines of group `index`: one template with several sets of variables."""
        mutated = self.only_mutations or index % GROUPS_PER_MUTATION == 0
        rng = random.Random(self.seed * 1_000_003 + index)
        while True:
            if mutated:
                template = rng.choices(self.templates, self.weights)[0]
                mutation = jinja_mutations.Mutation(rng, template)
                source = mutation.source()
                sets = [jinja_mutations.conversation(rng, template, mutation.inserted)
                        for _ in range(SETS_PER_MUTATION)]
            else:
                source = jinja_statements.program(rng)
                sets = [jinja_variables.variables(rng) for _ in range(SETS_PER_GRAMMAR)]
            try:
                return self.lines(source, sets, mutated)
            except (Dropped, TimeLimit, jinja_environment.Unsupported, MemoryError, UnicodeEncodeError):
                self.counts['dropped'] += len(sets)

    def lines(self, source, sets, mutated):
        """Returns the lines of a template, or raises Dropped if one of its results is not to be compared."""
        constructs, compiled = self.compile(source)
        found = collections.Counter()
        lines = []
        for variables in sets:
            # A template may change the variables (list.pop), so they are written first.
            given = json.dumps(variables, ensure_ascii=False)
            result = {'error': compiled, 'raised': False} if constructs is None else self.render(compiled, variables)
            head = '{' if lines else '{"template": ' + json.dumps(source, ensure_ascii=False) + ', '
            tail = json.dumps(result, ensure_ascii=False)[1:] + '\n'
            lines.append((head + '"variables": ' + given + ', ' + tail).encode())
            found['rendered'] += 'text' in result
            found['failed'] += 'text' not in result
            found['raised'] += result.get('raised', False)
        if mutated:
            found['mutated'] = len(sets)
            found['mutated_rendered'] = found['rendered']
        self.counts.update(found)
        for name in constructs or ():
            # What fails renders nothing: counted are calls of raise_exception that are reached, and
            # failures.
            part = {'global raise_exception': 'raised', 'undefined attribute': 'failed'}.get(name, 'rendered')
            self.counts['construct ' + name] += found[part]
        return lines

    def groups(self, begin, end):
        """Returns the lines of groups [begin, end) and their counts."""
        self.counts = collections.Counter()
        lines = [line for index in range(begin, end) for line in self.group(index)]
        return lines, self.counts


def start_process(options):
    global writer
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    signal.signal(signal.SIGVTALRM, stop)
    # Python warns about some of the code that Jinja2 makes of mutations.
    warnings.simplefilter('ignore')
    # Syntax trees are cyclic, and there is memory for those of many programs.
    gc.freeze()
    gc.set_threshold(50_000, 10, 100)
    writer = Writer(options.seed, options)


def run_groups(bounds):
    return writer.groups(*bounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seed', type=int, required=True)
    parser.add_argument('--count', type=int, required=True)
    mutated = parser.add_mutually_exclusive_group(required=True)
    mutated.add_argument('--formats')
    mutated.add_argument('--templates')
    parser.add_argument('--jobs', type=int, default=1)
    options = parser.parse_args()
    groups = options.count // SETS_PER_GRAMMAR + 1
    bounds = [(begin, begin + 20) for begin in range(0, groups, 20)]
    total = collections.Counter()
    left = options.count

    def write(results):
        nonlocal left
        for lines, counts in results:
            total.update(counts)
            sys.stdout.buffer.write(b''.join(lines[:left]))
            left -= len(lines[:left])
            if left == 0:
                return

    if options.jobs == 1:
        start_process(options)
        write(map(run_groups, bounds))
    else:
        with multiprocessing.Pool(options.jobs, start_process, (options,)) as pool:
            write(pool.imap(run_groups, bounds))
    names = jinja_constructs.names(jinja_environment.make())
    summary = {name: total[name] for name in ('rendered', 'mutated', 'mutated_rendered', 'dropped')}
    print(json.dumps({'counts': {name: total['construct ' + name] for name in names}, **summary}))


if __name__ == '__main__':
    main()
