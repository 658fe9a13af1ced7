// Step 2: the same attention as a fold. What is visible, how a score changes, how results combine: three values.
//
// `reference` runs that definition element by element in double. A Team runs it from tiles of 64 keys on threads, each
// block of 1024 keys from a fresh state, merged left to right: the same bits for any number of threads.
#include <fourfold/fold.hpp>

#include "example.hpp"

using namespace fourfold;

int main() {
  const int T = 300, kHeads = 4, kKeyHeads = 2, D = 64;  // two query heads share each key head
  const auto q = numbers(T * kHeads * D, 1), k = numbers(T * kKeyHeads * D, 2), v = numbers(T * kKeyHeads * D, 3);
  const Heads queries{Rows{q.data(), T, kHeads * D}, kHeads};       // [T, 4, 64]
  const Heads keys{Rows{k.data(), T, kKeyHeads * D}, kKeyHeads};    // [T, 2, 64]
  const Heads values{Rows{v.data(), T, kKeyHeads * D}, kKeyHeads};  // [T, 2, 64]

  const Fold attention{Causal{}, Scale{0.125f}, OnlineSoftmax{}};

  const auto run = [&](const auto& executor) {
    std::vector<float> out(q.size());
    const status s =
        attention.on(executor).attend(queries, keys, values, Heads{Rows{out.data(), T, kHeads * D}, kHeads});
    if (!s) std::printf("%s\n", s.message().c_str()), std::exit(1);
    return out;
  };
  const auto exact = run(reference);
  check("float loop against double", run(reference_f32), exact, 3e-6);
  check("tiles on 2 threads against double", run(Team{2}), exact, 3e-6);
  check("7 threads against 1, bit for bit", run(Team{7}), run(Team{1}), 0);

  // A matrix product is a fold too: every input visible, and a sum.
  const Rows<const float> a{q.data(), 8, 64}, b{k.data(), 100, 64};
  std::vector<float> product(8 * 100), same(8 * 100);
  const Fold multiply{Full{}, Sum{}};
  if (!multiply.on(reference).multiply(a, b, Rows{product.data(), 8, 100})) return 1;
  if (!multiply.on(Team{2}).multiply(a, b, Rows{same.data(), 8, 100})) return 1;
  check("a b^T on 2 threads against double", same, product, 2e-5);
}
