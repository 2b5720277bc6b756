"""Random values for the variables of the programs."""

WORDS = ['cell', 'Extent', 'fork', 'SHIFT', 'a', 'b c', 'x-y_z', 'Über', 'naïve', 'straße', '中文', '日本 語',
         'кот', 'Ωmega', '🙂', 'e\u0301', '42', '-7', ' 3.5 ', '0x1f', '1e3', 'true', 'None', 'user', 'assistant',
         'system', 'name', 'age', 'city', '<b>bold</b>', 'a & b', '"quoted"', "it's", 'back\\slash', '{}', '%s',
         '{0} {1}', 'key=value', 'http://a.b/c?d=e f', 'one two  three', 'line\nbreak', 'a\r\nb', 'tab\there',
         '  padded  ', '\n', ' ', '', 'end.', 'zero\u00a0width', 'x' * 12, 'The quick brown fox jumps over it.']
NAMES = ['Ada', 'bob', 'Cyd', 'dora', 'Émile', 'ada', 'Zoë', '李']
CITIES = ['Paris', 'oslo', 'Rome', '']
KEYS = ['a', 'b', 'name', 'size', 'role', 'key one', 'ключ', 'items', '1']
FLOATS = [0.0, 0.5, 1.0, -1.5, 2.25, 3.14159, 1e-7, 1e16, 123456.789, -0.0, 100.0, 0.1, 2.675]
BIG = [2**53 + 1, 10**12, -10**15, 2**62, 2**63 - 1, -2**63, 123456789012345678]

# The types of the variables that every program has (see variables()).
VARIABLES = {
    'n': 'int', 'm': 'int', 'count': 'int', 'big': 'big', 'x': 'float', 'y': 'float', 's': 'str',
    't': 'str', 'html': 'str', 'empty': 'str', 'flag': 'bool', 'off': 'bool', 'nil': 'none',
    'nums': 'ints', 'words': 'strs', 'stuff': 'list', 'd': 'dict', 'conf': 'conf',
    'people': 'people', 'tree': 'tree', 'messages': 'messages', 'pairs': 'pairs',
    'matrix': 'matrix', 'floats': 'floats', 'point': 'person',
}


def word(rng):
    return rng.choice(WORDS)


def sentence(rng):
    return ' '.join(word(rng) for _ in range(rng.randrange(1, 5)))


def scalar(rng):
    return rng.choice([lambda: rng.randrange(-5, 100), lambda: word(rng), lambda: rng.choice(FLOATS),
                       lambda: rng.random() < 0.5, lambda: None, lambda: sentence(rng)])()


def value(rng, depth=2):
    kind = rng.randrange(4) if depth > 0 else 0
    if kind <= 1:
        return scalar(rng)
    if kind == 2:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(KEYS): value(rng, depth - 1) for _ in range(rng.randrange(4))}


def person(rng):
    made = {'name': rng.choice(NAMES), 'age': rng.randrange(18, 24),
            'tags': [word(rng) for _ in range(rng.randrange(3))],
            'info': {'city': rng.choice(CITIES), 'zip': rng.randrange(10)}, 'active': rng.random() < 0.5}
    if rng.random() < 0.4:
        made['email'] = rng.choice(['a@b.c', None, ''])
    return made


def tree(rng, depth=3):
    return [{'name': rng.choice(NAMES), 'children': tree(rng, depth - 1) if depth > 0 and rng.random() < 0.6 else []}
            for _ in range(rng.randrange(1, 3))]


def message(rng):
    made = {'role': rng.choice(['user', 'assistant', 'system', 'tool']),
            'content': rng.choice([sentence(rng), sentence(rng), None, [{'type': 'text', 'text': word(rng)}], ''])}
    if rng.random() < 0.2:
        made['tool_calls'] = [{'type': 'function', 'function': {'name': 'f', 'arguments': {'a': scalar(rng)}}}]
    return made


def variables(rng):
    """Returns the variables of a program: the names and types of VARIABLES with random values."""
    def many(make, most):
        return [make(rng) for _ in range(rng.randrange(most))]
    return {
        'n': rng.randrange(-3, 8), 'm': rng.randrange(-100, 1000), 'count': rng.randrange(1, 5), 'big': rng.choice(BIG),
        'x': rng.choice(FLOATS), 'y': round(rng.uniform(-100, 100), rng.randrange(4)),
        's': sentence(rng), 't': word(rng), 'html': '<p class="x">%s</p>' % word(rng), 'empty': '',
        'flag': rng.random() < 0.5, 'off': False, 'nil': None,
        'nums': many(lambda r: r.randrange(-9, 20), 7), 'words': many(word, 6), 'stuff': many(value, 5),
        'd': {rng.choice(KEYS): scalar(rng) for _ in range(rng.randrange(5))},
        'conf': {'name': word(rng), 'size': rng.randrange(100), 'tags': many(word, 4), 'items': many(scalar, 3),
                 'inner': {'deep': {'value': scalar(rng)}}, 'nothing': None},
        'people': many(person, 5), 'tree': tree(rng), 'messages': many(message, 5),
        'pairs': many(lambda r: [word(r), r.randrange(10)], 5),
        'matrix': many(lambda r: [r.randrange(9) for _ in range(3)], 4),
        'floats': many(lambda r: r.choice(FLOATS), 5), 'point': person(rng)}
