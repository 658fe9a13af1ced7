# The libraries behind Fourfold, as static archives so that a program carries them. Shared by this build and by
# find_package(Fourfold), whose static library needs them.
include(CMakeFindDependencyMacro)
find_dependency(Threads)

foreach(name pcre2-8 utf8proc)
  if(NOT TARGET Fourfold::${name})
    find_library(FOURFOLD_${name}_LIBRARY NAMES lib${name}.a ${name} REQUIRED)
    mark_as_advanced(FOURFOLD_${name}_LIBRARY)
    add_library(Fourfold::${name} UNKNOWN IMPORTED)
    set_target_properties(Fourfold::${name} PROPERTIES IMPORTED_LOCATION ${FOURFOLD_${name}_LIBRARY})
  endif()
endforeach()
