#include "text/jinja/jinja.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "text/jinja/concat.hpp"

namespace fourfold::jinja {
namespace {

using Json = nlohmann::ordered_json;

result<std::string> render(std::string_view source, const Json& context = Json::object()) {
  const auto parsed = parse(source);
  if (!parsed) return parsed.error();
  return parsed->render(context);
}

std::string error_of(std::string_view source) {
  const auto out = render(source);
  return out ? "no error, but: " + *out : out.error().message();
}

// Cases and results of Python's jinja2, made by tests/data/make_jinja.py.
TEST(Jinja, EqualsPythonsJinja) {
  std::ifstream file(FOURFOLD_TEST_DATA "/jinja_cases.json");
  ASSERT_TRUE(file) << "jinja_cases.json is missing";
  const Json cases = Json::parse(file);
  ASSERT_GT(cases.size(), 300u);
  for (const auto& item : cases) {
    const std::string source = item["template"];
    const auto got = render(source, item["context"]);
    if (item.contains("output")) {
      EXPECT_EQ(got ? *got : got.error().message(), item["output"].get<std::string>()) << source;
    } else {
      EXPECT_FALSE(got.ok()) << source << "\n  wanted: " << item["error"];
      if (got || !item.contains("message")) continue;
      const std::string message = got.error().message();
      EXPECT_NE(message.find(item["message"].get<std::string>()), std::string::npos) << source << '\n' << message;
    }
  }
}

TEST(Jinja, ErrorsNameTheLine) {
  EXPECT_EQ(error_of("a\nb\n{{ 1 + }}"), "template line 3: unexpected '}}'");
  EXPECT_EQ(error_of("a\r\nb\r{{ x.y }}"), "template line 3: 'x' is undefined");
  EXPECT_EQ(error_of("{#\n\n#}{{ x.y }}"), "template line 3: 'x' is undefined");
  EXPECT_EQ(error_of("{% if true %}\n{{ 1 / 0 }}{% endif %}"), "template line 2: division by zero");
  EXPECT_EQ(error_of("{{ [1,\n2,\nx.y] }}"), "template line 3: 'x' is undefined");
  EXPECT_EQ(error_of("{% macro m() %}\n{{ raise_exception('no') }}{% endmacro %}\n\n{{ m() }}"), "template line 2: no");
  EXPECT_EQ(error_of("\n{% for x in [1] %}\n"), "template line 2: the template ends within a block: 'endfor' expected");
  EXPECT_EQ(error_of("\n\n{{ 'abc"), "template line 3: a string is not closed: ' expected");
  EXPECT_EQ(error_of("\n{# abc"), "template line 2: a comment is not closed: '#}' expected");
  EXPECT_EQ(error_of("{% raw %}\n{% endraw"), "template line 1: a raw block is not closed: '{% endraw %}' expected");
  EXPECT_EQ(error_of("\n\xff"), "template line 2: not UTF-8 at byte 1");
  EXPECT_EQ(error_of("{{ 9223372036854775808 }}"),
            "template line 1: the integer 9223372036854775808 does not fit 64 bits");
  for (std::string_view name : {"include", "import", "from", "extends", "block"}) {
    const auto refused = parse(concat("\n{% ", name, " 'x' %}"));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), Code::unsupported);
    EXPECT_EQ(refused.error().message(),
              concat("template line 2: '", name, "' is not supported: a chat template is one file"));
  }
}

TEST(Jinja, IntegersDoNotWrap) {
  for (std::string_view expression :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "9223372036854775807 * 2", "10 ** 19", "2 ** 63",
        "-(-9223372036854775807 - 1)", "(-9223372036854775807 - 1) // -1", "(-9223372036854775807 - 1)|abs",
        "[9223372036854775807, 1]|sum", "'9223372036854775808'|int", "1e19|int"}) {
    const auto out = render(concat("{{ ", expression, " }}"));
    ASSERT_FALSE(out.ok()) << expression << " gave " << *out;
    EXPECT_NE(out.error().message().find("64 bits"), std::string::npos) << out.error().message();
  }
  EXPECT_EQ(*render("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
}

TEST(Jinja, ContextMustFit) {
  EXPECT_FALSE(render("x", Json::array()).ok());
  EXPECT_FALSE(render("x", {{"a", 18446744073709551615u}}).ok());
  Json deep = 1;
  for (int i = 0; i < 300; ++i) deep = Json::array({std::move(deep)});
  const auto out = render("x", {{"a", deep}});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code(), Code::resource);
}

std::string repeated(std::string_view piece, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += piece;
  return out;
}

// Each would take forever, or the machine's memory or stack, without a limit.
TEST(Jinja, HostileTemplatesEndInAnError) {
  const std::string cases[] = {
      repeated("{% for i in range(100000) %}", 5) + repeated("{% endfor %}", 5),
      repeated("{% for i in range(99999) %}x", 3) + repeated("{% endfor %}", 3),
      "{% set ns = namespace(s='xx') %}{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% set ns = namespace(s='xx') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s=[1, 2]) %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s=[1, 2]) %}{% for i in range(64) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
      "{% set ns = namespace(s=1, t=1) %}{% for i in range(64) %}{% set ns.s = (ns.s, ns.s) %}"
      "{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ ns.s == ns.t }}",
      "{% set ns = namespace(s=1) %}{% for i in range(64) %}{% set ns.s = (ns.s, ns.s) %}{% endfor %}{{ {ns.s: 1} }}",
      "{% set ns = namespace(s=1) %}{% for i in range(64) %}{% set ns.s = (ns.s, ns.s) %}{% endfor %}{{ ns.s|tojson }}",
      "{% set ns = namespace(s=1) %}{% for i in range(300) %}{% set ns.s = [ns.s] %}{% endfor %}",
      "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = ns.l + ['x' * 1000000] %}{% endfor %}",
      "{{ 'x' * 1000000000000 }}",
      "{{ 'x' * 9223372036854775807 }}",
      "{{ [0] * 9223372036854775807 }}",
      "{{ [[0] * 1000000] * 1000000 }}",
      "{{ range(100001) }}",
      "{{ range(-9223372036854775807, 9223372036854775807) }}",
      "{{ 'x'|center(9000000000000000000) }}",
      "{{ 'x'.ljust(9000000000000000000) }}",
      "{{ 'x'.zfill(9000000000000000000) }}",
      "{{ '%999999999d' % 1 }}",
      "{{ '%.999999999f' % 1 }}",
      "{{ '{:999999999}'.format(1) }}",
      "{{ ('x' * 30000000)|replace('', 'yyyyyyyyyyyyyyyyyyyy') }}",
      "{{ ('x\\n' * 3000000)|indent(1000) }}",
      "{{ ('x' * 1000000)|batch(1)|list|join('y' * 1000000) }}",
      "{% for a in ('x' * 9999999) %}{% for b in ('x' * 9999999) %}{{ a in 'b' }}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{{ m() ~ m() }}{% endmacro %}{{ m() }}",
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
      "{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}",
      "{% macro m(x) %}{{ [x]|map('upper')|list }}{% for i in range(9) %}{{ m(x ~ x) }}{% endfor %}{% endmacro %}"
      "{{ m('ab') }}",
      "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
      "{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}",
      "{{ " + repeated("[", 100000) + repeated("]", 100000) + " }}",
      "{{ " + repeated("{1:", 100000) + "1" + repeated("}", 100000) + " }}",
      "{{ " + repeated("-", 100000) + "1 }}",
      "{{ " + repeated("not ", 100000) + "1 }}",
      "{{ 1" + repeated(" + 1", 100000) + " }}",
      "{{ 1" + repeated(" if 1 else 1", 100000) + " }}",
      "{{ 1" + repeated(" if 1", 100000) + " }}",
      "{{ x" + repeated(".x", 100000) + " }}",
      "{{ x" + repeated("[0]", 100000) + " }}",
      "{{ x" + repeated("()", 100000) + " }}",
      "{{ 'x'" + repeated("|upper", 100000) + " }}",
      "{{ 1" + repeated(" is defined", 1) + repeated("|string is defined", 100000) + " }}",
      "{{ " + repeated("f(", 100000) + " }}",
      repeated("{% if true %}", 100000),
      repeated("{% for x in [1] %}", 1000) + repeated("{% endfor %}", 1000),
      "{% set " + repeated("(", 100000) + "x" + repeated(")", 100000) + " = 1 %}",
      "{{ strftime_now('%c' * 100000) }}",
  };
  for (const auto& source : cases) {
    SCOPED_TRACE(source.substr(0, 200));
    const auto out = render(source);
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().message().rfind("template line 1: ", 0), 0u) << out.error().message();
  }
}

TEST(Jinja, LimitsLeaveRoomForRealTemplates) {
  EXPECT_TRUE(render("{{ " + repeated("(", 60) + "1" + repeated(")", 60) + " }}").ok());
  EXPECT_TRUE(render("{{ 'a'" + repeated(" + 'a'", 300) + " }}").ok());
  EXPECT_TRUE(render("{{ 'a'" + repeated(" ~ 'a'", 5000) + " }}").ok());
  EXPECT_TRUE(render(repeated("{% if true %}", 60) + "x" + repeated("{% endif %}", 60)).ok());
  EXPECT_TRUE(render("{% if false %}" + repeated("{% elif false %}x", 5000) + "{% endif %}").ok());
  EXPECT_TRUE(render(repeated("{{ 'some text' }}\n", 50000)).ok());
  EXPECT_TRUE(render("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(50) }}").ok());
  Json messages = Json::array();
  for (int i = 0; i < 10000; ++i) messages.push_back({{"role", "user"}, {"content", std::string(500, 'x')}});
  const auto out = render(
      "{% for m in messages %}{% if m.role == 'user' %}{{ '<|' + m.role + '|>' + m.content | trim }}"
      "{% endif %}{% endfor %}",
      {{"messages", messages}});
  ASSERT_TRUE(out.ok()) << out.error().message();
  EXPECT_EQ(out->size(), 10000u * 508);
}

TEST(Jinja, CyclesAreReleased) {  // a leak checker sees them otherwise
  EXPECT_TRUE(render("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns] %}{{ ns }}").ok());
  EXPECT_TRUE(render("{% set ns = namespace() %}{% macro m() %}{{ ns }}{% endmacro %}{% set ns.m = m %}").ok());
  EXPECT_TRUE(render("{% for x in [1, 2] %}{{ loop.changed(loop) }}{{ loop.changed(loop.changed) }}{% endfor %}").ok());
  EXPECT_TRUE(
      render("{% set ns = namespace() %}{% set c = cycler(ns) %}{% set ns.c = c %}{% set ns.n = c.next %}").ok());
  EXPECT_TRUE(
      render("{% set ns = namespace() %}{% for i in range(2000) %}{% set ns.x = namespace(x=ns.x) %}{% endfor %}")
          .ok());
}

TEST(Jinja, ATemplateRendersOftenAndFromManyContexts) {
  const auto parsed = parse("{% set n = namespace(i=x) %}{% set n.i = n.i + 1 %}{{ n.i }}");
  ASSERT_TRUE(parsed.ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*parsed->render({{"x", i}}), std::to_string(i + 1));
}

TEST(Jinja, StrftimeNowIsThisYear) {
  const auto out = render("{{ strftime_now('%Y-%m-%d') }}");
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->size(), 10u);
  EXPECT_GT(*out, "2024");
  EXPECT_EQ(*render("{{ strftime_now('') }}|{{ strftime_now('%%d') }}"), "|%d");
}

}  // namespace
}  // namespace fourfold::jinja
