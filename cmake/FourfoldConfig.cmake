include(${CMAKE_CURRENT_LIST_DIR}/FourfoldDependencies.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/FourfoldTargets.cmake)
