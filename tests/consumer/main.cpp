#include <fourfold/status.hpp>
#include <fourfold/storage.hpp>
#include <iostream>

int main(int argc, char** argv) { std::cout << argc << argv[0] << fourfold::kStorages.size() << "\n"; }
