"""Mutations of chat templates and of the conversations that they are rendered with."""
import copy
import json
import os
import re

import jinja_chat_templates
import jinja_grammar
import jinja_statements
import jinja_variables

SEGMENT = re.compile(r'(\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\})', re.S)
TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d+(?:\.\d+)?|\w+|//|\*\*|[=!<>]=|\s+|.""", re.S)
TAG = re.compile(r'(\{[%{][-+]?)(.*?)([-+]?[%}]\})', re.S)
OPENS = {'if', 'for', 'macro', 'filter', 'call', 'with', 'generation'}
# A token is replaced by another of its group.
GROUPS = [
    ['==', '!=', '<', '>', '<=', '>=', '=='], ['and', 'or'], ['+', '~', '-', '~', '*'],
    ['true', 'false', 'none'],
    [
        'string', 'mapping', 'iterable', 'sequence', 'defined', 'none', 'number', 'boolean',
        'undefined', 'true', 'odd',
    ],
    [
        'trim', 'upper', 'lower', 'capitalize', 'string', 'tojson', 'length', 'list', 'first',
        'last', 'join', 'reverse', 'safe', 'items', 'unique', 'sort', 'int', 'default', 'indent',
    ],
    ['strip', 'rstrip', 'lstrip', 'upper', 'lower', 'capitalize', 'split', 'rsplit'],
    ['startswith', 'endswith', 'find', 'rfind'],
    [
        'first', 'last', 'index', 'index0', 'length', 'revindex', 'revindex0', 'previtem',
        'nextitem', 'depth',
    ],
    [
        'role', 'content', 'name', 'tool_calls', 'function', 'arguments', 'type', 'text',
        'description', 'parameters', 'id',
    ],
    ['elif', 'else', 'if'],
    [
        'messages', 'tools', 'bos_token', 'eos_token', 'add_generation_prompt', 'loop_messages',
        'message',
    ],
]
GROUP_OF = {}
for _group in GROUPS:
    for _token in _group:
        GROUP_OF.setdefault(_token, _group)
APPENDED = [
    '|trim', '|string', '|upper', '|tojson', '|default("x")', '|length', '|list', '|safe',
    '|replace("a", "b")', '|string|indent(2)', '|default("", true)', '[:5]',
    '|string|capitalize', ' ~ "!"', ' or "empty"', ' if messages else "none"', ' is string',
    '|first', '|string|reverse',
]
WRAPPERS = [
    ('{% generation %}', '{% endgeneration %}'),
    ('{% with extra = messages|length %}', '{% endwith %}'),
    ('{% set wrapped %}', '{% endset %}{{ wrapped }}'), ('{% filter upper %}', '{% endfilter %}'),
    ('{% if messages %}', '{% endif %}'), ('{%- for round in range(2) %}', '{%- endfor %}'),
    ('{% macro wrapped() %}', '{% endmacro %}{{ wrapped() }}'),
    ('{%- set wrapped | trim -%}', '{%- endset -%}{{- wrapped }}'),
    ('{% macro around() %}[{{ caller() }}]{% endmacro %}{% call around() %}', '{% endcall %}'),
    ('{% if false %}', '{% else %}-{% endif %}'),
]
INSERTED = [
    '{# note #}', '\n', '  ', '{{- "" -}}', '{{ loop.index }}', '{{ message }}',
    '{{ message|tojson }}', '{{ messages|length }}', '{{ tools }}', '{% set content = "" %}',
    '{{ messages[0].role }}', '{% set message = messages[-1] %}', '{{ missing }}',
    '{{ strftime_now("%d %b %Y") }}', '{%- if loop is defined and loop.last %}last{% endif %}',
    '{{ messages|map(attribute="role")|join(",") }}',
    '{% for m in messages|selectattr("role", "equalto", "user") %}{{ m.content }}{% endfor %}',
    '{{ messages[1:]|map(attribute="content")|list }}',
    '{% if add_generation_prompt is not defined %}undefined{% endif %}',
    '{{ message.content|string|trim }}',
]


PARTS = [{'type': 'image'}, {'type': 'text', 'text': 'b'}, {'type': 'image_url', 'image_url': {'url': 'u'}}]
SETTINGS = [
    'add_generation_prompt', 'enable_thinking', 'bos_token', 'date_string', 'add_vision_id', 'reasoning_effort',
    'builtin_tools', 'thinking', 'custom_tools']


class Template:
    """A template in segments (text, tags), with the pairs of tags that enclose a block."""

    def __init__(self, source, cases):
        self.source = source
        self.conversations = [case['variables'] for case in cases]
        self.rendering = [case['variables'] for case in cases if 'text' in case] or self.conversations
        self.segments = SEGMENT.split(source)
        self.code = [at for at, text in enumerate(self.segments) if text.startswith(('{%', '{{'))]
        self.outputs = [at for at, text in enumerate(self.segments) if text.startswith('{{')]
        self.blocks = self._blocks()
        tokens = [token for at in self.code for token in TOKEN.findall(self.segments[at])]
        self.strings = [token for token in tokens if token[0] in '"\'' and len(token) < 60] or ["''"]

    def _blocks(self):
        made, open_ = [], []
        for at in self.code:
            match = TAG.fullmatch(self.segments[at])
            words = match[2].split(None, 1) if match and match[1][1] == '%' else []
            if words and (words[0] in OPENS or words[0] == 'set' and '=' not in match[2]):
                open_.append(at)
            elif words and words[0].startswith('end') and open_:
                made.append((open_.pop(), at))
        return made


def _weight(source):
    """Short templates compile faster, and a mutation of them is found at once."""
    return len(source) ** -0.5


def own(path):
    """Returns this project's templates with their weights: those of jinja_chat_templates, and those of the JSON list
    in a file, which are simple and many, and together weigh a third of the others."""
    cases = [{'variables': variables, 'text': ''} for variables in jinja_chat_templates.CONVERSATIONS]
    made = [(Template(source, cases), _weight(source)) for source in jinja_chat_templates.TEMPLATES]
    with open(path, encoding='utf-8') as file:
        formats = json.load(file)
    share = sum(weight for _, weight in made) / 3 / len(formats)
    return made + [(Template(source, cases), share) for source in formats]


def published(folder):
    """Returns the templates of a folder with their weights."""
    made = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(os.path.join(path, 'template.jinja')):
            with open(os.path.join(path, 'template.jinja'), encoding='utf-8', newline='') as file:
                source = file.read()
            with open(os.path.join(path, 'cases.json'), encoding='utf-8') as file:
                made.append((Template(source, json.load(file)), _weight(source)))
    return made


class Mutation:
    """A mutated copy of a template; `inserted` says that it needs the grammar's variables."""

    def __init__(self, rng, template):
        self.rng = rng
        self.template = template
        self.segments = list(template.segments)
        self.inserted = False
        kinds = {
            self._token: 6, self._string: 3, self._number: 2, self._append: 4, self._whitespace: 5,
            self._delete_block: 2, self._double_block: 2, self._wrap: 4, self._insert: 3, self._insert_program: 3,
            self._delete_output: 1, self._negate: 2, self._any_token: 2, self._text: 2}
        for _ in range(rng.choice([1, 1, 1, 2, 2, 3])):
            rng.choices(list(kinds), list(kinds.values()))[0]()

    def source(self):
        return ''.join(self.segments)

    def _tokens(self, wanted):
        """Returns a segment's index, its tokens and the index of one that `wanted` accepts, or None."""
        for _ in range(8):
            at = self.rng.choice(self.template.code)
            tokens = TOKEN.findall(self.segments[at])
            found = [index for index, token in enumerate(tokens) if wanted(token)]
            if found:
                return at, tokens, self.rng.choice(found)
        return None

    def _replace(self, wanted, make):
        found = self._tokens(wanted)
        if found:
            at, tokens, index = found
            tokens[index] = make(tokens[index])
            self.segments[at] = ''.join(tokens)

    def _token(self):
        def wanted(token):
            # A `-` is rarely an operator, and another keyword is rarely right.
            return token in GROUP_OF and (token not in ('-', 'if', 'else', 'elif') or self.rng.random() < 0.05)
        self._replace(wanted, lambda token: self.rng.choice(GROUP_OF[token]))

    def _string(self):
        def make(token):
            shorter = token[:2] + token[0] if len(token) > 2 and token[1] != '\\' else token
            return self.rng.choice([self.rng.choice(self.template.strings), jinja_grammar.literal(self.rng), shorter])
        self._replace(lambda token: token[0] in '"\'', make)

    def _number(self):
        self._replace(lambda token: token.isdigit(),
                      lambda token: str(self.rng.choice([0, 1, 2, -1, int(token) % 1000 + 1])))

    def _append(self):
        at = self.rng.choice(self.template.outputs or self.template.code)
        match = TAG.fullmatch(self.segments[at])
        if match:
            body = match[2].strip()
            if self.rng.random() < 0.5:
                body = '(' + body + ')'
            self.segments[at] = match[1] + ' ' + body + self.rng.choice(APPENDED) + ' ' + match[3]

    def _whitespace(self):
        for _ in range(self.rng.randrange(1, 6)):
            at = self.rng.choice(self.template.code)
            match = TAG.fullmatch(self.segments[at])
            if match:
                begin = match[1][:2] + self.rng.choice(['', '-', '-', '+' if match[1][1] == '%' else ''])
                end = self.rng.choice(['', '-', '+' if match[1][1] == '%' else '']) + match[3][-2:]
                before, after = self.rng.choice(['', ' ', '\n']), self.rng.choice([' ', ' ', '\n\t'])
                self.segments[at] = begin + before + match[2].strip() + after + end

    def _delete_block(self):
        if self.template.blocks:
            begin, end = self.rng.choice(self.template.blocks)
            for at in range(begin, end + 1):
                self.segments[at] = ''

    def _double_block(self):
        small = [block for block in self.template.blocks if block[1] - block[0] < 60]
        if small:
            begin, end = self.rng.choice(small)
            self.segments[end] += ''.join(self.segments[begin:end + 1])

    def _wrap(self):
        if self.template.blocks:
            begin, end = self.rng.choice(self.template.blocks)
            before, after = self.rng.choice(WRAPPERS)
            self.segments[begin] = before + self.segments[begin]
            self.segments[end] += after

    def _insert(self):
        self.segments[self.rng.randrange(len(self.segments))] += self.rng.choice(INSERTED)

    def _insert_program(self):
        self.inserted = True
        self.segments[self.rng.randrange(len(self.segments))] += jinja_statements.Statements(self.rng).block(1, 2)

    def _delete_output(self):
        if self.template.outputs:
            self.segments[self.rng.choice(self.template.outputs)] = ''

    def _negate(self):
        self._replace(lambda token: token in ('if', 'elif'), lambda token: token + ' not')

    def _any_token(self):
        found = self._tokens(lambda token: not token.isspace())
        if found:
            at, tokens, index = found
            kind = self.rng.randrange(3)
            other = self.rng.randrange(len(tokens))
            if kind == 0:
                del tokens[index]
            elif kind == 1:
                tokens.insert(index, tokens[other])
            else:
                tokens[index], tokens[other] = tokens[other], tokens[index]
            self.segments[at] = ''.join(tokens)

    def _text(self):
        # Segments with an even index are text.
        at = 2 * self.rng.randrange((len(self.segments) + 1) // 2)
        self.segments[at] += self.rng.choice(jinja_statements.TEXTS)


def _mutate_message(rng, messages):
    at = rng.randrange(len(messages))
    message = messages[at]
    kind = rng.randrange(11)
    if kind == 0:
        message['role'] = rng.choice(['user', 'assistant', 'system', 'tool', 'developer', 'function', 'User', ''])
    elif kind == 1:
        message['content'] = rng.choice([None, '', '  padded\n', 'a</think>b', '<think>\nx\n</think>\n\ny', {'a': 'x'}, 7])
    elif kind == 2:
        message['content'] = [{'type': 'text', 'text': jinja_variables.sentence(rng)}, rng.choice(PARTS)]
    elif kind == 3:
        message.pop('content', None)
    elif kind == 4:
        arguments = {'city': jinja_variables.word(rng), 'days': rng.randrange(9), 'more': jinja_variables.value(rng, 1)}
        call = {**jinja_chat_templates.CALL, 'function': {'name': 'weather', 'arguments': arguments}}
        message['tool_calls'] = rng.choice([None, [], [call], [call, call]])
        message['role'] = 'assistant'
    elif kind == 5:
        message['reasoning_content'] = rng.choice(['thought', '', None, '\nlines\n'])
    elif kind == 6:
        messages.insert(at, copy.deepcopy(message))
    elif kind == 7 and len(messages) > 1:
        del messages[at]
    elif kind == 8:
        other = rng.randrange(len(messages))
        messages[at], messages[other] = messages[other], messages[at]
    elif kind == 9:
        added = {'role': rng.choice(['user', 'assistant']), 'content': jinja_variables.sentence(rng)}
        messages.append(rng.choice([added, added, dict(jinja_chat_templates.RESULT)]))
    elif isinstance(message.get('content'), str):
        message['content'] = jinja_variables.sentence(rng)


def conversation(rng, template, inserted):
    """Returns the variables of one of the template's conversations after up to three changes."""
    made = copy.deepcopy(rng.choice(template.rendering if rng.random() < 0.95 else template.conversations))
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        kind = rng.random()
        if kind < 0.6 and made.get('messages'):
            _mutate_message(rng, made['messages'])
        elif kind < 0.8:
            made[rng.choice(SETTINGS)] = rng.choice([True, False, True, False, None, 'low', '26 Jul 2024'])
        elif kind < 0.9:
            made['tools'] = rng.choice([None, [], made.get('tools'), jinja_chat_templates.TOOLS])
        elif kind < 0.95:
            made.pop(rng.choice(['tools', 'documents', 'eos_token', 'add_generation_prompt', 'bos_token']), None)
        else:
            name = rng.choice(['documents', 'xml_tools', 'json_tools', 'model_identity', 'tools'])
            made[name] = rng.choice([None, [], [{'title': 't', 'text': 'body'}], jinja_variables.value(rng)])
    if inserted:
        made = {**jinja_variables.variables(rng), **made}
    return made
