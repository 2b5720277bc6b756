"""Chat templates in the style of published ones, and conversations."""

PLAIN = """{% for message in messages %}
{% if loop.first and message['role'] != 'system' %}
<|system|>
You are helpful.<|end|>
{% endif %}
<|{{ message['role'] }}|>
{{ message['content'] | trim }}<|end|>
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{% else %}
{{ eos_token }}
{% endif %}
"""

ALTERNATING = """{{- bos_token }}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set system = 'The date is ' + strftime_now('%d %B %Y') + '.' %}
    {%- set turns = messages %}
{%- endif %}
{%- for message in turns %}
    {%- if message.role not in ['user', 'assistant', 'tool'] %}
        {{- raise_exception('Unknown role: ' ~ message.role) }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- '[INST]' + (system + '\\n\\n' if loop.first else '') + message.content|string + '[/INST]' }}
    {%- elif message.role == 'assistant' %}
        {%- set content = message.content|default('', true) %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- generation %}{{ content }}{{ eos_token }}{% endgeneration %}
    {%- endif %}
{%- endfor %}
"""

TOOL_CALLS = """{%- macro arguments(values) -%}
    {%- for key, value in values|items %}
        {{- '<' ~ key ~ '>' }}{{ value if value is string else value|tojson }}{{ '</' ~ key ~ '>' }}
        {%- if not loop.last %}{{ '\\n' }}{% endif %}
    {%- endfor %}
{%- endmacro %}
{%- set ns = namespace(last_user=-1, calls=0) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set ns.last_user = loop.index0 %}{% endif %}
{%- endfor %}
{%- if tools %}
    {{- '<tools>\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson(indent=2) }}
        {{- '\\n' }}
    {%- endfor %}
    {{- '</tools>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<' + message.role + '>' }}
    {%- set reasoning = message.reasoning_content %}
    {%- if reasoning is defined and reasoning is string and loop.index0 > ns.last_user %}
        {{- '<think>' + reasoning.strip() + '</think>' }}
    {%- endif %}
    {%- if message.content is string %}
        {{- message.content }}
    {%- elif message.content is iterable and message.content is not mapping %}
        {%- for part in message.content %}
            {%- if part.type == 'text' %}{{ part['text'] }}{% else %}<image>{% endif %}
        {%- endfor %}
    {%- endif %}
    {%- for call in message.tool_calls or [] %}
        {%- set function = call.function if call.function is defined else call %}
        {%- set ns.calls = ns.calls + 1 %}
        {{- '<call id=' ~ ns.calls ~ ' name=' ~ function.name ~ '>' ~ arguments(function.arguments) ~ '</call>' }}
    {%- endfor %}
    {{- '</' ~ message.role ~ '>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<assistant>' }}{{ '<think>' if enable_thinking is not defined or enable_thinking }}
{%- endif %}
"""

TYPED_TOOLS = """{% macro type_of(spec, required) %}
{% if spec.enum %}{{ spec.enum | map('tojson') | join(' | ') }}
{%- elif spec.type == 'array' %}{{ type_of(spec['items'], []) }}[]
{%- elif spec.type == 'object' %}{
{%- for name, inner in spec.properties.items() %}
 {{ name }}{{ '?' if name not in required }}: {{ type_of(inner, inner.required or []) }}
{{- ',' if not loop.last }}
{%- endfor %} }
{%- else %}{{ spec.type | default('any', true) }}{% endif %}
{%- endmacro %}
{% macro turn(role) -%}
<turn role="{{ role|safe }}">{{ caller() }}</turn>
{% endmacro %}
{% if tools -%}
{% for tool in tools | selectattr('type', 'equalto', 'function') -%}
// {{ tool.function.description | indent(3) }}
{% set parameters = tool.function.parameters %}
type {{ tool.function.name }} = (_: {{ type_of(parameters, parameters.required or []) }}) => any;
{% endfor %}
{% endif %}
{% for message in messages %}
{% if message.role == 'tool' and loop.previtem and loop.previtem.role == 'tool' %}{% continue %}{% endif %}
{% call turn(message.role) %}{{ (message.content or '')|string|trim }}{% endcall %}
{% endfor %}
"""

TEMPLATES = [PLAIN, ALTERNATING, TOOL_CALLS, TYPED_TOOLS]


def _tool(name, description, properties, required):
    parameters = {'type': 'object', 'properties': properties, 'required': required}
    return {'type': 'function', 'function': {'name': name, 'description': description, 'parameters': parameters}}


TOOLS = [
    _tool('weather', 'Reads the weather.\nIn a place.', {
        'city': {'type': 'string', 'description': 'Where'},
        'unit': {'type': 'string', 'enum': ['celsius', 'fahrenheit']},
        'days': {'type': 'array', 'items': {'type': 'integer'}},
    }, ['city']),
    _tool('time', 'Tells the time.', {}, []),
]


def _conversation(messages, **others):
    return {'messages': messages, 'tools': None, 'documents': None, 'add_generation_prompt': True, 'bos_token': '<BOS>',
            'eos_token': '<EOS>', **others}


def _system(content):
    return {'role': 'system', 'content': content}


def _user(content):
    return {'role': 'user', 'content': content}


def _assistant(content, **others):
    return {'role': 'assistant', 'content': content, **others}


ARGUMENTS = {'city': 'Zürich', 'days': [1, 2], 'unit': None}
CALL = {'id': 'abcdefghi', 'type': 'function', 'function': {'name': 'weather', 'arguments': ARGUMENTS}}
RESULT = {'role': 'tool', 'name': 'weather', 'tool_call_id': 'abcdefghi', 'content': '{"degrees": 21.5}'}
CONVERSATIONS = [
    _conversation([_user('What is a fork?')]),
    _conversation([_system('Be terse.'), _user('Hello'), _assistant('Yes?')], add_generation_prompt=False),
    _conversation([_user('Weather?'), _assistant('', tool_calls=[CALL]), RESULT, RESULT,
                   _assistant('<think>\nSo.\n</think>\n\nIt is warm.'), _user('Thanks')], tools=TOOLS),
    _conversation([_user([{'type': 'text', 'text': 'Look: '}, {'type': 'image'}]),
                   _assistant('I see.', reasoning_content=' An image. '), _user('And?')], enable_thinking=False),
    _conversation([_user('Now?'), _assistant(None, tool_calls=[CALL]), RESULT], tools=TOOLS, enable_thinking=True),
]
