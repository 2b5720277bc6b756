"""Random Jinja expressions from a table of productions with approximate types.

A production is Jinja text with places for other expressions: `$type` stands for an expression of
the type in parentheses unless it is an atom, `@type` for one without parentheses (an argument or
an element). A type is a promise that most values keep: a missing element makes an Undefined, and
a small part of the places gets an expression of another type on purpose.
"""
import re

from jinja_variables import VARIABLES, word

DATES = [
    '%Y-%m-%d', '%d %b %Y', '%H:%M:%S', '%A, %B %d', '%a %-d %y', '%j|%p|%I', '%m/%d/%Y %%',
    '%U %w %W', '', 'é %Y', '%F %T', '%c', '%x %X', '%e',
]

TABLE = '''
int: $int + $int | $int - $int | $int * $nz | $int // $nz | $int % $nz | -$int | +$int | $nz ** @exp
int: $str|length | $any_list|count | $any_list|length | $str|int | $num|int | $str|int(@int)
int: $str|int(default=@int, base=@base) | $ints|max | $ints|min | $ints|first | $ints|last
int: $ints[@idx] | $str.find(@lit) | $str.rfind(@lit) | @int if @bool else @int | $person.age
int: $person['age'] | $person.info.zip | $conf.size | $messages|length | $dict|length
int: $int + $int * $nz - $int // $nz | $int - $int - $int | -$nz ** 2 | 2 ** 3 ** 2
int: $int + $str|length * 2 | $int % $nz + $nz | $int|default(@int) | missing|default(@int)
int: missing|d(@int) | nil|default(@int, true) | $int or $nz | $nz and $int
int: $str.find(@lit, @count) | [@int, @int, @int][@count] | {'a': @int, 'b': @int}['a']
int: {'a': @int}.a | (@int, @int)[@idx1] | $ints|first|default(@int) | ($matrix|first)[1]
int: range(9)[@idx] | $str.rfind(@lit, @count, 9) | $num // $nz | $bool + $int | $bool|int
int: $people|map(attribute='age')|max | ($people|max(attribute='age')).age
int: ($people|min(attribute='age')).age | $dict.get('a', @int)|int | ($pairs|first)[1]
int: $str|trim|length | $ints|unique|list|count
float: $float + $num | $float - $num | $float * $nz | $num / $nz | $float // $nz | $float % $nz
float: -$float | $num|float | $str|float | $str|float(@float) | $str|float(default=@float)
float: $floats|max | $floats|min | @float if @bool else @float | $nz ** -@exp | $int / $nz + 1
float: $floats|sort|last | $floats[@idx]
num: @int | @float | @int | $int + $float | [@num, @num]|max | @num if @bool else @num
str: $str ~ $any | $str + $str | $str * @count | @count * $str | $str|upper | $str|lower
str: $str|capitalize | $str|trim | $str|trim(@chars) | $str|replace(@lit, @lit)
str: $str|replace(@lit, @lit, @count) | $str|reverse | $str|indent | $str|indent(@count)
str: $str|indent(@count, true) | $str|indent(width=@count, first=@bool, blank=true)
str: $str|indent('> ', first=true) | $str|string | $any|string | $num|string | $str|first
str: $str|last | $str[@idx] | $str[@idx:@idx] | $str[:@idx] | $str[@idx:] | $str[::-1]
str: $str[::@step] | $str[@idx:@idx:@step] | $str.upper() | $str.lower() | $str.strip()
str: $str.strip(@chars) | $str.lstrip() | $str.rstrip() | $str.lstrip(@chars) | $str.rstrip(@chars)
str: $str.replace(@lit, @lit) | $str.replace(@lit, @lit, @count) | $str.capitalize()
str: $str.split(@lit1)[0] | $str.split()[@idx] | $str.split(@lit1)|last | $lit1.join($strs)
str: $lit1.join(@words_fixed) | $strs|join | $strs|join(@lit) | $any_list|join(@lit)
str: $any_list|join | $people|join(', ', attribute='name') | $people|map(attribute='name')|join('/')
str: $ints|join('+') | $any|tojson | $any|tojson(indent=@count) | $any|tojson(indent=2)
str: $any_list|tojson(separators=(',', ':')) | $dict|tojson(sort_keys=true) | $str|tojson
str: $str|tojson(ensure_ascii=true) | $any_list|tojson(indent=4, sort_keys=true)
str: $conf|tojson(indent=2, separators=(',', ': ')) | $people|tojson | $str|tojson(true) | $str|safe
str: '{} {}'.format(@any, @str) | '{0}{1}{0}'.format(@int, @str) | '{a}-{b}'.format(a=@str, b=@int)
str: @str if @bool else @str | @str if @bool | $str or @str | $person.name | $person['name']
str: $person.info.city | $conf.name | $conf['name'] | $dict.get('name', @str) | $dict['name']
str: $dict.name | $conf.inner.deep.value | $conf['inner']['deep'] | $str|default(@str)
str: missing|default(@str) | missing|default | $str|d(@lit, true) | strftime_now(@date)
str: $str ~ $int + $int ~ $str | $int ~ $float ~ $bool | $str|upper ~ $str|lower | $strs|first
str: $strs|last | $strs[@idx] | $strs|max | $strs|min | $words_fixed[@idx]
str: $str.split(@lit1, 1)|join('&') | $str|list|join('.') | $str|replace('\\n', ' ')
str: $str|trim|capitalize | ($messages|first).role | ($messages|last).content | $strs|sort|join(',')
str: $str|map('upper')|join | $strs|map('replace', @lit, @lit)|join | $markup.upper()
str: $markup ~ @lit | $markup + @lit | @lit + $markup | $markup|replace('<', @lit)
str: $markup|length ~ '' | $markup * 2 | $markup|trim | $markup.join(@strs) | $markup|tojson
str: $people|map(attribute='email', default='?')|join(';')
str: $people|map(attribute='tags')|map('first')|join | $strs|map('length')|join(' ')
markup: $str|safe | html|safe
bool: $int is odd | $int is even | $int is divisibleby @nz | $int is divisibleby(@nz)
bool: $any is defined | $any is undefined | $any is not defined | $any is none | $any is not none
bool: $any is boolean | $any is true | $any is false | $any is integer | $any is float
bool: $any is number | $any is string | $any is mapping | $any is sequence | $any is iterable
bool: $any is sameas(none) | $bool is sameas true | $any is sameas false | $int is eq(@int)
bool: $int is equalto(@int) | $any is eq @atom | $int is ne(@int) | $int is lt(@int)
bool: $int is le @nz | $int is gt(@int) | $int is ge(@int) | $int is greaterthan(@int)
bool: $int is lessthan(@int) | $num is lt @nz | $int is in(@ints) | $str is in @lits
bool: $int is not in [1, 2, 3] | $int == $int | $int != $int | $num < $num | $num <= $num
bool: $num > $num | $num >= $num | $str == $str | $str < $str | $any == $any | $any != $any
bool: $str in $str | $lit in $strs | $int in $ints | $lit not in $str | $lit in $dict
bool: 'name' in $person | $any in $any_list | $any not in $any_list | $int < $int < $int
bool: $int <= $int != $int | 1 == true == $int | not $bool | $bool and $bool | $bool or $bool
bool: not $bool and $bool or $bool | not ($bool or $bool) | not $int == $int | not $str in $str
bool: $int + $int == $int | $str is string and $int is odd | $bool if @bool else $bool
bool: @bool if ($str is string) else @bool | $str.startswith(@lit) | $str.endswith(@lit)
bool: $str.startswith((@lit, @lit)) | $str.endswith(@lit, @count) | $person.active
bool: missing is defined | missing == absent | missing == none | not missing
bool: $person.email is defined | $messages[0].tool_calls is defined | $lit in missing
bool: $dict is mapping and $dict | $any_list == $any_list | $ints < $ints | $person == $person
bool: $conf.nothing is none | $dict == $dict | [@int] in $matrix | true and $any is true
bool: $int is string or $int is number | $strs|length > @count | $int >= @int and $int is not none
bool: $any is not sameas $any_atom | missing is false
ints: [@int, @int] | [@int, @int, @int] | $ints + $ints | $ints[@idx:] | $ints[:@idx] | $ints[::-1]
ints: $ints[@idx:@idx:@step] | $ints|sort | $ints|sort(reverse=true) | $ints|sort(true)
ints: $ints|unique|list | $ints|reverse|list | $ints|list | $ints|select('odd')|list
ints: $ints|select('even')|list | $ints|reject('gt', @int)|list
ints: $ints|select('divisibleby', @nz)|list | $ints|select('>', @int)|list
ints: $ints|select('in', @ints)|list | $ints|reject('==', @int)|list | $ints|select|list
ints: $ints|reject|list | range(@width)|list | range(@count, @width)|list
ints: range(@width, @count, -@nzcount)|list | range(0, @width, @nzcount)|list
ints: $strs|map('length')|list | $people|map(attribute='age')|list
ints: $people|map(attribute='info.zip')|list | $strs|map('int')|list | $ints * 2
ints: $dict.values()|select('integer')|list | $matrix|first | $ints|select('ge', @int)|list
ints: $ints|select('<=', @int)|list | $ints|reject('ne', @int)|list | $ints|reject('<', @int)|list
ints: $ints|select('>=', @int)|list | $ints|select('!=', @int)|list
ints: $ints|select('lessthan', @int)|list | $ints|select('sameas', @int)|list
ints: $ints if @bool else $ints | $str.split()|map('length')|list
floats: [@float, @num] | $floats|sort | $floats + [@float] | $ints|map('float')|list
floats: $strs|map('float')|list | $floats|reverse|list | $floats[1:] | $floats|unique|list
strs: [@str, @str] | [@lit, @lit, @str] | $strs + $strs | $strs[@idx:] | $strs[:@idx] | $strs[::-1]
strs: $strs|sort | $strs|sort(case_sensitive=true) | $strs|sort(reverse=true) | $strs|unique|list
strs: $strs|unique(true)|list | $strs|reverse|list | $strs|map('upper')|list
strs: $strs|map('trim')|list | $strs|map('replace', @lit, @lit)|list | $strs|select('string')|list
strs: $strs|reject('in', @lits)|list | $str.split() | $str.split(@lit1) | $str.split(@lit1, @count)
strs: $str.rsplit(@lit1, @count) | $str.rsplit() | $str.split(none, 1) | $str.split(maxsplit=1)
strs: $str|list | $dict.keys()|list | $dict|list | $dict.keys()|sort
strs: $people|map(attribute='name')|list | $people|map(attribute='name')|sort
strs: $ints|map('string')|list | $strs|select|list | $strs|select('equalto', @lit)|list
strs: $strs|map('default', @lit)|list | $strs|map('capitalize')|list | $any_list|map('tojson')|list
strs: $any_list|map('string')|list | $people|selectattr('active')|map(attribute='name')|list
strs: $people|rejectattr('active')|map(attribute='name')|list
strs: $strs|map('first')|map('default', '-')|list
list: [@any, @any] | [@any] | [] | (@any, @any) | (@any,) | () | [@any, @any, @any,]
list: [@ints, @strs] | $any_list + $any_list | $stuff[@idx:] | $stuff|reverse|list | $stuff|list
list: $any_list[::@step] | $dict.items()|list | $dict|items|list | $dict|dictsort
list: $dict|dictsort(true) | $conf|dictsort(reverse=true)
list: {'b': 1, 'A': 2, 'c': @int}|dictsort(false, 'value')
list: {'b': @int, 'a': @int}|dictsort(by='value', reverse=true) | $dict.values()|list
list: $pairs|sort(attribute=1) | $pairs|sort | $stuff|select('string')|list
list: $stuff|select('mapping')|list | $stuff|reject('none')|list | $stuff|select('number')|list
list: $stuff|select('iterable')|list | $stuff|reject('sequence')|list
list: $stuff|select('boolean')|list | $people|map('length')|list
list: $any_list|map('default', @atom)|list | $matrix|map('join', '-')|list
list: $people|map('list')|list | $stuff|map('string')|list | $stuff|select('float')|list
list: $stuff|select('true')|list | $stuff|select('integer')|list | $stuff|reject('undefined')|list
list: $stuff|select('defined')|list | $stuff|select('false')|list | missing|list
list: missing|default([@any]) | $stuff if @bool else [] | $stuff or [@any] | $any_list|unique|list
list: $matrix[@idx:] | $conf['items'] | $conf.tags | $people|map(attribute='tags')|list
list: missing|map('upper')|list | missing|select|list | $stuff|select('eq', @atom)|list
list: $ints|reject('lt', @int)|list | $ints|select('le', @int)|list
list: $ints|select('greaterthan', 0)|list
dict: {'a': @any, 'b': @any} | {@lit: @any} | {} | {'name': @str, 'size': @int}
dict: {@int: @any, true: @any} | {'a': {'b': @any}} | dict(a=@any, b=@any) | dict($dict, c=@any)
dict: dict($pairs) | dict($dict) | dict($pairs, **{'k': @any}) | $conf.inner | $conf['inner'].deep
dict: $person.info | $dict if @bool else $dict | {'items': @any, 'get': @any}
dict: {none: @any, 1.5: @any, (1, 2): 3} | $dict or {'z': @any} | dict($dict.items())
dict: {'role': @lit, 'content': @str,}
person: point | $people|first | $people|last | $people[@idx] | ($people|sort(attribute='age'))[0]
person: $people|selectattr('active')|first | $people|max(attribute='age')
person: ($people + [point])|min(attribute='name')
people: $people|sort(attribute='name') | $people|sort(attribute='age,name')
people: $people|sort(attribute='info.zip', reverse=true) | $people|selectattr('active')|list
people: $people|rejectattr('active')|list | $people|selectattr('age', 'gt', @age)|list
people: $people|selectattr('name', 'equalto', 'Ada')|list
people: $people|selectattr('email', 'defined')|list | $people|rejectattr('email', 'none')|list
people: $people|rejectattr('info.city', 'eq', 'Paris')|list
people: $people|selectattr('name', 'in', ['Ada', 'bob'])|list | $people[1:] | $people + [point]
people: $people|reverse|list | $people|unique(attribute='age')|list
people: $people|unique(attribute='name')|list | $people|unique(true, 'name')|list | $people|list
people: [point] | $people|rejectattr('age', 'odd')|list
people: $people|selectattr('info.zip', '>', 3)|list | [point, point]
any: @int | @float | @str | @bool | @ints | @strs | @list | @dict | @str | @int | none | missing
any: @person | @big | $any_list|first | $any_list|last | $any_list[@idx] | $stuff[@idx]
any: $conf.inner.deep.value | $dict|items|first | @any if @bool else @any | @any if @bool
any: $any or $any | $any and $any | $dict.get(@lit) | $dict[@lit] | $any|default(@any, true)
any: @markup | (missing is defined) if missing else @any | $conf.missing | $conf['missing']
any: $person.email | nums[99] | range(@count) | ($dict.items()|list)[0]
any: $any_list|max if false else @any | [[@any], (@any,)] | $dict.values()|first | missing ~ @any
any: missing|string | missing|length | {'a': missing} == {'a': absent} | $matrix[0][1]
any: $people[0]['tags'][0] | missing|upper
method: $str.upper() | $str.lower() | $str.capitalize() | $str.rsplit(@lit1, @count)
method: $str.rfind(@lit2) | $str.find(@lit2) | $lit1.join($strs) | $str.startswith(@lit)
method: $str.endswith(@lit) | $str.lstrip(@chars) | $str.rstrip(@chars)
rare: $int is ne @nz | $int is lt 5 | $int is le(@int) | $int is ge @nz | $int is greaterthan @nz
rare: $int is lessthan @nz | $any is undefined | $any is integer | $any is float | $int is even
rare: $any is number | $ints|select('==', @int)|list | $ints|select('<', @int)|list
rare: $ints|select('>=', @int)|list | $ints|reject('<=', @int)|list | $ints|select('!=', @int)|list
rare: $ints|select('>', @int)|list | $any|d(@int) | $any_list|count | +$int | $num / $nz
rare: $int >= @int | $int <= @int | $str|capitalize
any_list: @ints | @strs | @list | @list | @floats | @pairs | @matrix
'''


def _load(table):
    productions = {}
    for line in table.strip().split('\n'):
        kind, texts = line.split(': ', 1)
        # A production has no space around the bar of a filter, so ` | ` separates productions.
        productions.setdefault(kind, []).extend(text.strip() for text in texts.split(' | '))
    return productions


PRODUCTIONS = _load(TABLE)
PLACE = re.compile(r'([$@])([a-z_]+[0-9]?)')
ATOM = re.compile(r"[\w.]+|'[^'\\]*'|\[[^\[\]()]*\]")
# What an atom of a type without variables, or with rules of its own, can be.
LITERALS = {
    'nz': ['1', '2', '3', '5', '-2', '7'], 'exp': ['0', '1', '2', '3'],
    'idx': ['0', '1', '2', '-1', '-2', '5', '99', '-9'], 'idx1': ['0', '1', '-1'],
    'count': ['0', '1', '2', '3'], 'nzcount': ['1', '2', '3'], 'width': ['3', '5', '8', '10', '20'],
    'step': ['2', '-1', '3', '-2'], 'base': ['2', '8', '10', '16'], 'age': ['18', '20', '22'],
    'lit2': ["'b'", "'zz'"], 'lit1': ["' '", "','", "'a'", "'--'", "'\\n'", "'e'"],
    'chars': ["'a'", "' \\n'", "'xyz '", "'.é'", 'none'],
    'lits': ["['a', 'b']", "['user', 'x']", '[]', "('fork', 'cell')"],
    'words_fixed': ["['a', 'b', 'c']", "('x', 'b')"], 'none': ['none', 'None', 'nil'],
    'big': ['big', '9007199254740993', '1_000_000'], 'markup': ['html|safe', "'<'|safe", 's|safe'],
    'any_atom': ['none', 'true', 'nums', '1', "'a'", 's'],
    'atom': ['0', "'-'", 'n', 's', 'none', 'true'],
    'list': ['[]', "[1, 'a', none]", 'stuff', 'stuff', '[1.5, true]', "('a', 2)"],
    'bool': ['true', 'false', 'True', 'False', 'flag', 'off', 'flag'],
    'dict': ['d', 'd', '{}', "{'a': 1, 'name': 'x'}", 'conf.inner'], 'person': ['point'],
    'conf': ['conf'], 'people': ['people'], 'stuff': ['stuff'], 'messages': ['messages'],
    'pairs': ['pairs', "[['a', 1], ['b', 2]]"], 'tree': ['tree'],
    'matrix': ['matrix', '[[1, 2, 3], [4, 5, 6]]'],
    'ints': ['[1, 2, 3]', '[3, 1, 2, 1]', '[]', 'nums', 'nums'],
    'strs': ["['b', 'A', 'c']", 'words', 'words', "['x', 'x', 'Y']", '[]'],
    'floats': ['floats', '[0.5, 1.25]'],
    'float': ['0.5', '1.0', '2.75', '1e3', '1.5e-3', '0.1', 'x', 'y', '1_0.5', '3.0'],
    'int': ['0', '1', '2', '7', '10', '42', 'n', 'm', 'count', '1_000', '0x1F', '0b101', '0o17'],
    'any_list': ['stuff', 'nums', 'words', '[1, 2, 3]'],
}
ESCAPES = [
    '\\n', '\\t', "\\'", '\\"', '\\\\', '\\x41', '\\u00e9', '\\U0001F600', '\\101', '\\q', '\\r',
    '\\0', '\\a',
]


def literal(rng, text=None):
    """Returns a string literal, with escapes in some."""
    text = word(rng) if text is None else text
    quote = rng.choice('\'\'"')
    body = text.replace('\\', '\\\\').replace(quote, '\\' + quote)
    if rng.random() < 0.5:
        body = body.replace('\n', '\\n').replace('\r', '\\r').replace('\t', '\\t')
    if rng.random() < 0.08:
        body += rng.choice(ESCAPES).replace('\\"' if quote == "'" else "\\'", '-')
    made = quote + body + quote
    return made + ' ' + literal(rng, 'more') if rng.random() < 0.01 else made


class Expressions:
    """Draws expressions. `names` maps the names in scope to types; a caller adds and removes them."""

    def __init__(self, rng):
        self.rng = rng
        self.names = dict(VARIABLES)

    def named(self, kind):
        return [name for name, other in self.names.items() if other == kind]

    def atom(self, kind):
        rng = self.rng
        if kind == 'lit' or kind == 'str' and rng.random() < 0.4:
            return literal(rng)
        if kind == 'date':
            return literal(rng, rng.choice(DATES))
        if kind in ('any', 'num'):
            kinds = ['int', 'str', 'float', 'bool', 'strs', 'dict', 'none'] if kind == 'any' else ['int', 'float']
            return self.atom(rng.choice(kinds))
        names = self.named(kind)
        if names and (kind not in LITERALS or rng.random() < 0.5):
            return rng.choice(names)
        return rng.choice(LITERALS[kind]) if kind in LITERALS else 's'

    def make(self, kind, depth):
        """Returns an expression of about the type with at most `depth` productions in each other."""
        rng = self.rng
        if rng.random() < 0.004:
            kind = rng.choice(['any', 'str', 'int', 'dict', 'strs'])
        mixed = kind in ('any', 'any_list', 'num')
        if kind not in PRODUCTIONS or not mixed and (depth <= 0 or rng.random() < 0.3):
            return self.atom(kind)
        return self.fill(rng.choice(PRODUCTIONS[kind]), depth)

    def fill(self, text, depth):
        def place(match):
            made = self.make(match[2], depth - 1)
            if match[1] == '@' or ATOM.fullmatch(made) or self.rng.random() < 0.02:
                return made
            return '(' + made + ')'
        return PLACE.sub(place, text)
