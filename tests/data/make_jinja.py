#!/usr/bin/env python3
"""Writes jinja_cases.json: templates, contexts, and what Python's jinja2 makes of them.

The environment is the one transformers renders chat templates with (its tojson, raise_exception and the generation
tag included), plus the `do` statement. Needs jinja2 3.1. Each case is (template, context); a case whose rendering
fails is stored with its error, and with `message` where this project promises the same words.
"""
import json
import pathlib

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("support"), [], [], body).set_lineno(line)

    def support(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENV = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols", "jinja2.ext.do"]
)
ENV.filters["tojson"] = tojson
ENV.globals["raise_exception"] = raise_exception

CASES = []


def add(template, message=None, **context):
    CASES.append((template, context, message))


def each(*expressions, **context):
    for expression in expressions:
        add("{{ " + expression + " }}", **context)


# Text and white space control.
for text in [
    "", "a", "a\n", "a\n\n", "\n", "\n\n", "a\r\nb\rc\n", "  a  ", "{", "{ {", "}}", "%}", "#}", "{ % x % }", "a{b}c",
    "{{ 1 }}\n", "{{ 1 }}\n\n", "x {{- 1 -}} y", "x \n {{- 1 -}} \n y", "x\n  {{ 1 }}  \ny", "{{ 1 -}}\n\n  y", "x  {{- 1 }}",
    "{% if true %}\na\n{% endif %}\nb", "  {% if true %}  \n  a\n  {% endif %}  \nb", "{%- if true -%}  a  {%- endif -%}  b",
    "x\n  {%- if true %}\n a\n  {%- endif %}\n b", "x\n  {%+ if true %}\n a\n  {%+ endif %}\n b",
    "{% if true +%}\n a{% endif +%}\n b", "x  {% if true %} a {% endif %} b", "\t{% if true %}\ta{% endif %}",
    "x\n\t {% if true %}a{% endif %}", "  {%+ if true %}a{% endif %}", "a\n\n  {% set x = 1 %}\n\n  b",
    "{# c #}a", "{# c #}\na", "  {# c #}  \na", "x {#- c -#} y", "x\n  {#- c -#}\n y", "x\n  {#+ c +#}\n y", "{#\nline\n#}\nb",
    "x{# {{ 1 }} #}y", "{# a #}{# b #}\n\nc", "a{##}b", "a{#-#}b", "a {#--#} b", "{#%}#}x", "a  {#- c #}  b", "x\n    {# c #}\n    y",
    "{% raw %}{{ x }}{% endraw %}", "{% raw %}\n{{ x }}\n{% endraw %}\nb", "{%- raw -%}  {{ x }}  {%- endraw -%}  b",
    "a\n  {% raw %}  {% if %} {% endraw %}  b", "a  {%- raw %}  x  {% endraw -%}  b", "{% raw %}a{% endraw %}\n\nb",
    "{% raw %} {# c #} {% endraw +%}\nb", "a\n  {%+ raw %} x\n  {%+ endraw %}\nb", "{%raw%}{%endraw%}", "{% raw %}\n  {% endraw %}x",
    "{{ 'a' }}{{ 'b' }}\n{{ 'c' }}", "{%if true%}a{%endif%}", "{{1}}{{-2}}", "{{ -1 }}", "{{- -1 -}}", "{{+1}}", "{{ 1+}}"[:8] + "}}",
    "{% for i in [1,2] %}\n{{ i }}\n{% endfor %}\n", "{% for i in [1,2] -%}\n{{ i }}\n{%- endfor %}\n", "{% for i in [1,2] %}{{ i }}\n{% endfor %}",
    "\n\n{% if true %}\n\nx\n\n{% endif %}\n\n", "  {{ 1 }}{% if true %}\n  {% endif %}z", "a {% if true %}\n  b {% endif %}\n  c",
    "x\u00a0{{- 1 -}}\u2003y", "\u00a0{% if true %}a{% endif %}", "{{ '\u00e9\u4e2d\U0001f600' }}", "a\x0b{%- if 1 %}\x0c{% endif %}",
    "{{ {'a': {'b': 1}} }}", "{{ {'a': {}}}}", "{{ '}}' }}", "{{ \"%}\" }}", "{% set x = '%}' %}{{ x }}", "{% set x = {'a': {}} %}{{ x }}",
    "{% if true %}{% endif %}\n\n\n", "{%\nif\ntrue\n%}\nx{%\nendif\n%}", "a{{ 'x'\n}}b", "{% set x %}\n a \n{% endset %}[{{ x }}]",
]:
    add(text)

# Literals.
each(
    "1", "007", "0", "00", "1_000", "0x1F", "0o17", "0b101", "0xdead_beef", "1.5", "1.50", "1e3", "1E-3", "1_0.2_5", "1.0e10", "1e16", "1e15",
    "1e-4", "1e-5", "123456789.123", "0.1", "1e22", "1.7976931348623157e308", "5e-324", "3.0", "100000.0", "1e100", "9223372036854775807",
    "true", "True", "false", "False", "none", "None", "''", "'a'", '"a"', "'it\\'s'", "'\\n\\t\\\\'", "'\\x41\\u00e9\\U0001F600'", "'\\101'",
    "'\\q'", "'a' 'b'", "'a' \"b\" 'c'", "[]", "[1]", "[1, 2]", "[1, 2,]", "[[1], [2, [3]]]", "()", "(1)", "(1,)", "(1, 2)", "1, 2", "1,", "(1, (2, 3))",
    "{}", "{'a': 1}", "{'a': 1, 'b': [1, 'x'],}", "{1: 2, 1.0: 3}", "{true: 1}", "{none: 1, (1, 2): 3}", "{'a': 1, 'a': 2}", "['a', \"it's\", 'q\"q', 'b\\'\\\"']",
    "['\\n\\t\\r\\\\\\x00\\x7f\\u00a0\\u2028']", "['\u00e9', '\U0001f600']", "[1.0, -2.5, 1e20, true, none, 'x']", "[undefined_name]", "'\\'' ~ [\"'\"]",
    "-0.0", "1e400", "-1e400", "['a\\x1bb']", "{'k': none}", "[(1,), (), []]",
)
for bad in ["'abc", '"abc', "1__0", "1.", "0x", "08", "09", "'\\x4'", "'\\u12'", "1a", "$", "!", "a ! b", "?", "(1", "1)", "[1}", "{'a' 1}", "{'a'}",
            "[1 2]", "a b", "", "1 +", "* 1", "a.", "a[", "a[]", "a..b", "1 if", "is x", "not", "a |", "a is", "a is not", "a | 1", "f(a=1, 2)", "f(*a, *b)", "f(**a, b)", "a is defined is none",
            "f(a b)", "f(,)", "@x", "a; b", "`a`", "a && b", "{a}", "x = 1"]:
    add("{{ " + bad + " }}")

# Arithmetic.
each(
    "1 + 2", "1 - 2 - 3", "2 * 3 + 4", "2 + 3 * 4", "(2 + 3) * 4", "7 / 2", "6 / 2", "7 // 2", "-7 // 2", "7 // -2", "-7 // -2", "7 % 3", "-7 % 3", "7 % -3", "-7 % -3",
    "2 ** 10", "2 ** -1", "2 ** 3 ** 2", "-2 ** 2", "(-2) ** 3", "2 ** 0.5", "0 ** 0", "7.5 // 2", "-7.5 // 2", "7.5 % 2", "-7.5 % 2", "7.5 % -2", "-0.0 // 1", "1 // 0.3",
    "1e308 * 10", "5 % 5", "-5 % 5", "0 // 5", "true + true", "true * 3", "-true", "+true", "- 3", "--3", "+-3", "1 - -1", "1.5 + 1", "2 * 1.5", "10 / 4 * 2", "3 - 1.0",
    "0.1 + 0.2", "1 / 3", "2 / 3", "1e16 + 1", "100 * 1.1", "7 // 2.0", "9223372036854775807 // -1", "5.0 % 3", "1.0 // 0.1", "6 % 2.5", "-6 % 2.5", "3 % 1.5", "-3 % 1.5",
    "1 ~ 2", "'a' ~ 1 ~ none ~ true ~ 1.5", "'a' ~ [1]", "1 + 2 ~ 3", "1 ~ 2 + 3", "2 * 3 ~ 4", "'a' ~ missing ~ 'b'", "1 ~ 2 * 3",
    "'a' + 'b'", "'a' * 3", "3 * 'ab'", "'a' * 0", "'a' * -1", "[1] + [2]", "[1, 2] * 2", "2 * [0]", "(1,) + (2,)", "(1,) * 3", "[] * 5", "'' * 1000000000",
    "1 + 2 == 3", "not 1 == 2", "not true and false", "not (true and false)", "true or false and false", "1 or 2", "0 or 'x'", "'' and 1", "1 and 2", "none or missing or 3",
    "1 < 2", "1 < 2 < 3", "1 < 3 < 2", "3 > 2 >= 2", "1 == 1.0", "1 == true", "1 != '1'", "'a' < 'b'", "'Z' < 'a'", "'a' < 'ab'", "[1, 2] < [1, 3]", "(1, 2) < (1, 2, 0)", "[1] == [1.0]", "(1,) == [1]",
    "none == none", "none == false", "missing == missing2", "missing == none", "{'a': 1} == {'a': 1.0}", "{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", "'a' == 'a'", "[] == ()", "1.5 <= 1.5", "2 >= 3", "1 < 1.5", "9007199254740993 == 9007199254740992.0",
    "9007199254740993 > 9007199254740992.0", "'é' > 'z'", "'\U0001f600' > '\uffff'",
    "'a' in 'abc'", "'d' in 'abc'", "'' in 'abc'", "1 in [1, 2]", "1.0 in [1, 2]", "'a' in {'a': 1}", "1 not in [1]", "3 not in (1, 2)", "'x' in missing", "missing in [1]", "none in [none]", "[1] in [[1]]", "not 1 in [2]", "'bc' in 'abcd' and 'x' not in 'abc'",
    "1 in [1] == true", "'a' in ['a'] in [true]", "1 if true else 2", "1 if false else 2", "1 if false", "[1 if false]", "'a' if 0 else 'b' if 0 else 'c'", "(1 if 0) is defined", "1 if true else missing.x", "1 + (2 if true else 3)", "1 if 1 == 1 and 2 > 1 else 0",
    "'x' if missing else 'y'", "1 if [] else 2", "1 if [0] else 2", "1 if 0.0 else 2", "1 if '' else 2", "1 if {} else 2", "1 if {1:1} else 2",
    "1 == 2 or 3 == 3", "1 < 2 and 2 < 3", "true is true and not false", "-1|abs", "-1 * 2|abs", "2 ** 2|string", "1 + 2|string|int", "not missing", "not none", "not 0", "not not 1",
)
for bad in ["1 / 0", "1 // 0", "1 % 0", "1.0 / 0", "1.5 // 0.0", "0 ** -1", "1 + 'a'", "'a' + 1", "'a' - 'b'", "[1] + (1,)", "[1] - [1]", "none + 1", "missing + 1", "1 + missing", "-'a'", "-missing", "-none", "+[]", "'a' * 'b'", "'a' * 1.5", "{} + {}", "1 < 'a'", "'a' < 1", "none < 1", "[1] < (1,)",
            "{} < {}", "missing < 1", "1 > none", "1 in 2", "1 in 'a'", "[1] in {}", "{[1]: 2}", "missing.x", "missing['x']", "missing.x.y", "missing()", "none()", "1()", "'a'()", "[1]()", "(-8) ** 0.5 < 1", "{}.x.y", "[1][5].x", "missing[1:2]", "1 in missing.x", "none.x.y"]:
    add("{{ " + bad + " }}")
add("{{ missing.x }}", message="'missing' is undefined")
add("{{ d.x.y }}", message="has no attribute 'x'", d={})

# Attributes, items, slices.
CTX = dict(
    d={"a": 1, "items": "shadow", "b": {"c": [10, 20, {"e": "deep"}]}, "1": "one", "": "empty"},
    l=[1, 2, 3, 4, 5], s="h\u00e9llo w\u00f6rld", t="abcdef", n=None, f=2.5, i=42, yes=True,
)
each(
    "d.a", "d['a']", "d.b.c", "d.b.c[0]", "d.b.c[-1].e", "d.b['c'][2]['e']", "d['items']", "d.items()|list|length", "d.missing", "d['missing']", "d.missing is defined", "d['1']", "d[1]", "d['']",
    "l[0]", "l[-1]", "l[5]", "l[-5]", "l[-6]", "l.0", "l.4", "l['0']", "l[true]", "l[1.0]", "l[none]", "s[0]", "s[1]", "s[-1]", "s[99]", "s[-10]", "t.0", "d.b.c.2.e", "n.x", "f.x", "i.x", "yes.x", "i['x']", "l.x", "s.x",
    "l[:]", "l[1:]", "l[:2]", "l[1:3]", "l[-2:]", "l[:-2]", "l[::2]", "l[1::2]", "l[::-1]", "l[::-2]", "l[3:1:-1]", "l[10:]", "l[:10]", "l[-10:2]", "l[2:1]", "l[:none]", "l[none:2]", "l[4:0:-2]", "l[-1:-4:-1]", "l[:-10:-1]", "l[100::-1]", "l[1:100:3]",
    "s[1:4]", "s[::-1]", "s[:5]", "s[-5:]", "s[::2]", "s[6:]", "t[1:-1]", "t[::-2]", "(1,2,3)[::-1]", "(1,2,3)[1:]", "'abc'[1:2]", "[1,2,3][-2:][0]", "range(10)[2:5]", "range(10)[::-3]|list", "range(5)[1]", "range(5)[-1]", "range(3)[7]", "l[i:]", "l[:i]", "l[9223372036854775807:]", "l[-9223372036854775807:]", "l[::9223372036854775807]", "l[::-9223372036854775807]",
    "l['a':]", "n[1:]", "d[1:]", "i[0]", "l[0:2][1]", "{'a': [1,2]}['a'][0]", "'abc'.upper()[0]", "d.get('a')", "d.get('zz')", "d.get('zz', 5)", "d.get('a', default=5)"[:-11] + ")", "d.keys()|list", "d.values()|list|length", "d.b.items()|list", "d.keys()", "d.b.values()", "{'x': 1}.items()", "d.copy().a",
    "l.count(3)", "l.index(3)", "(1, 1).count(1)", "(1, 2).index(2)", "l.copy()", "d.__class__", "''.__class__", "l.__len__", "d['__class__']", "l.append", "d.update", "'a'['upper']()", "d['get']('a')", "l['count'](1)", "l[1,]", "{(1, 2): 3}[1, 2]", "{1.0: 'x'}[1]", "{true: 'x'}[1]", "range(3).x", "d.a.b",
    **CTX,
)
for bad in ["l[::0]", "s[::0]", "l.append(1)", "d.update({})", "d.pop('a')", "l.sort()", "''.__class__.mro", "''.__class__.__mro__", "l.index(99)", "d.get()", "d.get(1, 2, 3)", "d.get([1])", "d.missing.x", "d.missing()", "d.items(1)", "l.x.y", "n.x.y", "s.nosuch()", "l()", "d.a()", "l[5].x"]:
    add("{{ " + bad + " }}", **CTX)

# String methods.
each(
    "'aBc'.upper()", "'aBc'.lower()", "'aBc dEf'.title()", "'aBc dEf'.capitalize()", "'aBc'.swapcase()", "\"it's a dog's\".title()", "'\u00e9\u00c9'.upper()", "'\u00e9\u00c9'.lower()", "'\u00dfa'.upper()", "'\u00dfa'.capitalize()", "''.capitalize()", "'a1b'.title()",
    "'  a b  '.strip() ~ '|'", "'  a  '.lstrip() ~ '|'", "'  a  '.rstrip() ~ '|'", "'xxaxx'.strip('x')", "'xyaxy'.strip('yx')", "'xxa'.lstrip('x')", "'axx'.rstrip('x')", "'\u00a0a\u2003'.strip() ~ '|'", "'\u4e2d\u6587a'.lstrip('\u4e2d\u6587')", "'a'.strip(none)", "'abc'.strip('')", "'\\n\\t a \\r\\n'.strip()",
    "'a b  c'.split()", "'a b  c'.split(' ')", "'a,b,c'.split(',')", "'a,b,c'.split(',', 1)", "'a,b,c'.rsplit(',', 1)", "'a b c d'.split(none, 2)", "'a b c d'.rsplit(none, 2)", "'  a  b  '.split()", "'  a  b  '.split(none, 1)", "'  a  b  '.rsplit(none, 1)", "''.split()", "''.split(',')", "'a<think>b</think>c'.split('</think>')[-1]", "'abc'.split('x')", "'aXXbXXc'.split('XX')", "'a b'.split(maxsplit=1)", "'a,b,c'.split(',', maxsplit=1)", "'a,b,c'.split(',', 0)", "'a\u3000b'.split()", "'abab'.split('b')", "'a, b'.rsplit(', ')",
    "'abc'.startswith('a')", "'abc'.startswith('b')", "'abc'.startswith(('x', 'a'))", "'abc'.endswith('c')", "'abc'.endswith(('x', 'bc'))", "'abc'.startswith('b', 1)", "'abc'.endswith('b', 0, 2)", "'abc'.startswith('')", "'abc'.startswith('', 4)", "'abc'.startswith(())", "'\u00e9a'.startswith('a', 1)",
    "'aXbX'.replace('X', '-')", "'aXbX'.replace('X', '-', 1)", "'abc'.replace('', '-')", "'abc'.replace('', '-', 2)", "'abc'.replace('b', '')", "''.replace('', 'x')", "'\u00e9\u00e8'.replace('', '.')", "'aaa'.replace('aa', 'b')", "'abc'.replace('x', 'y')", "'aaa'.replace('a', 'b', 0)", "'abc'.replace('', '-', 0)",
    "','.join(['a', 'b'])", "''.join([])", "', '.join('abc')", "'-'.join({'a': 1, 'b': 2})", "'x'.join(('a',))", "','.join(['a','b']|map('upper'))",
    "'hello'.find('l')", "'hello'.find('z')", "'hello'.rfind('l')", "'hello'.index('l')", "'hello'.rindex('l')", "'hello'.find('l', 3)", "'hello'.find('l', 4)", "'hello'.find('l', -2)", "'h\u00e9llo'.find('l')", "'hello'.find('')", "'hello'.find('', 9)", "'hello'.rfind('')", "'hello'.find('h', 0, 0)", "'hello'.find('o', 0, 4)", "'hello'.find('l', none, none)",
    "'hello'.count('l')", "'aaaa'.count('aa')", "'abc'.count('')", "'hello'.count('l', 3)", "'hello'.count('z')", "'abc'.count('', 9)",
    "'abc'.center(7) ~ '|'", "'abc'.center(8, '*')", "'ab'.center(5, '*')", "'ab'.center(2)", "'abc'.ljust(5) ~ '|'", "'abc'.rjust(5)", "'abc'.rjust(5, '.')", "'7'.zfill(3)", "'-7'.zfill(4)", "'+7'.zfill(2)", "''.zfill(2)", "'\u00e9'.center(4, '\u4e2d')", "'abcd'.center(7, '*')",
    "'abc'.isalpha()", "'ab1'.isalpha()", "''.isalpha()", "'123'.isdigit()", "'12a'.isdigit()", "'123'.isdecimal()", "'123'.isnumeric()", "'ab1'.isalnum()", "'a_b'.isalnum()", "' \\t\\n'.isspace()", "''.isspace()", "'abc'.islower()", "'aBc'.islower()", "'ABC'.isupper()", "'123'.isupper()", "'A1'.isupper()", "'Ab Cd'.istitle()", "'ab'.istitle()", "'\u00e9'.isalpha()", "'\u4e2d'.isalpha()",
    "'a-b-c'.partition('-')", "'a-b-c'.rpartition('-')", "'abc'.partition('-')", "'abc'.rpartition('-')", "'prefix-x'.removeprefix('prefix-')", "'x.txt'.removesuffix('.txt')", "'abc'.removeprefix('z')", "'abc'.removesuffix('')", "'a\\nb\\r\\nc\\rd'.splitlines()", "'a\\nb\\n'.splitlines()", "'a\\nb\\n'.splitlines(true)", "''.splitlines()", "'a\\tb'.expandtabs()", "'a\\tb'.expandtabs(4)", "'ABC\u00c9'.casefold()",
    "'{} {}'.format(1, 'a')", "'{0} {1} {0}'.format('a', 'b')", "'{a} {b}'.format(a=1, b=2)", "'{{}} {}'.format(1)", "'{:5}|{:<5}|{:>5}|{:^5}'.format('a', 'b', 'c', 'd')", "'{:05d} {:+d} {:x} {:X} {:o} {:b} {:#x}'.format(42, 42, 255, 255, 8, 5, 255)", "'{:.2f} {:8.3f} {:e} {:g} {:%}'.format(3.14159, 2.71828, 12345.678, 0.0001, 0.25)", "'{:,}'.format(1234567)", "'{:,.2f}'.format(1234567.891)", "'{!r} {!s}'.format('a', 'b')", "'{:*^9}'.format('mid')", "'{:.3}'.format('abcdef')", "'{:>8.3}'.format('abcdef')", "'{:d}'.format(true)", "'{}'.format(true)", "'{}'.format(none)", "'{}'.format([1, 'a'])", "'{:5}|'.format(3)", "'{:5}|'.format(3.0)", "'{:<5}|'.format(3)", "'{:.0f}'.format(2.5)", "'{:.3g}'.format(1234.5)", "'{:5.1f}|{:<7.2f}|'.format(1.25, 1.255)", "'{:=+6d}'.format(42)", "'{:c}'.format(65)", "'{:08.3f}'.format(-3.14159)", "'{: d}'.format(5)", "'{:.10}'.format(1.5)", "'{:10.3}|'.format(3.14159)",
)
for bad in ["'a'.split('')", "'a'.index('z')", "'a'.rindex('z')", "','.join([1])", "','.join(1)", "'a'.center()", "'a'.center('x')", "'a'.center(5, 'ab')", "'a'.replace('a')", "'a'.startswith(1)", "'a'.upper(1)", "'a'.strip(1)", "'{}'.format()", "'{x}'.format(1)", "'{'.format()", "'}'.format()", "'{:d}'.format('a')", "'{:s}'.format(1)", "'{:d}'.format(1.5)", "'{:.2d}'.format(1)", "'{:zz}'.format(1)", "'a'.partition('')", "'{!x}'.format(1)", "'{:5}'.format([1])", "'{:5}'.format(none)", "'a'.find()", "'a'.nosuch()", "'a'.join(missing.x)"]:
    add("{{ " + bad + " }}")

# "%" formatting.
each(
    "'%s' % 1", "'%s %s' % (1, 'a')", "'%d' % 42", "'%d' % 42.9", "'%i' % -5", "'%5d|%-5d|%05d|%+d|% d' % (42, 42, 42, 42, 42)", "'%x %X %o %#x %#o' % (255, 255, 8, 255, 8)", "'%f %.2f %8.3f %-8.1f| %e %E %g %G' % (1.5, 3.14159, 2.71828, 1.25, 12345.678, 0.00012, 1e-10, 1e20)", "'%%' % ()", "'%s%%' % 50", "'%r' % 'a'", "'%s' % [1, 2]", "'%s' % ((1, 2),)", "'%c%c' % ('a', 66)", "'%(a)s-%(b)d' % {'a': 'x', 'b': 3}", "'%5s|%-5s|%.2s' % ('a', 'b', 'cde')", "'%s' % none", "'%s' % true", "'%d' % true", "'%*d' % (5, 42)", "'%-*d|' % (5, 42)", "'%.*f' % (2, 3.14159)", "'%s' % missing", "'%05.1f' % 3.14159", "'%+.2e' % 12345.678", "'%g' % 100000.0", "'%g' % 1000000.0", "'a' % ()", "'a' % {}", "'%ld' % 5", "'%010.3f|' % -3.14159", "'%x' % -255", "'%.3d' % 7", "'%f' % 1", "'%5.1f%%' % 99.5",
    "'%s, %s!'|format('Hello', 'World')", "'%(x)s'|format(x=5)", "'%d-%02d'|format(7, 3)", "'%s'|format('a')", "'%.1f'|format(2.25)", "'x'|format()",
)
for bad in ["'%s %s' % 1", "'%s' % (1, 2)", "'%d' % 'a'", "'%z' % 1", "'%' % 1", "'a' % 1", "'%(x)s' % {}", "'%x' % 1.5", "'%c' % 'ab'", "'%s'|format('a', x=1)", "'%s'|format()", "'%(a' % {'a': 1}", "'%d' % none", "'%f' % 'a'"]:
    add("{{ " + bad + " }}")

# Filters.
USERS = [{"name": "Bob", "age": 30, "tags": ["x"], "g": "b"}, {"name": "alice", "age": 25, "tags": [], "g": "a"}, {"name": "Carol", "age": 35, "g": "B"}]
each(
    "-3|abs", "3.5|abs", "true|abs", "'abc'|capitalize", "'ABC dEF'|capitalize", "5|capitalize", "none|upper", "'abc'|center(9) ~ '|'", "'ab'|center(5) ~ '|'", "'x'|center|length", "missing|default('d')", "missing|d('d')", "''|default('d')", "''|default('d', true)", "none|default('d')", "none|default('d', boolean=true)", "0|d(1, true)", "missing|default", "d.x.y|default('z')"[:7] + "|default('z')", "[]|default([1], true)", "false|default(true)",
    "{'b': 1, 'A': 2, 'c': 0}|dictsort", "{'b': 1, 'A': 2}|dictsort(true)", "{'b': 1, 'A': 2, 'c': 0}|dictsort(false, 'value')", "{'b': 1, 'a': 2}|dictsort(reverse=true)", "{'b': 'Z', 'a': 'y'}|dictsort(by='value')", "{'b': 'Z', 'a': 'y'}|dictsort(case_sensitive=true, by='value')", "{}|dictsort", "{2: 'a', 1: 'b'}|dictsort",
    "'<a href=\"x\">&\\'</a>'|e", "'<b>'|escape", "'<b>'|e|e", "'<b>'|forceescape", "'<b>'|e|forceescape", "'<b>'|safe", "'<b>'|safe|e", "1|e", "('<a>'|safe) + '<b>'", "'<b>' + ('<a>'|safe)", "('<a>'|safe) ~ '<b>'", "['<'|e]", "('a'|safe) is escaped", "'a' is escaped", "('<'|safe)|upper",
    "1000|filesizeformat", "1|filesizeformat", "500|filesizeformat", "1500000|filesizeformat", "1024|filesizeformat(true)", "123456789|filesizeformat(binary=true)", "1e15|filesizeformat", "0|filesizeformat",
    "[1, 2]|first", "'abc'|first", "[]|first", "[]|first is undefined", "{'a': 1}|first", "[1, 2]|last", "'abc'|last", "[]|last", "{'a': 1, 'b': 2}|last", "range(5)|last", "(1, 2)|first", "missing|first",
    "'3.5'|float", "'abc'|float", "'abc'|float(1.5)", "5|float", "true|float", "'inf'|float", "'nan'|float", "' 1e3 '|float", "'1_000.5'|float", "none|float", "[]|float(2)", "'-inf'|float", "'1e'|float", "'0x10'|float", "''|float", "'_1'|float", "'infinity'|float", "'1e400'|float", "'-1e400'|float", "'1e-400'|float", "'-1e-400'|float", "'0.0000001e310'|float", "'1000000e-330'|float", "'1e99999999999'|float", "'1e-99999999999'|float", "'.5'|float", "'5.'|float", "'+1.5'|float", "'+-1'|float", "'++1'|float", "'.'|float", "'e5'|float", "'-nan'|float", "'1__0'|float", "'1_.5'|float", "'1E5'|float", "'1e+5'|float", "'nan(1)'|float", "'INF'|float",
    "'42'|int", "'abc'|int", "'abc'|int(7)", "'3.9'|int", "3.9|int", "-3.9|int", "'0x1F'|int(0, 16)", "'ff'|int(base=16)", "'0b11'|int(0, 2)", "'11'|int(0, 2)", "true|int", "none|int", "' 42 '|int", "'1_000'|int", "'1e3'|int", "''|int", "'-7'|int", "'+7'|int", "[]|int(5)", "'0o17'|int(0, 0)", "'0x1f'|int(0, 0)", "'z'|int(0, 36)", "'nan'|int", "'inf'|int(3)", "'4 2'|int", "'--4'|int", "'9'|int(0, 8)", "1e18|int", "'_1'|int", "'1__0'|int", "'007'|int",
    "users|groupby('g')|list|length", "users|groupby('g')|map(attribute='grouper')|list", "users|groupby('g', case_sensitive=true)|map(attribute='grouper')|list", "users|groupby('zz', default='none')|map('first')|list", "users|groupby('age')|map('last')|map('length')|list", "(users|groupby('g'))[0].list|length", "(users|groupby('g'))[0].grouper", "(users|groupby('g'))[0][0]", "[{'a': {'b': 1}}, {'a': {'b': 0}}]|groupby('a.b')|list", "[(1, 'x'), (2, 'y'), (1, 'z')]|groupby(0)|list",
    "'a\\nb\\nc'|indent", "'a\\nb\\nc'|indent(2)", "'a\\nb'|indent(2, true)", "'a\\n\\nb'|indent(2)", "'a\\n\\nb'|indent(2, blank=true)", "'a\\nb'|indent('> ')", "'a\\nb'|indent(width='--', first=true)", "'a\\n'|indent(2) ~ '|'", "''|indent(2) ~ '|'", "''|indent(2, true) ~ '|'", "'a\\r\\nb'|indent(1)", "'a\\n\\n\\n'|indent(2, true, true) ~ '|'", "5|indent(first=true)",
    "[1, 2, 3]|join", "[1, 2, 3]|join(',')", "[1, 'a', none, 1.5]|join('|')", "'abc'|join('-')", "users|join(', ', attribute='name')", "{'a': 1, 'b': 2}|join('+')", "[]|join(',')", "missing|join(',')", "[[1], [2]]|join(';')", "[1, 2]|join(0)", "users|join(attribute='age', d=':')", "['<b>'|safe, '<i>']|join",
    "[1, 2]|length", "'h\u00e9'|length", "{'a': 1}|length", "missing|length", "''|count", "range(7)|length", "{'a': 1}.items()|length", "'abc'|list", "{'a': 1}|list", "(1, 2)|list", "missing|list", "range(3)|list", "'ABC'|lower", "5|lower", "missing|lower", "missing|upper ~ '.'", "'abc'|upper", "true|upper",
    "{'a': 1, 'b': 2}|items|list", "missing|items|list", "{}|items|list",
    "['a', 'b']|map('upper')|list", "users|map(attribute='name')|list", "users|map(attribute='zz')|list", "users|map(attribute='zz', default='-')|list", "[1, 2]|map('string')|list", "['a b', 'c']|map('replace', ' ', '_')|list", "[[1, 2], [3]]|map('length')|list", "[[1, 2], [3]]|map('first')|list", "['a', 'b']|map('upper')|join(',')", "[1.5, 2.5]|map('int')|sum", "[{'a': {'b': 5}}]|map(attribute='a.b')|list", "[[1, 2], [3, 4]]|map(attribute=1)|list", "[[1, 2]]|map(attribute='0')|list", "['x']|map('center', 5)|list", "missing|map('upper')|list", "[]|map('upper')|list", "[3, -4]|map('abs')|list", "users|map(attribute='tags', default=[])|map('length')|list", "['a']|map('default', 'x')|list", "[missing]|map('default', 'x')|list", "'ab'|map('upper')|list",
    "[3, 1, 2]|max", "[3, 1, 2]|min", "['b', 'A']|min", "['b', 'A']|max", "['b', 'A']|min(case_sensitive=true)", "users|max(attribute='age')", "(users|min(attribute='age')).name", "[]|max", "[]|min is defined", "[1, 2.5]|max", "{'a': 1, 'b': 2}|max", "'hello'|max", "[1, true]|max",
    "[1, 0, 2]|reject|list", "[1, 2, 3, 4]|reject('odd')|list", "[1, 2, 3, 4]|select('odd')|list", "[1, 0, '', 'a']|select|list", "[1, 2, 3]|select('gt', 1)|list", "[1, 2, 3]|select('>=', 2)|list", "[1, 2, 3]|reject('in', [1, 3])|list", "users|selectattr('tags')|map(attribute='name')|list", "users|selectattr('age', 'gt', 26)|map(attribute='name')|list", "users|selectattr('name', 'equalto', 'Bob')|list|length", "users|rejectattr('tags')|map(attribute='name')|list", "users|rejectattr('age', '==', 30)|map(attribute='age')|list", "users|selectattr('tags', 'defined')|list|length", "users|selectattr('tags', 'undefined')|list|length", "[1, none, 2]|select('none')|list", "[1, 'a']|select('string')|list", "[1, 2, 3]|select('divisibleby', 3)|list", "(users|selectattr('name', '==', 'Bob')|first).age", "users|selectattr('name', 'in', ['Bob', 'Carol'])|map(attribute='age')|sum", "missing|select|list", "'a1b2'|select('in', 'ab')|join",
    "'a-b-a'|replace('a', 'x')", "'a-b-a'|replace('a', 'x', 1)", "5|replace('5', '6')", "'abc'|replace('', '-')", "'aaa'|replace('a', 1)", "'abc'|replace('b', '') ~ '|'", "'a'|replace('a', 'b', count=1)", "[1, 2]|replace('1', 'x')",
    "[1, 2, 3]|reverse|list", "'abc'|reverse", "(1, 2)|reverse|list", "range(3)|reverse|list", "{'a': 1, 'b': 2}|reverse|list", "[]|reverse|list", "'h\u00e9'|reverse", "[1, 2, 3]|reverse|first",
    "42.55|round", "42.55|round(1)", "42.55|round(1, 'floor')", "42.55|round(1, 'ceil')", "42|round", "2.5|round", "3.5|round", "-2.5|round", "2.675|round(2)", "1234.5|round(-2)", "1234|round(-2)", "1250|round(-2)", "42.4|round|int", "0.5|round(method='ceil')", "1e20|round", "7|round(1, 'floor')", "1.005|round(2)", "true|round", "-0.4|round", "42.55|round(precision=1)",
    "[1, 2, 3, 4, 5]|slice(2)|list", "[1, 2, 3, 4, 5]|slice(3)|list", "[1, 2, 3, 4, 5]|slice(3, 'x')|list", "[1]|slice(3)|list", "[1, 2, 3, 4]|slice(2, 'x')|list", "[1, 2, 3, 4, 5]|batch(2)|list", "[1, 2, 3, 4, 5]|batch(2, 'x')|list", "[]|batch(2)|list", "[1, 2]|batch(2, 0)|list", "'abcde'|batch(2)|map('join')|list", "[1, 2, 3]|batch(5, none)|list",
    "[3, 1, 2]|sort", "[3, 1, 2]|sort(reverse=true)", "['b', 'A', 'c']|sort", "['b', 'A', 'c']|sort(case_sensitive=true)", "users|sort(attribute='age')|map(attribute='name')|list", "users|sort(attribute='name')|map(attribute='name')|list", "users|sort(attribute='g,age')|map(attribute='name')|list", "users|sort(true, attribute='age')|map(attribute='age')|list", "'cab'|sort", "{'b': 1, 'a': 2}|sort", "[]|sort", "[(2, 'a'), (1, 'b')]|sort", "[1.5, 1, true]|sort", "[[2, 1], [1, 2]]|sort", "[{'a': 2}, {'a': 1}]|sort(attribute='a')", "['a', 'B', 'b', 'A']|sort", "[3, 1]|sort|first",
    "5|string ~ 'x'", "none|string", "'a'|string", "[1]|string|length", "'<p>a  <b>b</b></p>\\n c'|striptags", "'a <!-- x --> b'|striptags", "'a < b'|striptags", "[1, 2, 3]|sum", "[]|sum", "[1, 2.5]|sum", "users|sum(attribute='age')", "[1, 2]|sum(start=10)", "[[1], [2]]|sum(start=[])", "[true, true]|sum",
    "'hello world'|title", "'hello-world (foo) {bar} [baz] <qux>'|title", "\"it's\"|title", "'HELLO'|title", "'foo\\tbar'|title", "'a.b'|title", "'  a  '|trim ~ '|'", "'xxaxx'|trim('x')", "5|trim", "'\\n a \\n'|trim", "missing|trim ~ '|'", "'a'|trim(none)", "none|trim",
    "'hello big world'|truncate(9)", "'hello big world'|truncate(9, true)", "'hello big world'|truncate(11, leeway=0)", "'hello big world'|truncate(9, false, '!')", "'short'|truncate(3)", "'helloworld'|truncate(5, leeway=0)", "'a b c d e f g h i j'|truncate(5, end='', leeway=0)", "'h\u00e9llo w\u00f6rld \u4e2d\u6587\u5b57'|truncate(8, true, '', 0)",
    "[1, 2, 1, 3]|unique|list", "['a', 'A', 'b']|unique|list", "['a', 'A']|unique(true)|list", "users|unique(attribute='g')|map(attribute='name')|list", "[1, 1.0, true]|unique|list", "'hello'|unique|join", "'a b&c=d/\u00e9'|urlencode", "{'a b': 'c&d', 'e': 1}|urlencode", "[('a', 1)]|urlencode", "5|urlencode", "'hello big_world 42, x'|wordcount", "''|wordcount", "\"it's\"|wordcount", "{'a': 1, 'b': none, 'c': '<'}|xmlattr", "{'a': 1}|xmlattr(false)", "{}|xmlattr ~ '|'",
    "users|attr('x')", "'abc'|attr('upper')()", "{'a': 1}|attr('a')", "'abc'|attr('x') is defined", "[1,2]|map('multiply')|list"[:5] + "]", "'a'|upper|lower|title", "['x', 'y']|join(', ')|upper",
    users=USERS,
)
for bad in ["'a'|abs", "missing|abs", "5|length", "none|length", "true|length", "['a','b']|map('upper')|length", "5|list", "5|first", "5|join", "none|join(',')", "5|sort", "[1, 'a']|sort", "[1, none]|max", "[[1], 'a']|sort", "[{}, {}]|sort", "5|sum", "['a']|sum", "[1, 'a']|sum", "missing|int", "missing|float", "'x'|round", "none|round", "1.5|round(1, 'x')", "[1]|map|list", "[1]|map('nosuch')|list", "[1]|select('nosuch')|list", "[1]|selectattr|list", "1|nosuch", "'a'|replace('a')", "{}|dictsort(by='x')", "[]|dictsort", "5|items|list", "5|dictsort", "[[1]]|unique|list", "'a'|truncate(2)", "'a'|join(1, 2, 3)", "'a'|upper(1)", "'a'|default(1, 2, 3)", "'a'|replace(zz=1)", "[1]|batch|list", "5|xmlattr", "{'a b': 1}|xmlattr", "missing|dictsort", "'abc'|indent('x', 1, 2, 3)", "[1]|groupby", "[1,2]|map('upper', 5)|list", "missing.x|default(1)", "['a']|map('upper')|last", "'12345678901234567890123'|center(missing)"]:
    add("{{ " + bad + " }}")

# tojson.
JS = dict(o={"name": "x", "n": 1, "f": 1.5, "t": True, "z": None, "l": [1, [2]], "e": {}, "el": [], "u": "\u00e9\u4e2d\U0001f600", "q": "a\"b\\c/\n\t\x01\x7f<>&'"})
each(
    "o|tojson", "o|tojson(indent=2)", "o|tojson(indent=4)", "o|tojson(indent=0)", "o|tojson(indent='--')", "o|tojson(true)", "o|tojson(ensure_ascii=true)", "o|tojson(separators=(',', ':'))", "o|tojson(indent=2, separators=(',', ': '))", "o|tojson(sort_keys=true)", "[]|tojson", "{}|tojson(indent=2)", "[[]]|tojson(indent=1)", "'a'|tojson", "1|tojson", "1.0|tojson", "1e16|tojson", "none|tojson", "true|tojson", "(1, 2)|tojson", "{1: 2, true: 3, none: 4, 1.5: 5}|tojson", "'<b>'|safe|tojson", "1e400|tojson", "-1e400|tojson", "o.u|tojson(true)", "o.q|tojson", "[1, [2, {'a': [3]}]]|tojson(indent=1)", "{'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true)", "'\\b\\f\\r'|tojson", "'\\u2028'|tojson", "o|tojson|length", "{'a': 1}|tojson == '{\"a\": 1}'", "0.1|tojson", "123456789012|tojson", "[1,2]|tojson(none)",
    **JS,
)
for bad in ["missing|tojson", "[missing]|tojson", "range(3)|tojson", "{'a': 1}.items()|tojson", "['a']|map('upper')|tojson", "namespace()|tojson", "{(1, 2): 3}|tojson", "o.l.x|tojson"]:
    add("{{ " + bad + " }}", **JS)

# Tests.
each(
    "x is defined", "missing is defined", "missing is undefined", "missing is not defined", "x is not undefined", "none is none", "x is none", "missing is none", "1 is number", "1.5 is number", "true is number", "'1' is number", "1 is integer", "true is integer", "1.0 is integer", "1.0 is float", "1 is float", "'a' is string", "1 is string", "missing is string", "true is boolean", "1 is boolean", "{} is mapping", "[] is mapping", "missing is mapping", "[] is sequence", "'a' is sequence", "{} is sequence", "() is sequence", "1 is sequence", "none is sequence", "range(3) is sequence", "missing is sequence", "[] is iterable", "'a' is iterable", "1 is iterable", "{} is iterable", "missing is iterable", "none is iterable", "([]|map('upper')) is iterable", "([]|map('upper')) is sequence", "{}.items() is sequence", "{}.items() is iterable", "range is callable", "'a'.upper is callable", "1 is callable", "missing is callable", "true is true", "1 is true", "false is false", "0 is false", "none is false", "1 is odd", "2 is odd", "2 is even", "-1 is odd", "9 is divisibleby 3", "9 is divisibleby(2)", "9 is not divisibleby 2", "0 is divisibleby 5",
    "1 is eq 1", "1 is equalto 1.0", "1 is ne 2", "1 is lt 2", "1 is lessthan 2", "2 is le 2", "2 is gt 1", "2 is greaterthan 3", "2 is ge 2", "1 is in [1, 2]", "'a' is in 'abc'", "3 is not in [1, 2]", "1 is sameas 1", "true is sameas true", "1 is sameas true", "none is sameas none", "x is sameas x", "[] is sameas []", "'abc' is lower", "'aBc' is lower", "'ABC' is upper", "'1' is upper", "'upper' is filter", "'nosuch' is filter", "'odd' is test", "'nosuch' is test", "1 is odd and 2 is even", "not 1 is even", "1 is odd or x is none", "x.y is defined", "(1, 2) is sequence", "'a' ~ 'b' is string", "1 + 1 is odd", "1 is number and 'a' is string", "'x' if x is defined else 'y'", "x is defined and x is not none", "[1 is odd, 2 is odd]", "(x is defined) is true", "x is string is defined"[:11], "-1 is lt 0", "not x is defined", "x is mapping or x is sequence", "1.5 is odd", "'' is lower", "5 is string or 5 is number", "none is defined", "x[0] is eq 5", "'a' is in(['a'])",
    x=[5],
)
for bad in ["1 is nosuch", "missing is odd", "'a' is odd", "1 is divisibleby 0", "1 is divisibleby", "1 is in 2", "1 is lt 'a'", "1 is odd(2)", "missing.x is defined", "none is even"]:
    add("{{ " + bad + " }}")

# If.
for t in [
    "{% if a %}A{% endif %}", "{% if b %}B{% endif %}", "{% if b %}B{% else %}E{% endif %}", "{% if b %}B{% elif a %}A{% else %}E{% endif %}", "{% if b %}B{% elif b %}A{% elif c %}C{% endif %}", "{% if a and not b %}1{% endif %}", "{% if missing %}x{% else %}y{% endif %}", "{% if a %}{% if b %}1{% else %}2{% endif %}{% else %}3{% endif %}", "{% if a: %}x{% endif %}", "{% if not a %}x{% elif not b %}y{% endif %}", "{% if a, b %}t{% endif %}", "{% if a == 1 %}one{% elif a == 2 %}two{% endif %}", "{% if (a) %}x{% endif %}", "{% if a is defined and a %}x{% endif %}", "{% if c %}\n  yes\n{% else %}\n  no\n{% endif %}\nend",
    "{% if %}x{% endif %}", "{% if a %}", "{% if a %}{% else %}", "{% endif %}", "{% else %}", "{% if a %}{% endfor %}", "{% if a %}{% else %}{% else %}{% endif %}", "{% if a %}{% elif %}{% endif %}", "{% nosuch %}", "{% %}", "{% 1 %}", "{% if a %}{% endif x %}", "{% if a", "{{ a", "{# a", "{% raw %}x", "{{ a }", "{% if a }}{% endif %}", "{{ a %}",
]:
    add(t, a=1, b=0, c=[0])

# For.
for t in [
    "{% for x in l %}{{ x }}{% endfor %}", "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}", "{% for x in [] %}a{% else %}empty{% endfor %}", "{% for x in missing %}a{% else %}empty{% endfor %}", "{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}", "{% for x in l if x > 9 %}a{% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for k, v in d|dictsort %}{{ k }}{{ v }}{% endfor %}", "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}-{{ b }} {% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for c in 'h\u00e9y' %}[{{ c }}]{% endfor %}", "{% for a, b in ['xy', 'zw'] %}{{ b }}{{ a }}{% endfor %}", "{% for i in range(3) %}{{ i }}{% endfor %}", "{% for i in range(5, 1, -2) %}{{ i }},{% endfor %}", "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}", "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{% endfor %}", "{% for x in [1, 1, 2] %}{% if loop.changed(x, 'k') %}{{ x }}{% endif %}{% endfor %}",
    "{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}|{{ loop.index }} {% endfor %}", "{% for x in l %}{% set outer = loop %}{% for y in l %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}", "{% for x in l %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% for y in l %}{% if y == 2 %}{% break %}{% endif %}{{ y }}{% endfor %}{{ x }}{% endfor %}", "{% for x in l %}{% break %}{% else %}e{% endfor %}z", "{% for x in l %}{% set y = x %}{% endfor %}{{ y is defined }}", "{% set y = 0 %}{% for x in l %}{% set y = x %}{{ y }}{% endfor %}{{ y }}", "{% for x in l %}{{ y }}{% set y = x %}{% endfor %}", "{% set x = 9 %}{% for x in l %}{{ x }}{% endfor %}{{ x }}", "{% for x in l %}{{ x }}{% endfor %}{{ x is defined }}", "{% for x in l %}{% endfor %}{{ loop is defined }}", "{% for x in l[::-1] %}{{ x }}{% endfor %}", "{% for x in l|reverse %}{{ x }}{{ loop.length }}{% endfor %}", "{% for x in l, 5 %}{{ x }}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for x in l if x is odd %}{{ x }}{% endfor %}",
    "{% for n in tree recursive %}{{ n.v }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}", "{% for n in tree recursive %}{{ loop.depth }}{{ loop.depth0 }}{{ n.v }}{{ loop(n.c or []) }}{% endfor %}", "{% for n in tree recursive %}{{ n.v }}{{ loop.index }}{{ loop(n.c) if n.c }}{% else %}-{% endfor %}", "{% for n in tree if n.v != 'b' recursive %}{{ n.v }}{{ loop(n.c or []) }}{% endfor %}",
    "{% for x in l %}\n{{ x }}\n{% endfor %}", "{% for x in l -%}\n  {{ x }}\n{%- endfor %}", "{% for x in l %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}", "{% for x in l %}{{ loop }}{% endfor %}", "{% for x in l %}{% if loop.first %}{% continue %}{% endif %}{{ loop.previtem }}{% endfor %}", "{% for x in l: %}{{ x }}{% endfor %}", "{% for x in l %}{% continue %}{% else %}e{% endfor %}z", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{% else %}e{% endfor %}z", "{% set g = l|map('string') %}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}{{ x }}{% else %}spent{% endfor %}", "{% set g = l|select %}{{ g|list }}{{ g|list }}", "{% for x in l|map('string') %}{{ loop.length }}{{ loop.last }}{% endfor %}", "{% for k, g in users|groupby('g') %}{{ k }}:{{ g|map(attribute='v')|join }} {% endfor %}", "{% for a in users|groupby('g') %}{{ a.grouper }}:{{ a.list|length }} {% endfor %}", "{% for row in l|batch(2) %}{{ row }}{% endfor %}", "{% for x in l if loop is defined %}{{ x }}{% endfor %}"[:0] + "{% for x in (1, 2) if x %}{{ x }}{% endfor %}",
    "{% for loop in l %}{{ loop }}{% endfor %}"[:0] + "{% for i in l %}{% for j in range(i) %}{{ j }}{% if j == 1 %}{% break %}{% endif %}{% endfor %};{% endfor %}", "{% for i in l %}{% filter upper %}{% if i == 2 %}{% continue %}{% endif %}x{% endfilter %}{% endfor %}", "{% for x in d.values() %}{{ x }}{% endfor %}", "{% for x in l %}{{ loop.index is odd }}{% endfor %}", "{% for x in l %}{{ loop['index'] }}{% endfor %}", "{% for x in l %}{{ loop.nosuch }}{% endfor %}", "{% for x in l %}{% with y = x %}{{ y }}{% endwith %}{% endfor %}",
    "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [(1,)] %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for x in l %}", "{% for x l %}{% endfor %}", "{% for in l %}{% endfor %}", "{% for 1 in l %}{% endfor %}", "{% for x in %}{% endfor %}", "{% for x.y in l %}{% endfor %}", "{% break %}", "{% continue %}", "{% for x in l %}{% endfor %}{% break %}", "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% for x in l %}{{ loop(x) }}{% endfor %}", "{% for true in l %}{% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}", "{% for x in missing.y %}{% endfor %}", "{% for x in range(1000000) %}{% endfor %}", "{% for x in range(0, 5, 0) %}{% endfor %}", "{% for x in l %}{{ loop.previtem.z }}{% endfor %}",
]:
    add(t, l=[1, 2, 3], d={"b": 1, "a": 2}, tree=[{"v": "a", "c": [{"v": "b"}, {"v": "c", "c": [{"v": "d"}]}]}, {"v": "e"}], users=[{"g": 1, "v": "x"}, {"g": 0, "v": "y"}, {"g": 1, "v": "z"}])

# Set, namespace, with, scopes.
for t in [
    "{% set x = 1 %}{{ x }}", "{% set x = 1, 2 %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set (a, b) = [1, 2] %}{{ a }}{{ b }}", "{% set a, (b, c) = 1, (2, 3) %}{{ a }}{{ b }}{{ c }}", "{% set x %}hello{% endset %}{{ x }}", "{% set x | upper %}hello{% endset %}{{ x }}", "{% set x | replace('l', 'L') | trim %} hello {% endset %}[{{ x }}]", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}", "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% set ctx = 5 %}{{ ctx }}", "{% set x = ctx + 1 %}{{ x }}", "{% set x = missing %}{{ x is defined }}", "{% set x = none %}{{ x }}", "{%- set x = 'a' -%} {{ x }}", "{% set x = 1 if false else 2 %}{{ x }}", "{% set x = [1, 2] %}{% set x = x + [3] %}{{ x }}", "{% set d = {'a': 1} %}{{ d.a }}", "{% set x %}{% endset %}[{{ x }}]{{ x is string }}",
    "{% set ns = namespace() %}{% set ns.x = 1 %}{{ ns.x }}", "{% set ns = namespace(x=1, y='a') %}{{ ns.x }}{{ ns.y }}{{ ns.z is defined }}", "{% set ns = namespace(found=false) %}{% for i in [1, 2, 3] %}{% if i == 2 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}", "{% set ns = namespace(n=0) %}{% for i in range(5) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "{% set ns = namespace(s='') %}{% for c in 'abc' %}{% set ns.s = c ~ ns.s %}{% endfor %}{{ ns.s }}", "{% set ns = namespace(x=1) %}{{ ns['x'] }}", "{% set ns = namespace(l=[]) %}{% set ns.l = ns.l + [1] %}{{ ns.l }}", "{% set ns = namespace() %}{% set ns.x, y = 1, 2 %}{{ ns.x }}{{ y }}", "{% set ns = namespace() %}{% set ns.t %}block{% endset %}{{ ns.t }}", "{% set ns = namespace(a=namespace(b=1)) %}{{ ns.a.b }}", "{% set ns = namespace([('a', 1)]) %}{{ ns.a }}", "{% set ns = namespace() %}{% with n = ns %}{% set n.q = 3 %}{% endwith %}{{ ns.q }}",
    "{% with a = 1 %}{{ a }}{% endwith %}{{ a is defined }}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}", "{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }}", "{% with a, b = 1, 2 %}{{ a }}{% endwith %}"[:0] + "{% with a = (1, 2) %}{{ a[1] }}{% endwith %}", "{% filter upper %}abc{{ 'd' }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aXa{% endfilter %}", "{% filter trim %}\n  x  \n{% endfilter %}|", "{% filter indent(2) %}a\nb{% endfilter %}", "{% do [1].count(1) %}x", "{% do missing %}x", "{% print 1 %}", "{% print 1, 2 %}", "{% generation %}a{{ ctx }}{% endgeneration %}b", "{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}", "x\n  {% generation %}\n  y\n  {% endgeneration %}\nz",
    "{{ dict(a=1, b=2) }}", "{{ dict({'x': 1}, y=2) }}", "{{ dict([('a', 1), ('b', 2)]) }}", "{{ dict() }}", "{{ range(3) }}", "{{ range(1, 4)|list }}", "{{ range(0) |list }}", "{{ range(10, 0, -3)|list }}", "{{ range(5)|sum }}", "{{ 3 in range(5) }}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% do c.reset() %}{{ c.current }}", "{% set j = joiner() %}{{ j() }}a{{ j() }}b{{ j() }}c", "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b", "{% set j = joiner(sep='-') %}{% for i in [1,2] %}{{ j() }}{{ i }}{% endfor %}",
    "{% set ctx.x = 1 %}", "{% set missing.x = 1 %}", "{% set x.y.z = 1 %}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{% set a, b = 1 %}", "{% set a, b = 1, 2, 3 %}", "{% set %}", "{% set x %}", "{% set x = %}", "{% set x == 1 %}", "{% set 'a' = 1 %}", "{% with a %}{% endwith %}", "{% with a = 1 %}", "{% filter %}x{% endfilter %}", "{% filter nosuch %}x{% endfilter %}", "{{ namespace(1) }}", "{{ namespace({}, {}) }}", "{{ dict(1) }}", "{{ range() }}", "{{ range('a') }}", "{{ range(1, 2, 0) }}", "{{ range(100001) }}", "{{ range(-1000000000000, 1000000000000) }}", "{{ cycler() }}", "{{ raise_exception('boom') }}", "{% if true %}{{ raise_exception('in if') }}{% endif %}", "{{ range }}"[:0] + "{% set x = raise_exception('set') %}", "{% for x in [1] %}{{ raise_exception('m' ~ x) }}{% endfor %}", "{{ nosuch() }}", "{{ dict(a=1, **{'a': 2}) }}",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}",
]:
    add(t, ctx=7)
for m in ["boom", "Conversation roles must alternate user/assistant/user/assistant/..."]:
    add("{{ raise_exception('" + m + "') }}", message=m)

# Macros and calls.
for t in [
    "{% macro m() %}x{% endmacro %}{{ m() }}", "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(1) }}{{ m('b') }}{{ m() }}", "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(a=1, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}{{ m(b=3) }}", "{% macro m() %}{{ varargs }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, z=3) }}", "{% macro m() %}{{ kwargs.x }}{% endmacro %}{{ m(x=1) }}", "{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}", "{% set x = 1 %}{% macro m() %}{% set x = 2 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% macro m() %}\n  x\n{% endmacro %}[{{ m() }}]", "{%- macro m() -%}\n  x\n{%- endmacro -%}\n[{{ m() }}]", "{% macro m(x) %}{{ x|upper }}{% endmacro %}{{ m('a') ~ m('b') }}", "{% macro m() %}a{% endmacro %}{{ m()|upper }}{{ m() is string }}", "{% macro m(a, b) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}", "{% macro m() %}{% endmacro %}{{ m }}{{ m is callable }}",
    "{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}body{% endcall %}", "{% macro w(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(x) w([1, 2]) %}[{{ x }}]{% endcall %}", "{% macro w() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b=5, c=6) w() %}{{ a }}{{ b }}{{ c }}{% endcall %}", "{% macro w() %}{{ caller is defined }}{% endmacro %}{{ w() }}", "{% macro w() %}{% if caller %}{{ caller() }}{% else %}none{% endif %}{% endmacro %}{{ w() }}{% call w() %}x{% endcall %}", "{% macro o() %}({{ caller() }}){% endmacro %}{% macro i() %}[{{ caller() }}]{% endmacro %}{% call o() %}{% call i() %}x{% endcall %}{% endcall %}", "{% set y = 1 %}{% macro w() %}{% set y = 2 %}{{ caller() }}{% endmacro %}{% call w() %}{{ y }}{% endcall %}", "{% macro w(caller=none) %}{{ caller() if caller else 'n' }}{% endmacro %}{{ w() }}", "{% macro w() %}{{ caller() }}{{ caller() }}{% endmacro %}{% for i in [1, 2] %}{% call w() %}{{ i }}{% endcall %}{% endfor %}",
    "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m(x) %}{% for i in range(x) %}{{ i }}{% if i == 1 %}{% break %}{% endif %}{% endfor %}{% endmacro %}{{ m(5) }}", "{% macro m(a, *b) %}{% endmacro %}", "{% macro m(d) %}{{ d.x }}{% endmacro %}{{ m({'x': 1}) }}", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 1, 'b': 2}) }}{{ m(1, **{'b': 3}) }}{{ m(*(1,), b=4) }}", "{% macro m(x) %}{{ x is defined }}{% endmacro %}{{ m() }}{{ m(none) }}", "{% set ns = namespace() %}{% macro m() %}{% set ns.x = 5 %}{% endmacro %}{{ m() }}{{ ns.x }}", "{% set ns = namespace() %}{% macro m() %}y{% endmacro %}{% set ns.m = m %}{{ ns.m() }}", "{% macro m() %}{% macro n() %}in{% endmacro %}{{ n() }}{% endmacro %}{{ m() }}", "{% if true %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}", "{% macro outer(f) %}{{ f(2) }}{% endmacro %}{% macro dbl(x) %}{{ x * 2 }}{% endmacro %}{{ outer(dbl) }}", "{% set l = [] %}{% macro m(x, y=l) %}{{ y }}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}{% endmacro %}{{ m(1) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=1) }}", "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}", "{% macro m(a %}{% endmacro %}", "{% macro %}{% endmacro %}", "{% macro m() %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% call x %}{% endcall %}", "{% call missing() %}{% endcall %}", "{% macro m() %}{% endmacro %}{% call m() %}x{% endcall %}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ m() }}{% macro m() %}{% endmacro %}", "{% macro w() %}{{ caller() }}{% endmacro %}{{ w() }}", "{% macro m(1) %}{% endmacro %}", "{% macro m(a) %}{% endmacro %}{{ m(a=1, a=2) }}",
]:
    add(t)


def messages(*turns):
    return [{"role": role, "content": content} for role, content in turns]


def chat_cases():
    """Whole chat templates from chat_templates/, each with conversations of several shapes."""
    tools = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a <city> & \"more\"", "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "caf\u00e9"}, "days": {"type": "integer", "default": 1.5}}, "required": ["city"]}}}]
    call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}}]}
    plain = messages(("system", " Be brief. "), ("user", "Hi\nthere"), ("assistant", "Hello!"), ("user", "Bye \u4e2d\u6587"))
    conversations = [
        dict(messages=plain),
        dict(messages=plain[1:]),
        dict(messages=plain[1:], add_generation_prompt=False),
        dict(messages=plain[:1]),
        dict(messages=[]),
        dict(messages=messages(("user", "a"), ("user", "b"))),
        dict(messages=messages(("assistant", "a"))),
        dict(messages=plain[1:2], tools=tools),
        dict(messages=plain[:2] + [call, {"role": "tool", "content": "{\"t\": 21}"}, {"role": "tool", "content": "sunny"}, {"role": "assistant", "content": "21 and sunny"}, plain[3]], tools=tools),
        dict(messages=plain[:2] + [dict(call, content="Let me see."), {"role": "tool", "content": "21"}], tools=tools, add_generation_prompt=True),
        dict(messages=messages(("user", "q"), ("assistant", "<think>\nhm\n</think>\n\nanswer"), ("user", "r"))),
        dict(messages=[{"role": "user", "content": [{"type": "text", "text": "part one "}, {"type": "image"}, {"type": "text", "text": "part two"}]}]),
        dict(messages=plain[1:2], enable_thinking=False),
        dict(messages=plain[1:2], enable_thinking=True),
    ]
    for path in sorted((HERE / "chat_templates").glob("*.jinja")):
        source = path.read_text()
        for conversation in conversations:
            context = {"tools": None, "bos_token": "<bos>", "eos_token": "<eos>", "add_generation_prompt": True}
            add(source, **{**context, **conversation})


chat_cases()


def outcome(template, context, message):
    case = {"template": template, "context": context}
    try:
        case["output"] = ENV.from_string(template).render(**context)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in rendering is the expected result
        case["error"] = f"{type(error).__name__}: {str(error)[:120]}"
        if message:
            case["message"] = message
    return case


if __name__ == "__main__":
    rows = [outcome(*case) for case in CASES]
    for row in rows:  # addresses are no result
        assert " at 0x" not in row.get("output", ""), row
    text = "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n"
    (HERE / "jinja_cases.json").write_text(text)
    print(f"{len(rows)} cases, {sum('error' in row for row in rows)} of them errors")
