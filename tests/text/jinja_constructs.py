"""Counts in how many programs each construct of the language occurs, by their syntax trees."""
import re

from jinja2 import nodes

STRING_METHODS = '''
upper lower strip lstrip rstrip split rsplit startswith endswith replace find rfind join capitalize format'''.split()
OTHER_METHODS = ['get', 'items', 'keys', 'values']
LOOP = '''
index index0 revindex revindex0 first last length cycle depth depth0 previtem nextitem changed'''.split()
GLOBALS = ['range', 'dict', 'namespace', 'strftime_now', 'raise_exception']
OPERATORS = {
    nodes.Add: '+', nodes.Sub: '-', nodes.Mul: '*', nodes.Div: '/', nodes.FloorDiv: '//', nodes.Mod: '%',
    nodes.Pow: '**', nodes.And: 'and', nodes.Or: 'or', nodes.Not: 'not', nodes.Neg: 'unary -',
    nodes.Pos: 'unary +', nodes.Concat: '~'}
COMPARISONS = {
    'eq': '==', 'ne': '!=', 'lt': '<', 'lteq': '<=', 'gt': '>', 'gteq': '>=', 'in': 'in', 'notin': 'not in'}
# Nodes that are a construct each.
STATEMENTS = {
    nodes.If: 'if', nodes.Macro: 'macro', nodes.FilterBlock: 'filter block', nodes.With: 'with',
    nodes.Break: 'break', nodes.Continue: 'continue', nodes.List: 'list', nodes.Tuple: 'tuple', nodes.Dict: 'dict',
    nodes.Slice: 'slice', nodes.Getattr: 'attribute', nodes.Getitem: 'subscript', nodes.NSRef: 'namespace set',
    nodes.CondExpr: 'conditional expression', nodes.Call: 'call', nodes.Block: 'block'}
# What the functions below find.
OTHERS = '''
for|for else|for if|for recursive|for tuple|loop()|elif|else|set|set tuple|set block|set block filter
macro default|caller|call block|call block parameters|varargs|kwargs|generation
chained comparison|conditional without else|slice step|keyword argument|unpacked arguments
undefined printed|undefined tested|undefined compared|undefined filtered|undefined iterated
undefined concatenated|undefined attribute
text integer|text float|text string|text true|text none'''.strip().replace('\n', '|').split('|')
# By the text: what the parser leaves no trace of.
LEXICAL = {
    '{%-': '\\{%-', '-%}': '-%\\}', '{%+': '\\{%\\+', '+%}': '\\+%\\}', '{{-': '\\{\\{-',
    '-}}': '-\\}\\}', 'comment': '\\{#', 'raw': '\\{%[-+]?\\s*raw', 'print': '\\{%[-+]?\\s*print',
    'trimmed newline': '%\\}\\n', 'stripped indent': '\\n[ \\t]+\\{%[^-+]',
    'carriage return': '\\r',
}
LEXICAL = {name: re.compile(text) for name, text in LEXICAL.items()}


def names(environment):
    """Returns the names of all constructs that a full run has to contain."""
    groups = {
        'filter ': environment.filters,
        'test ': environment.tests, 'method ': STRING_METHODS + OTHER_METHODS, 'loop.': LOOP, 'global ': GLOBALS,
        'operator ': [*OPERATORS.values(), *COMPARISONS.values()], '': [*STATEMENTS.values(), *OTHERS, *LEXICAL]}
    return [group + name for group, names in groups.items() for name in names]


METHODS = set(STRING_METHODS + OTHER_METHODS)
UNDEFINED = {'missing', 'absent'}


def _is_undefined(node):
    return isinstance(node, nodes.Name) and node.name in UNDEFINED


def _of_filter(node):
    found = ['filter ' + node.name]
    # The filters and tests that are given by name.
    at = {'map': 0, 'select': 0, 'reject': 0, 'selectattr': 1, 'rejectattr': 1}.get(node.name)
    if at is not None and len(node.args) > at and isinstance(node.args[at], nodes.Const):
        found.append(('filter ' if node.name == 'map' else 'test ') + str(node.args[at].value))
    if node.node is not None and _is_undefined(node.node):
        found.append('undefined filtered')
    return found


def _of_call(node):
    found = []
    if isinstance(node.node, nodes.Getattr) and node.node.attr in METHODS:
        found.append('method ' + node.node.attr)
    elif isinstance(node.node, nodes.Name):
        name = node.node.name
        found.append('caller' if name == 'caller' else 'loop()' if name == 'loop' else 'global ' + name)
    if node.kwargs:
        found.append('keyword argument')
    if node.dyn_args or node.dyn_kwargs:
        found.append('unpacked arguments')
    return found


def _of_attribute(node):
    if not isinstance(node.node, nodes.Name):
        return []
    if node.node.name == 'loop':
        return ['loop.' + node.attr]
    return ['undefined attribute'] if _is_undefined(node.node) else []


def _of_for(node):
    found = ['for']
    if node.else_:
        found.append('for else')
    if node.test:
        found.append('for if')
    if node.recursive:
        found.append('for recursive')
    if isinstance(node.target, nodes.Tuple):
        found.append('for tuple')
    if _is_undefined(node.iter):
        found.append('undefined iterated')
    return found


def _of_if(node):
    return (['elif'] if node.elif_ else []) + (['else'] if node.else_ else [])


def _of_compare(node):
    found = ['operator ' + COMPARISONS[operand.op] for operand in node.ops]
    if len(node.ops) > 1:
        found.append('chained comparison')
    if _is_undefined(node.expr):
        found.append('undefined compared')
    return found


def _of_call_block(node):
    if not isinstance(node.call.node, nodes.Name):
        return ['generation']
    return ['call block'] + (['call block parameters'] if node.args else [])


def _of_constant(node):
    kind = type(node.value).__name__
    return ['text ' + {'int': 'integer', 'float': 'float', 'str': 'string', 'bool': 'true', 'NoneType': 'none'}[kind]]


SPECIAL = {
    nodes.Filter: _of_filter, nodes.Call: _of_call, nodes.For: _of_for, nodes.If: _of_if, nodes.Compare: _of_compare,
    nodes.CallBlock: _of_call_block, nodes.Const: _of_constant,
    nodes.Test: lambda node: ['test ' + node.name] + (['undefined tested'] if _is_undefined(node.node) else []),
    nodes.Assign: lambda node: ['set tuple' if isinstance(node.target, nodes.Tuple) else 'set'],
    nodes.AssignBlock: lambda node: ['set block filter' if node.filter else 'set block'],
    nodes.Macro: lambda node: ['macro default'] if node.defaults else [],
    nodes.CondExpr: lambda node: [] if node.expr2 else ['conditional without else'],
    nodes.Slice: lambda node: ['slice step'] if node.step else [],
    nodes.Getattr: _of_attribute,
    nodes.Name: lambda node: [node.name] if node.name in ('varargs', 'kwargs') else [],
    nodes.Output: lambda node: ['undefined printed'] if any(map(_is_undefined, node.nodes)) else [],
    nodes.Concat: lambda node: ['undefined concatenated'] if any(map(_is_undefined, node.nodes)) else []}
PLAIN = {**{kind: 'operator ' + name for kind, name in OPERATORS.items()}, **STATEMENTS}


def of(tree, source):
    """Returns the set of the constructs in a template."""
    found = {name for name, pattern in LEXICAL.items() if pattern.search(source)}
    stack = [tree]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind in PLAIN:
            found.add(PLAIN[kind])
        if kind in SPECIAL:
            found.update(SPECIAL[kind](node))
        for field in kind.fields:
            below = getattr(node, field)
            if isinstance(below, nodes.Node):
                stack.append(below)
            elif isinstance(below, list):
                stack.extend(item for item in below if isinstance(item, nodes.Node))
    return found
