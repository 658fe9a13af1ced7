// Threads this process may use, from made-up /proc and /sys trees (faults C8) and from the machine itself.
#include "cpu/topology.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

namespace fourfold {
namespace {

namespace fs = std::filesystem;

class Tree : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::temp_directory_path() / ("fourfold_topology_" + std::to_string(getpid()) + "_" + info->name());
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  // `cores` cores with `ways` hardware threads each, numbered the way servers do: 0..cores-1, then the siblings.
  void write_cpus(int cores, int ways) {
    write("sys/devices/system/cpu/online", "0-" + std::to_string(cores * ways - 1) + "\n");
    for (int cpu = 0; cpu < cores * ways; ++cpu) {
      std::string siblings;
      for (int way = 0; way < ways; ++way) {
        siblings.append(way == 0 ? "" : ",").append(std::to_string(cpu % cores + way * cores));
      }
      write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", siblings + "\n");
    }
  }
  void write_v2(const std::string& group) {
    write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    write("proc/self/cgroup", "0::" + group + "\n");
  }
  void write_v1(const std::string& mount_root, const std::string& group) {
    write("proc/self/mountinfo",
          "30 23 0:27 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"
          "31 30 0:28 " +
              mount_root +
              " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
              "32 30 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
    write("proc/self/cgroup", "5:cpuset:/elsewhere\n4:cpu,cpuacct:" + group + "\n0::/\n");
  }
  void write_v1_quota(const std::string& group, const std::string& quota) {
    write("sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_quota_us", quota + "\n");
    write("sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_period_us", "100000\n");
  }
  Topology read(std::vector<int> allowed = {}) const { return read_topology(root_.string(), std::move(allowed)); }

  fs::path root_;
};

TEST_F(Tree, HardwareThreadsOfOneCoreCountOnce) {
  write_cpus(4, 2);
  const Topology t = read();
  EXPECT_EQ(t.logical, 8);
  EXPECT_EQ(t.allowed.size(), 8u);
  EXPECT_EQ(t.physical_allowed, 4);
  EXPECT_EQ(t.budget(), 8);
  EXPECT_EQ(default_threads(t), 4);
}

TEST_F(Tree, AffinityLimitsThreads) {
  write_cpus(4, 2);
  EXPECT_EQ(default_threads(read({0})), 1);
  EXPECT_EQ(default_threads(read({1, 5})), 1);  // one core's two threads
  EXPECT_EQ(default_threads(read({1, 2, 5})), 2);
  EXPECT_EQ(read({1, 5}).budget(), 2);
  EXPECT_EQ(read({1, 5}).logical, 8);
}

TEST_F(Tree, NewerSiblingNameIsPreferred) {
  write_cpus(2, 1);
  write("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0-1\n");
  write("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "0-1\n");
  EXPECT_EQ(read().physical_allowed, 1);
}

TEST_F(Tree, QuotaOfVersion2RoundsUp) {
  write_cpus(8, 1);
  write_v2("/user/job");
  for (const auto& [text, threads] : std::vector<std::pair<std::string, int>>{
           {"max 100000", 8}, {"200000 100000", 2}, {"150000 100000", 2}, {"1000 100000", 1}, {"900000 100000", 8}}) {
    write("sys/fs/cgroup/user/job/cpu.max", text + "\n");
    EXPECT_EQ(default_threads(read()), threads) << text;
  }
}

TEST_F(Tree, QuotaOfAParentHolds) {
  write_cpus(8, 1);
  write_v2("/user/job/inner");
  write("sys/fs/cgroup/user/job/inner/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/user/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(read().quota, 3.0);
  EXPECT_EQ(default_threads(read()), 3);
}

TEST_F(Tree, QuotaOfAContainerIsAtTheMount) {
  write_cpus(8, 1);
  write_v2("/");
  write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(default_threads(read()), 4);
  write_v2("/../../outside");
  EXPECT_EQ(default_threads(read()), 4);
}

TEST_F(Tree, QuotaOfVersion1) {
  write_cpus(8, 1);
  write_v1("/", "/docker/abc");
  write_v1_quota("/docker/abc", "-1");
  EXPECT_TRUE(std::isinf(read().quota));
  write_v1_quota("/docker/abc", "250000");
  EXPECT_EQ(default_threads(read()), 3);
  write_v1_quota("/docker", "100000");
  EXPECT_EQ(default_threads(read()), 1);
}

TEST_F(Tree, QuotaOfVersion1BelowAMountedGroup) {
  write_cpus(8, 1);
  write_v1("/docker/abc", "/docker/abc/inner");
  write_v1_quota("", "500000");
  write_v1_quota("/inner", "200000");
  EXPECT_EQ(default_threads(read()), 2);
}

TEST_F(Tree, NonsenseIsNoLimitAndNoCrash) {
  write_cpus(2, 1);
  write_v2("/job");
  for (const char* text : {"", "abc", "0 100000", "-5 100000", "100000 0", "100000"}) {
    write("sys/fs/cgroup/job/cpu.max", text);
    EXPECT_EQ(default_threads(read()), 2) << text;
  }
  write("proc/self/mountinfo", "x\n - \n1 2 3\n");
  write("proc/self/cgroup", "x\n:\n0:\n");
  write("sys/devices/system/cpu/online", "0-999999999999,x");
  EXPECT_GE(default_threads(read()), 1);
}

TEST_F(Tree, EmptyMachineHasOneThread) {
  const Topology t = read();
  EXPECT_EQ(t.allowed, std::vector<int>{0});
  EXPECT_EQ(default_threads(t), 1);
  EXPECT_EQ(t.l3, 0u);
  EXPECT_EQ(t.isa, "");
}

TEST_F(Tree, CachesModelAndFeatures) {
  write_cpus(2, 1);
  const auto cache = [&](int index, const char* level, const char* type, const char* size) {
    const std::string folder = "sys/devices/system/cpu/cpu1/cache/index" + std::to_string(index);
    write(folder + "/level", std::string(level) + "\n");
    write(folder + "/type", std::string(type) + "\n");
    write(folder + "/size", std::string(size) + "\n");
  };
  cache(0, "1", "Data", "48K");
  cache(1, "1", "Instruction", "32K");
  cache(2, "2", "Unified", "1024K");
  cache(3, "3", "Unified", "32M");
  write("proc/cpuinfo",
        "processor\t: 0\nmodel name\t: A Fine CPU\nflags\t\t: fpu avx2 fma avx512f avx512_vnni\n\n"
        "processor\t: 1\nmodel name\t: Another\nflags\t\t: fpu\n");
  const Topology t = read({1});
  EXPECT_EQ(t.l1d, 48u << 10);
  EXPECT_EQ(t.l2, 1u << 20);
  EXPECT_EQ(t.l3, 32u << 20);
  EXPECT_EQ(t.cpu_model, "A Fine CPU");
  EXPECT_EQ(t.isa, "fma avx2 avx512f avx512_vnni");
}

TEST(CpuList, Parses) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list("5"), std::vector<int>{5});
  EXPECT_TRUE(parse_cpu_list("").empty());
  EXPECT_TRUE(parse_cpu_list("abc").empty());
  EXPECT_EQ(parse_cpu_list("1,x,3"), std::vector<int>{1});
  EXPECT_TRUE(parse_cpu_list("3-1").empty());
  EXPECT_TRUE(parse_cpu_list("-4").empty());
}

TEST(Machine, OneAllowedProcessorGivesOneThread) {
  std::thread([] {
    const int first = read_topology().allowed.front();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(default_threads(), 1);
    EXPECT_EQ(read_topology().allowed, std::vector<int>{first});
  }).join();
}

TEST(Machine, DefaultIsWithinTheMask) {
  const Topology t = read_topology();
  EXPECT_GE(default_threads(), 1);
  EXPECT_LE(default_threads(), static_cast<int>(t.allowed.size()));
  EXPECT_GE(t.logical, static_cast<int>(t.allowed.size()));
}

}  // namespace
}  // namespace fourfold
