# What the sample projects share; each of them could hold these lines itself, as projects for CANN
# do. Variables from outside: RESOURCE_TYPE (Ascend, Aarch, X86), TOOLCHAIN (a compiler),
# UDF_TARGET_LIB (library name without lib and .so), RELEASE_DIR (below the build folder), and the
# environment variable ASCEND_HOME_PATH (root of the installation).
if(NOT DEFINED UDF_CXX11_ABI)
    set(UDF_CXX11_ABI 0)
endif()
if("x${RESOURCE_TYPE}" STREQUAL "xX86")
    set(FLOW_FUNC_DIR $ENV{ASCEND_HOME_PATH}/devlib/linux/x86_64)
elseif("x${RESOURCE_TYPE}" STREQUAL "xAarch")
    set(FLOW_FUNC_DIR $ENV{ASCEND_HOME_PATH}/devlib/linux/aarch64)
else()
    set(FLOW_FUNC_DIR $ENV{ASCEND_HOME_PATH}/lib64)
endif()
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${RELEASE_DIR})
set(CMAKE_SKIP_RPATH TRUE)

add_library(${UDF_TARGET_LIB} SHARED ${UDF_SOURCES})
target_compile_options(${UDF_TARGET_LIB} PRIVATE -std=c++11 -O2 -fPIC -ftrapv
                       -fstack-protector-all -Wall -Wextra -Werror)
target_compile_definitions(${UDF_TARGET_LIB} PRIVATE _GLIBCXX_USE_CXX11_ABI=${UDF_CXX11_ABI})
target_include_directories(${UDF_TARGET_LIB} PRIVATE $ENV{ASCEND_HOME_PATH}/include
                           $ENV{ASCEND_HOME_PATH}/include/flow_func)
target_link_libraries(${UDF_TARGET_LIB} PRIVATE -Wl,--whole-archive
                      ${FLOW_FUNC_DIR}/libflow_func.so -Wl,--no-whole-archive)
