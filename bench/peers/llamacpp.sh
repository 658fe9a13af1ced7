#!/bin/bash
# Side by side with llama.cpp, on the models that tools/fetch-models brings: builds the peer from the PyPI source
# package llama-cpp-python with native flags (once, into build/peers), then measures both programs in turns, A B A B,
# and prints medians, ratios and shares of the read ceiling that our program probes between its repetitions.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=0.3.36
rounds=5 threads=2 machine='' predicted='' build_only=false
models=(models/SmolLM2-135M-Instruct.Q4_1.gguf models/gemma-3-270m-q4_k_m.gguf)
usage() {
  cat << END
usage: bench/peers/llamacpp.sh [--build-only] [--rounds N] [--threads N] [--receipts MACHINE --predicted TEXT] [MODEL.gguf...]
  --receipts MACHINE   also write a receipt per test under lab/results/MACHINE
  --predicted TEXT     what was expected, for the receipts
END
}
while [ $# -gt 0 ]; do
  case $1 in
    --build-only) build_only=true ;;
    --rounds) rounds=$2; shift ;;
    --threads) threads=$2; shift ;;
    --receipts) machine=$2; shift ;;
    --predicted) predicted=$2; shift ;;
    --help) usage; exit ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
[ $# -eq 0 ] || models=("$@")

root=build/peers/llamacpp-$version
peer=$root/build/bin/llama-bench
if [ ! -x "$peer" ]; then
  mkdir -p "$root"
  if [ ! -d "$root/source" ]; then
    python3 -m pip download --quiet --no-deps --no-binary llama-cpp-python --dest "$root" "llama-cpp-python==$version"
    mkdir "$root/source.new"
    tar -xzf "$root"/llama_cpp_python-$version.tar.gz -C "$root/source.new" --strip-components 1
    mv "$root/source.new" "$root/source"
  fi
  cmake -G Ninja -S "$root/source/vendor/llama.cpp" -B "$root/build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_SERVER=OFF > "$root/configure.log"
  cmake --build "$root/build" --target llama-bench
fi
! $build_only || exit 0

ours=build/release/bin/fourfold
[ -x "$ours" ] || { echo "bench/peers/llamacpp.sh: $ours is missing; run 'make build'" >&2; exit 1; }
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# measure NAME ROUND ARGUMENTS...: one repetition of one test by both programs, one right after the other. The peer's
# flash attention is on: it is the faster of its two on these models. RUN_UNDER may name a command to run both under.
measure() {
  local name=$1 round=$2
  shift 2
  # shellcheck disable=SC2016,SC2086
  ${RUN_UNDER:-} bash -c 'peer=$1 ours=$2 out=$3 round=$4; shift 4
    "$peer" "$@" -fa 1 -r 1 -o json > "$out.peer.$round.json" 2> /dev/null
    "$ours" bench "$@" -r 1 -o json > "$out.ours.$round.json"' \
    measure "$peer" "$ours" "$results/$name" "$round" "$@" -t "$threads"
}

for model in "${models[@]}"; do
  name=$(basename "$model" .gguf)
  for ((round = 1; round <= rounds; round++)); do
    echo "$name: round $round of $rounds" >&2
    measure "$name@tg128" "$round" -m "$model" -p 0 -n 128
    measure "$name@pp512" "$round" -m "$model" -p 512 -n 0
    measure "$name@tg64-d4096" "$round" -m "$model" -p 0 -n 64 -d 4096
  done
done
bench/peers/compare "$results" "$machine" "$predicted" "$threads"
