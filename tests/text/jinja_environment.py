"""The Jinja2 environment that Hugging Face's transformers set up for chat templates."""
import datetime
import json
import re

import jinja2
import jinja2.ext
import jinja2.filters
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime(2026, 11, 22, 12, 34, 56)


# Entities of HTML that the interpreter does not know.
UNSUPPORTED_ENTITY = re.compile(r'&(?!(amp|lt|gt|quot|AMP|LT|GT|QUOT|apos|nbsp);)[A-Za-z]')


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


def strip_tags(value):
    if UNSUPPORTED_ENTITY.search(str(value)):
        raise Unsupported
    return jinja2.filters.do_striptags(value)


def raise_exception(message):
    raise Raised(message)


def strftime_now(format):
    # Python 3.11 ends the format at a zero byte, and later versions do not.
    if isinstance(format, str) and '\0' in format:
        raise Unsupported
    return NOW.strftime(format)


def make():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation], cache_size=0)
    environment.filters['tojson'] = to_json
    environment.filters['striptags'] = strip_tags
    environment.globals['raise_exception'] = raise_exception
    environment.globals['strftime_now'] = strftime_now
    return environment
