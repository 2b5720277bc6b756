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
int: $str|length | $any_list|count
int: $any_list|length | $str|wordcount | $str|int | $num|int | $str|int(@int)
int: $str|int(default=@int, base=@base) | $int|abs
int: $ints|sum | $ints|sum(start=@int) | $people|sum(attribute='age') | $people|sum('age', @int)
int: $people|sum(attribute='info.zip')
int: $ints|max | $ints|min | $ints|first | $ints|last | $ints[@idx] | $str.find(@lit)
int: $str.rfind(@lit) | $str.count(@lit)
int: (@lit2 ~ $str).index(@lit2) | ($str ~ @lit2).rindex(@lit2) | $ints.count(@int)
int: ($ints + [@nz, 7]).index(7) | $strs.count(@lit)
int: @int if @bool else @int | $person.age | $person['age'] | $person.info.zip | $conf.size
int: $messages|length | $dict|length
int: $int + $int * $nz - $int // $nz | $int - $int - $int | -$nz ** 2 | 2 ** 3 ** 2 | -$int|abs
int: $int + $str|length * 2 | $int % $nz + $nz
int: $int|default(@int) | missing|default(@int) | missing|d(@int) | nil|default(@int, true)
int: $int or $nz | $nz and $int | $str.find(@lit, @count)
int: $words_fixed.index('b') | [@int, @int, @int][@count] | {'a': @int, 'b': @int}['a']
int: {'a': @int}.a | (@int, @int)[@idx1] | $ints|first|default(@int)
int: ($matrix|first)[1] | range(@count, 9)|sum | range(9)[@idx] | $str.rfind(@lit, @count, 9)
int: $float|round|int | $num // $nz | $bool + $int | $bool|int
int: $people|map(attribute='age')|sum | $people|map(attribute='age')|max
int: ($people|max(attribute='age')).age | ($people|min(attribute='age')).age
int: $dict.get('a', @int)|int | ($pairs|first)[1] | $ints|select('odd')|sum | $str|trim|length
int: $ints|unique|list|count | $str.count(@lit, @count)
float: $float + $num | $float - $num | $float * $nz | $num / $nz | $float // $nz | $float % $nz
float: -$float | $num|float | $str|float
float: $str|float(@float) | $str|float(default=@float) | $float|abs | $float|round
float: $float|round(@count) | $float|round(@count, 'floor')
float: $float|round(method='ceil') | $float|round(precision=@count, method='ceil') | $floats|sum
float: $floats|max | $floats|min | @float if @bool else @float
float: $nz ** -@exp | $int / $nz + 1 | $num|round(1) | $int|round(-1) | $floats|sort|last
float: $floats[@idx]
num: @int | @float | @int | $int + $float | [@num, @num]|max | @num if @bool else @num
str: $str ~ $any | $str + $str | $str * @count | @count * $str | $str|upper | $str|lower
str: $str|title | $str|capitalize | $str|trim | $str|trim(@chars)
str: $str|replace(@lit, @lit) | $str|replace(@lit, @lit, @count) | $str|reverse
str: $str|center(@width) | $str|indent | $str|indent(@count)
str: $str|indent(@count, true) | $str|indent(width=@count, first=@bool, blank=true)
str: $str|indent('> ', first=true) | $str|truncate(@width)
str: $str|truncate(@width, true) | $str|truncate(@width, end='~')
str: $str|truncate(@width, true, '', 0) | $str|truncate(length=@width, leeway=@count)
str: $str|wordwrap(@width) | $str|wordwrap(@width, false)
str: $str|wordwrap(width=@width, wrapstring='|') | $str|wordwrap(@width, break_on_hyphens=false)
str: $str|striptags | html|striptags | $str|urlencode | $str|string | $any|string | $num|string
str: $str|first | $str|last | $str[@idx] | $str[@idx:@idx]
str: $str[:@idx] | $str[@idx:] | $str[::-1] | $str[::@step] | $str[@idx:@idx:@step] | $str.upper()
str: $str.lower() | $str.strip() | $str.strip(@chars)
str: $str.lstrip() | $str.rstrip() | $str.lstrip(@chars) | $str.rstrip(@chars)
str: $str.replace(@lit, @lit) | $str.replace(@lit, @lit, @count) | $str.title()
str: $str.capitalize() | $str.swapcase() | $str.casefold() | $str.zfill(@width)
str: $str.center(@width) | $str.center(@width, '*') | $str.ljust(@width)
str: $str.rjust(@width, '.') | $str.ljust(@width, '-') | $str.rjust(@width)
str: $str.removeprefix(@lit) | $str.removesuffix(@lit) | $str.expandtabs() | $str.expandtabs(@count)
str: $str.split(@lit1)[0] | $str.split()[@idx] | $str.split(@lit1)|last | $lit1.join($strs)
str: $lit1.join(@words_fixed) | $strs|join | $strs|join(@lit)
str: $any_list|join(@lit) | $any_list|join | $people|join(', ', attribute='name')
str: $people|map(attribute='name')|join('/') | $ints|join('+')
str: $any|tojson | $any|tojson(indent=@count) | $any|tojson(indent=2)
str: $any_list|tojson(separators=(',', ':')) | $dict|tojson(sort_keys=true) | $str|tojson
str: $str|tojson(ensure_ascii=true) | $any_list|tojson(indent=4, sort_keys=true)
str: $conf|tojson(indent=2, separators=(',', ': ')) | $people|tojson | $str|tojson(true)
str: $str|escape | $str|e | $str|forceescape | $str|safe | $str|e ~ $str | $str|safe|e
str: $str|e|upper | $str|e + $str | $str|e|replace(@lit, @lit) | $str|e|string|e
str: {'class': @str, 'id': @int, 'none': none}|xmlattr | {'a': @str}|xmlattr(false)
str: {'a': missing, 'b': @bool}|xmlattr(autospace=true) | $dict|urlencode
str: $num|filesizeformat | $num|filesizeformat(true) | ($nz * 1000000)|filesizeformat
str: '%s|%s'|format(@any, @any) | '%d of %d'|format(@int, @int)
str: '%05d %.2f'|format(@int, @float) | '%(a)s-%(b)s'|format(a=@any, b=@str)
str: '%5s|%-5s|%x'|format(@lit, @lit, @nz) | '%s %%' % @int | '%s and %s' % (@str, @int)
str: '%r'|format(@str) | '{} {}'.format(@any, @str) | '{0}{1}{0}'.format(@int, @str)
str: '{a}-{b}'.format(a=@str, b=@int) | '{:>8}|{:<8}|{:^8}'.format(@lit, @lit, @lit)
str: '{:05d} {:.3f}'.format(@int, @float) | '{a[0]} {b.name}'.format(a=@words_fixed, b=@person)
str: '{{}} {!r}'.format(@str)
str: @str if @bool else @str | @str if @bool | $str or @str | $person.name | $person['name']
str: $person.info.city | $conf.name | $conf['name'] | $dict.get('name', @str)
str: $dict['name'] | $dict.name | $conf.inner.deep.value | $conf['inner']['deep']
str: $str|default(@str) | missing|default(@str) | missing|default | $str|d(@lit, true)
str: strftime_now(@date) | $str ~ $int + $int ~ $str | $int ~ $float ~ $bool
str: $str|upper ~ $str|lower | $strs|first | $strs|last | $strs[@idx] | $strs|max | $strs|min
str: $words_fixed[@idx] | $str.partition(@lit1)[0] | $str.rpartition(@lit1)[2]
str: $str.split(@lit1, 1)|join('&') | $str.splitlines()|join('/') | $str|list|join('.')
str: $str|replace('\\n', ' ') | $str|trim|capitalize | ($messages|first).role
str: ($messages|last).content | $str|attr('upper')() | $person|attr('name') | $strs|sort|join(',')
str: $str|map('upper')|join | $strs|map('title')|join(@lit) | $str|batch(2)|map('join')|join('-')
str: $strs|map('replace', @lit, @lit)|join | $markup.upper() | $markup ~ @lit
str: $markup + @lit | @lit + $markup | $markup|replace('<', @lit) | $markup|length ~ ''
str: $markup * 2 | $markup|trim | $markup.join(@strs) | $markup|striptags | $markup|tojson
str: $str.encode is defined ~ '' | $people|map(attribute='email', default='?')|join(';')
str: $people|map(attribute='tags')|map('first')|join | $strs|map('length')|join(' ')
markup: $str|escape | $str|e | $str|safe | $str|forceescape | html|e | html|safe | '<i>'|e
markup: $markup|escape
bool: $int is odd | $int is even | $int is divisibleby @nz | $int is divisibleby(@nz)
bool: $any is defined | $any is undefined | $any is not defined | $any is none | $any is not none
bool: $any is boolean | $any is true | $any is false | $any is integer | $any is float
bool: $any is number | $any is string | $any is mapping | $any is sequence
bool: $any is iterable | $any is callable | $str is lower | $str is upper | @lit is filter
bool: 'upper' is filter | 'odd' is test | @lit is test | $markup is escaped | $any is escaped
bool: $any is sameas(none) | $bool is sameas true | $any is sameas false | $int is eq(@int)
bool: $int is equalto(@int) | $any is eq @atom | $int is ne(@int) | $int is lt(@int)
bool: $int is le @nz | $int is gt(@int) | $int is ge(@int) | $int is greaterthan(@int)
bool: $int is lessthan(@int) | $num is lt @nz | $int is in(@ints) | $str is in @lits
bool: $int is not in [1, 2, 3] | $int == $int | $int != $int | $num < $num | $num <= $num
bool: $num > $num | $num >= $num | $str == $str | $str < $str | $any == $any
bool: $any != $any | $str in $str | $lit in $strs | $int in $ints | $lit not in $str | $lit in $dict
bool: 'name' in $person | $any in $any_list | $any not in $any_list
bool: $int < $int < $int | $int <= $int != $int | 1 == true == $int | not $bool | $bool and $bool
bool: $bool or $bool | not $bool and $bool or $bool | not ($bool or $bool)
bool: not $int == $int | not $str in $str | $int + $int == $int | $str is string and $int is odd
bool: $bool if @bool else $bool | @bool if ($str is string) else @bool
bool: $str.startswith(@lit) | $str.endswith(@lit) | $str.startswith((@lit, @lit))
bool: $str.endswith(@lit, @count) | $str.isdigit() | $str.isalpha() | $str.isalnum()
bool: $str.isspace()
bool: $str.isupper() | $str.islower() | $str.istitle() | $str.isdecimal() | $str.isnumeric()
bool: $str.isidentifier() | $str.isascii() | $str.isprintable() | $person.active
bool: missing is defined | missing == absent | missing == none | not missing
bool: $person.email is defined | $messages[0].tool_calls is defined | $lit in missing
bool: missing is callable
bool: $dict is mapping and $dict | $any_list == $any_list | $ints < $ints | $person == $person
bool: $conf.nothing is none | $dict == $dict | [@int] in $matrix | true and $any is true
bool: $int is string or $int is number | $strs|length > @count | $int >= @int and $int is not none
bool: $any is not sameas $any_atom | range is callable | missing is false
ints: [@int, @int] | [@int, @int, @int] | $ints + $ints | $ints[@idx:] | $ints[:@idx] | $ints[::-1]
ints: $ints[@idx:@idx:@step] | $ints|sort | $ints|sort(reverse=true) | $ints|sort(true)
ints: $ints|unique|list | $ints|reverse|list | $ints|list | $ints|select('odd')|list
ints: $ints|select('even')|list | $ints|reject('gt', @int)|list
ints: $ints|select('divisibleby', @nz)|list
ints: $ints|select('>', @int)|list | $ints|select('in', @ints)|list | $ints|reject('==', @int)|list
ints: $ints|select|list | $ints|reject|list | range(@width)|list | range(@count, @width)|list
ints: range(@width, @count, -@nzcount)|list | range(0, @width, @nzcount)|list
ints: $strs|map('length')|list | $people|map(attribute='age')|list
ints: $people|map(attribute='info.zip')|list
ints: $strs|map('int')|list | $ints|map('abs')|list | $ints * 2
ints: $dict.values()|select('integer')|list | $matrix|sum(start=[]) | $matrix|first
ints: $ints|batch(2)|first | $ints|select('ge', @int)|list
ints: $floats|map('round')|map('int')|list | $ints|select('<=', @int)|list
ints: $ints|reject('ne', @int)|list | $ints|reject('<', @int)|list | $ints|select('>=', @int)|list
ints: $ints|select('!=', @int)|list
ints: $ints|select('lessthan', @int)|list | $ints|select('sameas', @int)|list | $ints.copy()
ints: $ints if @bool else $ints | $ints|slice(@nzcount)|first | $str.split()|map('length')|list
floats: [@float, @num] | $floats|sort | $floats + [@float] | $ints|map('float')|list
floats: $floats|map('abs')|list | $strs|map('float')|list | $floats|reverse|list | $floats[1:]
floats: $floats|unique|list
strs: [@str, @str] | [@lit, @lit, @str] | $strs + $strs | $strs[@idx:] | $strs[:@idx] | $strs[::-1]
strs: $strs|sort | $strs|sort(case_sensitive=true) | $strs|sort(reverse=true) | $strs|unique|list
strs: $strs|unique(true)|list | $strs|reverse|list | $strs|map('upper')|list
strs: $strs|map('trim')|list | $strs|map('replace', @lit, @lit)|list | $strs|select('string')|list
strs: $strs|reject('in', @lits)|list
strs: $str.split() | $str.split(@lit1) | $str.split(@lit1, @count) | $str.rsplit(@lit1, @count)
strs: $str.rsplit() | $str.split(none, 1) | $str.split(maxsplit=1) | $str.splitlines()
strs: $str.splitlines(true) | $str|list
strs: $str.partition(@lit1) | $str.rpartition(@lit1) | $dict.keys()|list | $dict|list
strs: $dict.keys()|sort | $people|map(attribute='name')|list | $people|map(attribute='name')|sort
strs: $ints|map('string')|list
strs: $strs|select|list | $strs|select('equalto', @lit)|list | $strs|map('default', @lit)|list
strs: $strs|map('capitalize')|list | $any_list|map('tojson')|list | $any_list|map('string')|list
strs: $strs|select('lower')|list
strs: $people|selectattr('active')|map(attribute='name')|list
strs: $people|rejectattr('active')|map(attribute='name')|list | $strs|map('e')|list
strs: $strs|map('first')|map('default', '-')|list | $strs|map('truncate', 5)|list
list: [@any, @any] | [@any] | [] | (@any, @any) | (@any,) | () | [@any, @any, @any,]
list: [@ints, @strs] | $any_list + $any_list | $stuff[@idx:] | $stuff|reverse|list | $stuff|list
list: $any_list[::@step]
list: $dict.items()|list | $dict|items|list | $dict|dictsort | $dict|dictsort(true)
list: $conf|dictsort(reverse=true) | {'b': 1, 'A': 2, 'c': @int}|dictsort(false, 'value')
list: {'b': @int, 'a': @int}|dictsort(by='value', reverse=true)
list: $any_list|batch(@nzcount)|list | $any_list|batch(@nzcount, @atom)|list
list: $any_list|slice(@nzcount)|list | $any_list|slice(@nzcount, @atom)|list | $dict.values()|list
list: $pairs|sort(attribute=1) | $pairs|sort
list: $people|groupby('age')|list | $people|groupby('info.city')|list
list: $people|groupby(attribute='email', default='none')|list
list: $people|groupby('name', case_sensitive=true)|list
list: $people|groupby('name')|map(attribute='grouper')|list
list: $stuff|select('string')|list | $stuff|select('mapping')|list | $stuff|reject('none')|list
list: $stuff|select('number')|list | $stuff|select('iterable')|list | $stuff|reject('sequence')|list
list: $stuff|select('boolean')|list
list: $people|map('length')|list | $any_list|map('default', @atom)|list
list: $people|groupby('age')|map('last')|map('first')|list | $matrix|map('sum')|list
list: $matrix|map('join', '-')|list | $people|map('list')|list | $stuff|map('string')|list
list: $stuff|select('float')|list | $stuff|select('true')|list | $stuff|select('integer')|list
list: $stuff|reject('undefined')|list | $stuff|select('defined')|list | $stuff|select('false')|list
list: $stuff|select('callable')|list | $strs|select('upper')|list
list: missing|list | missing|default([@any]) | $stuff if @bool else [] | $stuff or [@any]
list: $any_list|unique|list | $matrix[@idx:] | $conf['items'] | $conf.tags | $stuff.copy()
list: $people|map(attribute='tags')|list | missing|map('upper')|list | missing|select|list
list: $ints|select('escaped')|list | $strs|select('filter')|list | $strs|select('test')|list
list: $stuff|select('eq', @atom)|list | $ints|reject('lt', @int)|list
list: $ints|select('le', @int)|list | $ints|select('greaterthan', 0)|list
dict: {'a': @any, 'b': @any} | {@lit: @any} | {} | {'name': @str, 'size': @int}
dict: {@int: @any, true: @any} | {'a': {'b': @any}} | dict(a=@any, b=@any) | dict($dict, c=@any)
dict: dict($pairs) | $dict.copy() | dict($dict) | dict($pairs, **{'k': @any})
dict: $conf.inner | $conf['inner'].deep | $person.info | $dict if @bool else $dict
dict: {'items': @any, 'get': @any} | {none: @any, 1.5: @any, (1, 2): 3} | $dict or {'z': @any}
dict: dict($dict.items()) | {'role': @lit, 'content': @str,}
person: point | $people|first | $people|last | $people[@idx] | ($people|sort(attribute='age'))[0]
person: $people|selectattr('active')|first | $people|max(attribute='age')
person: ($people|groupby('age')|first).list[0] | ($people + [point])|min(attribute='name')
people: $people|sort(attribute='name') | $people|sort(attribute='age,name')
people: $people|sort(attribute='info.zip', reverse=true) | $people|selectattr('active')|list
people: $people|rejectattr('active')|list | $people|selectattr('age', 'gt', @age)|list
people: $people|selectattr('name', 'equalto', 'Ada')|list
people: $people|selectattr('email', 'defined')|list | $people|rejectattr('email', 'none')|list
people: $people|rejectattr('info.city', 'eq', 'Paris')|list
people: $people|selectattr('name', 'in', ['Ada', 'bob'])|list | $people[1:] | $people + [point]
people: $people|reverse|list
people: $people|unique(attribute='age')|list | $people|unique(attribute='name')|list
people: $people|unique(true, 'name')|list | $people|list | [point]
people: $people|rejectattr('age', 'odd')|list | $people|selectattr('info.zip', '>', 3)|list
people: ($people|groupby('age')|first)[1] | [point, point]
any: @int | @float | @str | @bool | @ints | @strs | @list | @dict | @str | @int | none | missing
any: @person | @big | $any_list|first | $any_list|last | $any_list[@idx] | $stuff[@idx]
any: $conf.inner.deep.value | $dict|items|first | @any if @bool else @any | @any if @bool
any: $any or $any | $any and $any | $dict.get(@lit) | $dict[@lit] | $any|default(@any, true)
any: @markup
any: (missing is defined) if missing else @any | $conf.missing | $conf['missing'] | $person.email
any: nums[99] | range(@count) | ($dict.items()|list)[0] | $any_list|max if false else @any
any: [[@any], (@any,)] | $dict.values()|first | missing ~ @any | missing|string | missing|length
any: {'a': missing} == {'a': absent} | $matrix[0][1] | $people[0]['tags'][0] | missing|upper
method: $str.upper() | $str.lower() | $str.title() | $str.capitalize() | $str.swapcase()
method: $str.casefold() | $str.zfill(@width) | $str.center(@width) | $str.isspace() | $str.isalpha()
method: $str.isdecimal() | $str.istitle() | $str.isprintable() | $str.removeprefix(@lit)
method: $str.removesuffix(@lit) | $str.partition(@lit1) | $str.rpartition(@lit1) | $str.isnumeric()
method: $str.isupper() | $str.islower() | $str.isidentifier() | $str.expandtabs(@width)
method: $str.isdigit() | $str.isalnum() | $str.ljust(@width, '_') | $str.isascii()
method: $str.rsplit(@lit1, @count)
method: $str.rjust(@width) | $str.splitlines() | $str.rfind(@lit2) | $str.find(@lit2)
method: ($str ~ 'zz').rindex('zz') | ('b' ~ $str).index('b') | $str.count(@lit2)
method: @words_fixed.index('b') | $strs.count('x') | $dict.copy() | $ints.copy() | $lit1.join($strs)
method: $str.startswith(@lit) | $str.endswith(@lit) | $str.lstrip(@chars) | $str.rstrip(@chars)
rare: $str is lower | $str is upper | $int is ne @nz | $int is lt 5 | $int is le(@int)
rare: $int is ge @nz | $int is greaterthan @nz | $int is lessthan @nz | $any is undefined
rare: $any is integer | $any is float
rare: $int is even | $any is number | @lit is test | $ints|select('==', @int)|list
rare: $ints|select('<', @int)|list | $ints|select('>=', @int)|list | $ints|reject('<=', @int)|list
rare: $ints|select('!=', @int)|list
rare: $ints|select('>', @int)|list | $any|attr('missing') | $conf|attr('items') is defined
rare: $str|center(@width) | $any|d(@int) | $any_list|count | +$int | $num / $nz | $int >= @int
rare: $int <= @int | $dict|urlencode
rare: $str|urlencode | '%s-%d'|format(@any, @int) | $num|filesizeformat | $str|forceescape
rare: $str|capitalize | {'k': @any}|xmlattr | $str|title | $str|wordcount | $str|escape
rare: $str|attr('title')()
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
    'big': ['big', '9007199254740993', '1_000_000'], 'markup': ['html|e', "'<'|e", 's|safe'],
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
