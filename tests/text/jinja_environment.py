"""The Jinja2 environment that Hugging Face's transformers set up for chat templates."""
import datetime
import json
import re
import string

import jinja2
import jinja2.ext
import jinja2.lexer
import jinja2.nodes
import jinja2.sandbox
import markupsafe

NOW = datetime.datetime(2026, 11, 22, 12, 34, 56)


class Unsupported(BaseException):
    """Ends a program that uses what the interpreter documents as unsupported. Jinja2 does not catch it."""


class Raised(jinja2.exceptions.TemplateError):
    """What raise_exception(message) raises."""


class Generation(jinja2.ext.Extension):
    """`{% generation %}...{% endgeneration %}`: the body has a scope of its own and is rendered as it is."""
    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method('_render'), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


# The interpreter refuses larger indents.
INDENT_MAX = 100


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    if isinstance(indent, int) and indent > INDENT_MAX:
        raise Unsupported
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise Raised(message)


def strftime_now(format):
    # Python 3.11 ends the format at a zero byte, and later versions do not.
    if isinstance(format, str) and '\0' in format:
        raise Unsupported
    return NOW.strftime(format)


# What the interpreter leaves out of Jinja2 and Python. A program that uses it fails here as there.
LEFT_OUT_FILTERS = '''
abs attr batch center e escape filesizeformat forceescape format groupby pprint random round slice striptags sum title
truncate urlencode urlize wordcount wordwrap xmlattr'''.split()
LEFT_OUT_TESTS = 'callable escaped filter lower test upper'.split()
LEFT_OUT_GLOBALS = 'cycler joiner lipsum'.split()
STRING_METHODS = '''
capitalize endswith find format join lower lstrip replace rfind rsplit rstrip split startswith strip upper'''.split()
# The methods that change a value are known, and refused.
METHODS = {
    str: STRING_METHODS, tuple: [], int: [], bool: [], float: [],
    list: 'append clear extend insert pop remove reverse sort'.split(),
    dict: 'clear get items keys pop popitem setdefault update values'.split()}
METHODS[markupsafe.Markup] = STRING_METHODS


class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The language of the interpreter."""
    intercepted_binops = frozenset(['%'])

    def _is_left_out(self, value, name):
        return isinstance(name, str) and name not in METHODS.get(type(value), [name])

    def _item(self, value, name):
        try:
            return value[name]
        except (TypeError, LookupError):
            return self.undefined(obj=value, name=name)

    def getattr(self, obj, attribute):
        return self._item(obj, attribute) if self._is_left_out(obj, attribute) else super().getattr(obj, attribute)

    def getitem(self, obj, argument):
        return self._item(obj, argument) if self._is_left_out(obj, argument) else super().getitem(obj, argument)

    def call_binop(self, context, operator, left, right):
        if isinstance(left, str):
            raise TypeError('unsupported operand type(s) for %')
        return super().call_binop(context, operator, left, right)


def parse_format(text):
    for literal, name, specification, conversion in string.Formatter().parse(text):
        if name is not None and (specification or conversion or set(name) & set('.[')):
            raise Unsupported
        yield literal, name, specification, conversion


def make():
    jinja2.lexer.name_re = re.compile(r'\w+', re.A)
    jinja2.sandbox.SandboxedFormatter.parse = lambda _, text: parse_format(text)
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation], cache_size=0)
    environment.filters['tojson'] = to_json
    for known, left_out in ((environment.filters, LEFT_OUT_FILTERS), (environment.tests, LEFT_OUT_TESTS),
                            (environment.globals, LEFT_OUT_GLOBALS)):
        for name in left_out:
            del known[name]
    environment.globals['raise_exception'] = raise_exception
    environment.globals['strftime_now'] = strftime_now
    return environment
