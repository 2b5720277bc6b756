"""Random Jinja programs: statements around the expressions of jinja_grammar, with whitespace control
and odd whitespace everywhere, and a minority of programs with a syntax error."""
import jinja_grammar

DEPTH = 4
TEXTS = [
    'text', ' ', '\n', '  ', '\n\n', '<|im_start|>', 'a b', '{ ', '}', '%', '# ', '{"a": 1}', '\t',
    '\n  ', '  \n', 'é', '[INST]', '.', ':', ', ', 'end\n', '}}', '%}', "'", '"', '\\n', '\r\n',
    '&lt;', '- ', '-', '+', ' -',
]
# What a loop goes over, its targets, and the targets' types.
LOOPS = [
    ('@ints', 'i', ['int']), ('@strs', 'w', ['str']), ('@any_list', 'v', ['any']),
    ('range(@width)', 'i', ['int']), ('@str', 'c', ['str']),
    ('range(@count, @width, @nzcount)', 'j', ['int']), ('@dict', 'k', ['str']),
    ('@dict.items()', 'k, v', ['str', 'any']), ('@dict|items', 'k, v', ['str', 'any']),
    ('@dict|dictsort', 'k, v', ['str', 'any']), ('@people', 'p', ['person']),
    ('@pairs', 'a, b', ['str', 'int']), ('@matrix', 'row', ['ints']),
    ('@matrix', 'a, b, c', ['int', 'int', 'int']),
    ('@messages', 'message', ['dict']),
    ('messages', 'message', ['dict']), ('@list|reverse', 'v', ['any']),
    ('[(1, (2, @str)), (@int, (@int, "b"))]', 'a, (b, c)', ['int', 'int', 'str']),
    ('@strs|map("upper")', 'w', ['str']), ('missing', 'v', ['any']), ('@dict.keys()', 'k', ['str']),
    ('@dict.values()', 'v', ['any']), ('@strs|unique', 'w', ['str']),
    ('@people|selectattr("active")', 'p', ['person']), ('@ints|select("odd")', 'i', ['int']),
    ('@str.split()', 'w', ['str']), ('@any_list[::-1]', 'v', ['any']),
]
# What may follow the name of the loop; with its type.
IN_LOOP = [
    ('loop.index', 'int'), ('loop.index0', 'int'), ('loop.revindex', 'int'),
    ('loop.revindex0', 'int'), ('loop.first', 'bool'), ('loop.last', 'bool'),
    ('loop.length', 'int'), ('loop.depth', 'int'), ('loop.depth0', 'int'),
    ('loop.cycle("odd", "even")', 'str'), ('loop.cycle(@int, @str, @int)', 'any'),
    ('loop.previtem', 'any'), ('loop.nextitem', 'any'), ('loop.changed(@any)', 'bool'),
    ('loop.previtem is defined', 'bool'), ('loop.nextitem|default("none")', 'any'),
    ('loop.index is divisibleby 2', 'bool'), ('loop.revindex0 == 0', 'bool'), ('loop', 'any'),
    ('loop.length - loop.index0', 'int'), ('loop.revindex', 'int'),
    ('loop.nextitem is not defined', 'bool'), ('loop.changed(loop.first)', 'bool'),
]
CALLERS = ['{{ caller() }}', '{{ caller()|trim }}', '{% if caller is defined %}{{ caller() }}{% endif %}']
FILTERS = [
    'upper', 'lower', 'trim', 'capitalize', 'replace("a", "b")', 'indent(2)', 'length', 'reverse',
    'upper|trim', 'list|join("-")', 'tojson', 'indent(width=1, first=true)|lower', 'safe',
    'string|safe', 'default("x", true)', 'safe|length',
]
OUTPUTS = [
    'any', 'any', 'str', 'str', 'int', 'bool', 'list', 'float', 'dict', 'strs', 'ints', 'people',
    'method', 'method', 'rare',
]
# Statements as they are written by hand; `$` and `@` as in a production.
FIXED = [
    ('{% set box = namespace(value=@any, n=0) %}{% for i in @ints %}{% set box.n = box.n + i %}'
     '{% set box.value = box.n ~ @str %}{% endfor %}{{ box.value }}{{ box.n }}'),
    ('{% set found = namespace(it=none) %}{% for p in @people %}{% if $person.age > p.age %}'
     '{% set found.it = p.name %}{% endif %}{% endfor %}{{ found.it }}'),
    ('{% set ns = namespace({"a": @int}, b=@str) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}{{ ns.b }}'
     '{{ ns.missing is defined }}{{ ns["b"] }}'),
    ('{% set ns = namespace() %}{% set ns.list = [] %}{% for v in @any_list %}'
     '{% set ns.list = ns.list + [v] %}{% endfor %}{{ ns.list }}'),
    ('{% for node in tree recursive %}{{ node.name }}{{ loop.depth }}{% if node.children %}'
     '({{ loop(node.children) }}){% endif %}{% endfor %}'),
    ('{%- for node in tree recursive -%}\n  {{ loop.depth0 ~ node["name"] }}'
     '{{ loop(node.children)|indent(2) }}{{ "," if not loop.last }}\n{%- else -%}'
     ' leaf {% endfor %}'),
    ('{% macro walk(nodes, level=0) %}{% for node in nodes %}{{ " " * level }}{{ node.name }}'
     '\n{{ walk(node.children, level + 1) }}{% endfor %}{% endmacro %}{{ walk(tree) }}'),
    ('{% macro show(a, b=@any, c=@str) %}{{ a }}|{{ b }}|{{ c }}{% endmacro %}{{ show(@any) }}'
     '{{ show(@any, @any) }}{{ show(a=@any, c=@any) }}{{ show(c=@any, b=@int, a=@str) }}'
     '{{ show() }}'),
    ('{% macro more(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}'
     '{{ more(1, @any, @any, k=@any) }}{{ more() }}{{ more(*@ints) }}{{ more(@any, **@dict) }}'),
    ('{% macro outer(x) %}<{{ x }}>{{ caller(x, @any) if caller else "no caller" }}{% endmacro %}'
     '{% call(a, b="d") outer(@any) %}{{ a }}-{{ b }}{% endcall %}{{ outer(@any) }}'),
    ('{% macro wrap(tag, kind=none) -%}\n<{{ tag }}{% if kind %} {{ kind }}{% endif %}'
     '>{{ caller() }}</{{ tag }}>\n{%- endmacro %}{% call wrap(@lit) %} {{ @any }} {% endcall %}'),
    ('{% macro twice() %}{{ caller() }}{{ caller() }}{% endmacro %}{% call twice() %}'
     '{% call twice() %}{{ @any }}{% endcall %};{% endcall %}'),
    ('{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(@any) }}{{ m.name }}{{ m.arguments }}'
     '{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}'),
    ('{% macro each(list) %}{% for v in list %}{{ caller(v) }}{% endfor %}{% endmacro %}'
     '{% call(v) each(@any_list) %}[{{ v }}]{% endcall %}'),
    '{% set text %}\n  {{ @any }} and {{ @str }}\n{% endset %}{{ text }}{{ text|length }}',
    '{% set text | upper | trim %} {{ @str }} {% endset %}[{{ text }}]',
    '{% set text|replace("a", @lit) %}a{{ @str }}{% endset %}{{ text }}',
    '{% set a, b = @any, @any %}{{ a }}{{ b }}', '{% set a, b = @ints %}{{ a }}',
    '{% set (a, (b, c)) = (1, [@any, 3]) %}{{ a ~ b ~ c }}', '{% set t1 = @int, @str %}{{ t1 }}',
    '{% with a = @any, b = @str %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}',
    ('{% set a = 1 %}{% with a = a + 1, b = a %}{{ a }}{{ b }}{% set a = 9 %}{{ a }}{% endwith %}'
     '{{ a }}'),
    '{% with %}{% set q = @any %}{{ q }}{% endwith %}{{ q }}',
    '{% generation %}{{ @any }}{% endgeneration %}',
    '{% generation %}\n {{- @str }}\n{% endgeneration -%}\n',
    '{% set g = 1 %}{% generation %}{% set g = 2 %}{{ g }}{% endgeneration %}{{ g }}',
    '{% for i in @ints %}{% generation %}{{ i }}{{ loop.index }}{% endgeneration %}{% endfor %}',
    '{% if $bool %}{{ raise_exception(@str) }}{% endif %}',
    '{{ raise_exception("roles must alternate: " ~ @str) if $int > 30 }}',
    '{% set x = @int %}{% if x > 50 %}{{- raise_exception("x is " ~ x) -}}{% endif %}{{ x }}',
    ('{% for v in @any_list %}{% if loop.index > @count %}{% break %}{% endif %}{{ v }}'
     '{% endfor %}'),
    ('{% for v in @any_list %}{% if v is string %}{% continue %}{% endif %}{{ v }}{% else %}'
     'none{% endfor %}'),
    ('{% for i in range(5) %}{% for j in range(3) %}{% if j > i %}{% break %}{% endif %}'
     '{{ i * j }}{% endfor %}{{ loop.index }}{% if i == 3 %}{% break %}{% endif %}{% endfor %}'),
    ('{% for v in @any_list if v %}{{ loop.index }}/{{ loop.length }}:{{ v }};{% else %}'
     'empty{% endfor %}'),
    '{% for m in messages if m.role == "user" %}{{ m.content }}{{ loop.last }}{% endfor %}',
    '{% set x = 1 %}{% for i in @ints %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}',
    '{% set x = 1 %}{% if @bool %}{% set x = 2 %}{% endif %}{{ x }}',
    '{% set x = 1 %}{% macro mm() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ mm() }}',
    '{% macro late() %}{{ later }}{% endmacro %}{% set later = @str %}{{ late() }}',
    '{% if false %}{% set ghost = 1 %}{% endif %}{{ ghost is defined }}{{ ghost }}',
    '{% for i in [1, 2] %}{% set inner = i %}{% endfor %}{{ inner is defined }}{{ i is defined }}',
    '{% print @any, @any %}', '{% raw %}{{ not }} {% a %}{# b #}{% endraw %}',
    '{%- raw -%}  {{ x }}  {%- endraw -%}', '{# comment {{ x }} {% if %} #}', '{#- trimmed -#}',
    '  {# lstripped #}\n',
    ('{% for message in messages %}{{ "<|" ~ message["role"] ~ "|>" }}'
     '{% if message.content is string %}{{ message.content|trim }}'
     '{% elif message.content is iterable %}{% for part in message.content %}{{ part.text }}'
     '{% endfor %}{% else %}-{% endif %}{% endfor %}'),
    ('{% for message in messages %}{% if message.tool_calls %}{{ message.tool_calls|tojson }}'
     '{% for call in message.tool_calls %}{{ call.function.name }}'
     '{{ call["function"].arguments|items|list }}{% endfor %}{% endif %}{% endfor %}'),
    '{% if (messages[0].role == "user") != (loop is defined) %}{{ @any }}{% endif %}',
    '{{ missing }}{{ [missing] }}{{ missing|length }}{{ missing|list }}',
    '{% for v in missing %}{{ v }}{% else %}undefined is empty{% endfor %}',
    '{{ "a" if missing else "b" }}{{ missing == none }}{{ missing ~ 1 }}',
    '{{ point.at|default(@any) }}',
    '{% set ns = namespace(a=@int) %}{{ ns }}{% macro printed() %}{% endmacro %}{{ printed }}',
    '{% autoescape false %}{{ @str }}{% endautoescape %}',
    '{% set b = @str %}{% block first %}{{ b }}{{ @any }}{% endblock %}',
    '{% block second %}{% set n = 1 %}{{ n }}{% endblock second %}{{ n }}',
    '{% for i in @ints %}{% block third scoped %}{{ i }}{% endblock %}{% endfor %}',
    '{% for i in @ints %}{% block fourth %}{{ i is defined }}{% endblock %}{% endfor %}',
    '{% macro spare(caller=none) %}{{ caller }}{% endmacro %}{{ spare() }}',
    '{% set saved = loop %}{{ saved }}',
    ('{% for a in @ints %}{% for b in @strs %}{{ loop.index }}{% endfor %}{{ loop.index }}'
     '{% endfor %}'),
    ('{% for a in @ints %}{% set outer = loop %}{% for b in @strs %}{{ outer.index }}'
     '{{ loop.last }}{% endfor %}{% endfor %}'),
    '{% filter indent(2, first=true) %}{{ @str }}\nline{% endfilter %}',
    '{{ @str|replace("a", "b")|upper|trim }}{{ 1e22 }}',
]
# Statements that fail, most of them only if they are executed.
FAILING = [
    '{% for i in [1] %}{% set loop = 2 %}{% endfor %}', '{% break %}',
    '{% set point.name = @str %}', '{% block first %}{% endblock %}{% block first %}{% endblock %}',
    '{% endfor %}', '{% if %}{% endif %}', '{{ missing.attribute }}', '{{ missing.role|default(@str) }}', '{{ absent.a.b }}',
    '{% for v in missing.content %}{% endfor %}', '{% if missing.flag %}{% endif %}', '{{ missing + 1 }}',
    '{{ missing() }}', '{{ d.nope.nope }}', '{{ nothing.at.all|default(@any) }}',
    '{{ @any is defined if flag else 1 }}', '{{ @any|nofilter }}', '{{ @any is notest }}',
    '{{ @str|title }}', '{{ @str is upper }}', '{{ @str.title() }}', '{{ "%s" % @str }}',
    '{{ joiner() }}', '{{ [1].count(1) }}', '{% set größe = 1 %}',
    '{{ d.update({"a": 1}) }}', '{{ nums.append(1) }}', '{{ s.__class__ }}',
    '{{ (s ~ 1)._private }}', '{{ -@str }}', '{{ @int / 0 }}', '{{ @int % 0 }}', '{{ @dict[[1]] }}',
    '{{ @ints < @str }}',
]


class Statements:
    """Writes one program; a scope is the expressions' dictionary of names."""

    def __init__(self, rng):
        self.rng = rng
        self.draw = jinja_grammar.Expressions(rng)
        self.loops = 0
        self.fresh = 0

    def expression(self, kind, depth=2):
        made = self.draw.make(kind, depth)
        if self.rng.random() < 0.02:
            made = made.replace(' ', self.rng.choice(['  ', '\n', '\t', ' \n ']), 1)
        return made

    def control(self, text):
        """Returns the text with some of its markers given other whitespace control."""
        rng = self.rng
        if rng.random() < 0.5:
            return text
        pieces = []
        for piece in text.replace('%}', '\0%}\0').replace('{%', '\0{%\0').split('\0'):
            if piece == '{%' and rng.random() < 0.3:
                piece = rng.choice(['{%-', '{%+', '{%-'])
            elif piece == '%}' and rng.random() < 0.3:
                piece = rng.choice(['-%}', '+%}', '-%}'])
            pieces.append(piece)
        # A marker that had a sign already, and `raw` inside, stay as they were.
        made = ''.join(pieces)
        return text if any(bad in made for bad in ('{%--', '{%+-', '--%}', '-+%}', 'raw')) else made

    def tag(self, content):
        rng = self.rng
        begin, end = rng.choice(['{%', '{%', '{%', '{%-', '{%+']), rng.choice(['%}', '%}', '%}', '-%}', '+%}'])
        before, after = rng.choice([' ', ' ', ' ', '', '\n', '  ']), rng.choice([' ', ' ', ' ', '', '\t'])
        if content[-1:] in '-+':
            after = ' '
        indent = rng.choice(['', '', '', '  ', '\n', '\n  ', '\t'])
        return indent + begin + before + content + after + end + rng.choice(['', '', '', '\n', ' \n', ' '])

    def output(self):
        rng = self.rng
        begin, end = rng.choice(['{{', '{{', '{{', '{{-']), rng.choice(['}}', '}}', '}}', '-}}'])
        if rng.random() < 0.01:
            begin = '{{+'
        if self.loops and rng.random() < 0.25:
            made = self.draw.fill(rng.choice(IN_LOOP)[0], 1)
        else:
            made = self.expression(rng.choice(OUTPUTS))
        return begin + ' ' + made + ' ' + end

    def text(self):
        return ''.join(self.rng.choice(TEXTS) for _ in range(self.rng.randrange(1, 4)))

    def block(self, depth, most=3):
        """Returns one to `most` pieces; depth bounds the statements in each other."""
        made = []
        for _ in range(self.rng.randrange(1, most + 1)):
            kind = self.rng.random()
            if kind < 0.25:
                made.append(self.text())
            elif kind < 0.55 or depth <= 0:
                made.append(self.output())
            else:
                made.append(self.statement(depth - 1))
        return ''.join(made)

    def statement(self, depth):
        kind = self.rng.random()
        if kind < 0.02:
            return self.control(self.draw.fill(self.rng.choice(FAILING), 2))
        if kind < 0.34:
            return self.control(self.draw.fill(self.rng.choice(FIXED), 2))
        if kind < 0.58:
            return self.loop(depth)
        if kind < 0.74:
            return self.condition(depth)
        if kind < 0.86:
            return self.assignment(depth)
        if kind < 0.91:
            return self.tag('filter ' + self.rng.choice(FILTERS)) + self.block(depth, 2) + self.tag('endfilter')
        if kind < 0.97:
            return self.macro(depth)
        return self.tag('generation') + self.scoped(depth, {}) + self.tag('endgeneration')

    def scoped(self, depth, names):
        before = self.draw.names
        self.draw.names = before | names
        made = self.block(depth)
        self.draw.names = before
        return made

    def loop(self, depth):
        rng = self.rng
        values, targets, kinds = rng.choice(LOOPS)
        names = dict(zip(targets.replace('(', '').replace(')', '').split(', '), kinds))
        head = 'for ' + targets + ' in ' + self.draw.fill(values, 1)
        before = self.draw.names
        self.draw.names = before | names
        if rng.random() < 0.15:
            head += ' if ' + self.expression('bool', 1)
        self.loops += 1
        made = self.tag(head)
        if rng.random() < 0.15:
            made += self.tag('if ' + self.expression('bool', 1))
            made += self.tag(rng.choice(['break', 'continue'])) + self.tag('endif')
        made += self.block(depth)
        self.loops -= 1
        self.draw.names = before
        if rng.random() < 0.2:
            made += self.tag('else') + self.block(depth, 2)
        return made + self.tag('endfor')

    def condition(self, depth):
        rng = self.rng
        kind = rng.choice(['bool', 'bool', 'bool', 'any'])
        if self.loops and rng.random() < 0.3:
            test = self.draw.fill(rng.choice([text for text, of in IN_LOOP if of == 'bool']), 1)
        else:
            test = self.expression(kind)
        made = self.tag('if ' + test) + self.block(depth)
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            made += self.tag('elif ' + self.expression('bool')) + self.block(depth, 2)
        if rng.random() < 0.4:
            made += self.tag('else') + self.block(depth, 2)
        return made + self.tag('endif')

    def assignment(self, depth):
        rng = self.rng
        kind = rng.choice(['int', 'str', 'ints', 'strs', 'dict', 'any', 'bool', 'list', 'people', 'float'])
        # Some new names, and some of the names that are there already.
        self.fresh += 1
        name = rng.choice(self.draw.named(kind) or ['fresh']) if rng.random() < 0.4 else 'v%d' % self.fresh
        if rng.random() < 0.3:
            filters = ' | ' + rng.choice(FILTERS[:10]) if rng.random() < 0.3 else ''
            made = self.tag('set ' + name + filters) + self.block(depth, 2) + self.tag('endset')
            kind = 'str'
        else:
            made = self.tag('set ' + name + rng.choice([' = ', '=', ' =']) + self.expression(kind))
        self.draw.names = self.draw.names | {name: kind}
        return made

    def macro(self, depth):
        rng = self.rng
        self.fresh += 1
        name = 'macro%d' % self.fresh
        kinds = [rng.choice(['int', 'str', 'any', 'strs', 'dict']) for _ in range(rng.randrange(4))]
        names = {'p%d' % index: kind for index, kind in enumerate(kinds)}
        optional = rng.randrange(len(kinds) + 1)
        parameters = list(names)
        for index in range(optional, len(kinds)):
            parameters[index] += '=' + self.expression(kinds[index], 1)
        # Inside, `loop` would be an outer loop's.
        loops, self.loops = self.loops, 0
        calls = rng.random() < 0.4
        body = self.scoped(depth, names) + (rng.choice(CALLERS) if calls else '')
        self.loops = loops
        made = self.tag('macro ' + name + '(' + ', '.join(parameters) + ')') + body + self.tag('endmacro')
        for _ in range(rng.randrange(1, 3)):
            given = list(names.items())[:rng.randrange(optional, len(kinds) + 1)]
            positional = rng.randrange(len(given) + 1)
            arguments = [(key + '=' if index >= positional else '') + self.expression(kind, 1)
                         for index, (key, kind) in enumerate(given)]
            call = name + '(' + ', '.join(arguments) + ')'
            if calls:
                made += self.tag('call ' + call) + self.block(depth, 1) + self.tag('endcall')
            else:
                made += '{{ ' + call + rng.choice(['', '|trim', '|length', ' ~ "!"', '|upper']) + ' }}'
        return made


DAMAGES = list('{}%()\'"|.[]=!$`~') + [' and ', '{{', '%}', '{%', '#}']


def damage(rng, source):
    """Returns the source with one character or tag removed, doubled or replaced: usually a syntax error."""
    at = rng.randrange(len(source) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        return source[:at] + source[at + 1:]
    if kind == 1:
        return source[:at] + rng.choice(DAMAGES) + source[at:]
    if kind == 2:
        begin = source.find('{%', at)
        end = source.find('%}', begin) + 2
        return source[:begin] + source[end:] if 0 <= begin < end else source + '{% endif %}'
    return source[:at] + source[at:at + 5] * 2 + source[at + 5:]


def program(rng):
    """Returns the source of a random program over the names of jinja_grammar.VARIABLES."""
    source = Statements(rng).block(DEPTH, 5)
    return damage(rng, source) if rng.random() < 0.04 else source
