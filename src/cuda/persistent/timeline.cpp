#include "cuda/persistent/timeline.hpp"

#include <algorithm>
#include <cstdio>

namespace fourfold::cuda::persistent {
namespace {

// Bytes that a task streams.
double streamed(const Plan& plan, const Phase& phase, const Task& task, int tile_bytes, int context) {
  if (phase.kind == Kind::project) {
    const auto slices = (phase.columns + plan.slice - 1) / plan.slice;
    return 1.0 * task.groups * slices * tile_bytes;
  }
  if (phase.kind != Kind::attend) return 0;
  double keys = 0;
  for (int chain = task.share; chain < kChains; chain += phase.sharers)
    for (int first = chain * kBlockKeys; first <= context; first += kChains * kBlockKeys)
      keys += std::min(kBlockKeys, context + 1 - first);
  return keys * phase.head_dim * 4;
}

// "qkv" of "blk.3.qkv".
std::string kind_of(const std::string& name) {
  const std::size_t dot = name.find('.', 4);
  return name.starts_with("blk.") && dot != std::string::npos ? name.substr(dot + 1) : name;
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

template <class F>
void each_task(const Plan& plan, const Timeline& timeline, F f) {
  for (std::size_t cta = 0; cta < plan.tasks.size(); ++cta)
    for (std::size_t i = 0; i < plan.tasks[cta].size(); ++i) f(cta, plan.tasks[cta][i], timeline[cta][i]);
}

constexpr const char* kPage = R"html(<!doctype html><meta charset="utf-8"><title>TITLE</title>
<style>body{font:14px sans-serif;margin:8px}canvas{border:1px solid #ccc;width:100%;height:80vh}</style>
<h3>TITLE</h3><div id="keys"></div><canvas id="c"></canvas><div id="tip">scroll to zoom, drag to move</div>
<script>
const names=NAMES,kinds=KINDS,tasks=TASKS,ctas=CTAS,c=document.getElementById('c'),g=c.getContext('2d');
const colour=k=>`hsl(${k*137.5%360} 60% 50%)`;
document.getElementById('keys').innerHTML=kinds.map((k,i)=>`<span style="color:${colour(i)}">&#9632;</span> ${k} `).join('');
let from=0,to=Math.max(...tasks.map(t=>t[4]));
function draw(){c.width=c.clientWidth;c.height=c.clientHeight;const sx=c.width/(to-from),h=c.height/ctas;
 for(const [cta,phase,a,b,d] of tasks){if(d<from||a>to)continue;const x=v=>(v-from)*sx;g.fillStyle=colour(names[phase][1]);
 g.globalAlpha=.15;g.fillRect(x(a),cta*h,x(b)-x(a),h*.9);g.globalAlpha=1;g.fillRect(x(b),cta*h,Math.max(x(d)-x(b),.5),h*.9)}}
c.onwheel=e=>{e.preventDefault();const at=from+(to-from)*e.offsetX/c.clientWidth,f=e.deltaY>0?1.25:.8;from=at-(at-from)*f;to=at+(to-at)*f;draw()};
c.onmousemove=e=>{const t=from+(to-from)*e.offsetX/c.clientWidth;if(e.buttons){const m=e.movementX*(to-from)/c.clientWidth;from-=m;to-=m;draw()}
 const cta=Math.floor(e.offsetY/c.clientHeight*ctas),hit=tasks.find(k=>k[0]==cta&&k[2]<=t&&t<=k[4]);
 document.getElementById('tip').textContent=`${t.toFixed(2)} us, CTA ${cta}`+(hit?`: ${names[hit[1]][0]}, waits ${(hit[3]-hit[2]).toFixed(2)}, works ${(hit[4]-hit[3]).toFixed(2)}`:'')};
onresize=draw;draw();
</script>
)html";

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

}  // namespace

Timeline expect(const Plan& plan, int tile_bytes, int context, const Pace& pace) {
  Timeline timeline(plan.tasks.size());
  std::vector<std::size_t> next(plan.tasks.size(), 0);
  std::vector<double> free(plan.tasks.size(), 0);
  // Per counter: arrivals so far and when the last one of each version is seen.
  std::vector<int> count(plan.counters.size(), 0);
  std::vector<std::vector<double>> seen(plan.counters.size());
  const double rate = pace.bytes_per_us / plan.grid();
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t cta = 0; cta < plan.tasks.size(); ++cta)
      for (; next[cta] < plan.tasks[cta].size(); ++next[cta], moved = true) {
        const Task& task = plan.tasks[cta][next[cta]];
        const Footprint f = footprint(plan, task);
        double begun = free[cta], last = begun;
        bool ready = true;
        for (const Wait& w : f.waits) {
          if (w.version < 0) continue;  // the token before
          const auto& times = seen[static_cast<std::size_t>(w.counter)];
          const Counter& c = plan.counters[static_cast<std::size_t>(w.counter)];
          ready = ready && count[static_cast<std::size_t>(w.counter)] >= (w.version + 1) * c.arrivals;
          if (!ready) break;
          last = std::max(last, times[static_cast<std::size_t>(w.version)]);
          if (&w == f.waits.data()) begun = last;
        }
        if (!ready) break;
        const double work = streamed(plan, plan.phase(task), task, tile_bytes, context) / rate;
        const double done = std::max(last, begun + work);
        timeline[cta].push_back({free[cta], begun, done});
        free[cta] = done;
        for (const Arrival& a : f.arrivals) {
          auto& times = seen[static_cast<std::size_t>(a.counter)];
          int& n = count[static_cast<std::size_t>(a.counter)];
          const auto version =
              static_cast<std::size_t>(n / plan.counters[static_cast<std::size_t>(a.counter)].arrivals);
          if (version >= times.size()) times.resize(version + 1, 0);
          times[version] = std::max(times[version], done + pace.hop_us);
          n += a.count;
        }
      }
  }
  return timeline;
}

Timeline measured(const Plan& plan, std::span<const unsigned long long> stamps, int stride) {
  unsigned long long start = ~0ull;
  for (const unsigned long long stamp : stamps)
    if (stamp != 0) start = std::min(start, stamp);
  Timeline timeline(plan.tasks.size());
  for (std::size_t cta = 0; cta < plan.tasks.size(); ++cta) {
    double last = 0;
    for (std::size_t i = 0; i < plan.tasks[cta].size(); ++i) {
      const auto* own = &stamps[(cta * static_cast<std::size_t>(stride) + i) * kStamps];
      // Later stamps of a task that has none of its own are those before them.
      const auto at = [&](int which) {
        if (own[which] != 0) last = std::max(last, static_cast<double>(own[which] - start) * 1e-3);
        return last;
      };
      const double taken = at(0), begun = at(1);
      timeline[cta].push_back({taken, begun, at(3)});
    }
  }
  return timeline;
}

std::string timeline_html(const Plan& plan, const Timeline& timeline, const std::string& title) {
  std::vector<std::string> kinds;
  std::string names, keys, tasks;
  for (const Phase& phase : plan.phases) {
    const std::string kind = kind_of(phase.name);
    auto at = std::find(kinds.begin(), kinds.end(), kind);
    if (at == kinds.end()) at = kinds.insert(kinds.end(), kind);
    names += (names.empty() ? "[[\"" : ",[\"") + phase.name + "\"," + std::to_string(at - kinds.begin()) + "]";
  }
  for (const std::string& kind : kinds) keys += (keys.empty() ? "[\"" : ",\"") + kind + "\"";
  each_task(plan, timeline, [&](std::size_t cta, const Task& task, const TaskTime& t) {
    tasks += (tasks.empty() ? "[[" : ",[") + std::to_string(cta) + "," + std::to_string(task.phase) + "," +
             number(t.taken) + "," + number(t.begun) + "," + number(t.done) + "]";
  });
  std::string page = kPage;
  replace_all(page, "TITLE", title);
  replace_all(page, "NAMES", names + "]");
  replace_all(page, "KINDS", keys + "]");
  replace_all(page, "CTAS", std::to_string(plan.grid()));
  replace_all(page, "TASKS", tasks + "]");
  return page;
}

std::string timeline_json(const Plan& plan, const Timeline& timeline) {
  std::string events;
  const auto event = [&](std::size_t cta, const std::string& name, double from, double to) {
    if (to <= from) return;
    events += (events.empty() ? "" : ",\n") + std::string("{\"ph\":\"X\",\"pid\":0,\"tid\":") + std::to_string(cta) +
              ",\"name\":\"" + name + "\",\"ts\":" + number(from) + ",\"dur\":" + number(to - from) + "}";
  };
  each_task(plan, timeline, [&](std::size_t cta, const Task& task, const TaskTime& t) {
    event(cta, "wait", t.taken, t.begun);
    event(cta, plan.phase(task).name, t.begun, t.done);
  });
  return "{\"traceEvents\":[\n" + events + "\n]}\n";
}

}  // namespace fourfold::cuda::persistent
