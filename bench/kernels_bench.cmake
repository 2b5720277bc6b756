# This file is included after the definition of the target kernels_bench. If OpenBLAS is installed,
# the bench measures OpenBLAS too.
find_path(KVD_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas x86_64-linux-gnu
  x86_64-linux-gnu/openblas-pthread)
find_library(KVD_OPENBLAS openblas)
if(KVD_CBLAS_INCLUDE AND KVD_OPENBLAS)
  target_compile_definitions(kernels_bench PRIVATE KVD_BENCH_OPENBLAS=1)
  target_include_directories(kernels_bench SYSTEM PRIVATE ${KVD_CBLAS_INCLUDE})
  target_link_libraries(kernels_bench PRIVATE ${KVD_OPENBLAS})
endif()

# If oneDNN is installed, the bench measures its products in bf16.
find_path(KVD_DNNL_INCLUDE dnnl.hpp)
find_library(KVD_DNNL dnnl)
find_package(OpenMP COMPONENTS CXX QUIET)
if(KVD_DNNL_INCLUDE AND KVD_DNNL AND OpenMP_CXX_FOUND)
  target_sources(kernels_bench PRIVATE onednn_products.cc)
  target_include_directories(kernels_bench SYSTEM PRIVATE ${KVD_DNNL_INCLUDE})
  target_link_libraries(kernels_bench PRIVATE ${KVD_DNNL} OpenMP::OpenMP_CXX)
endif()
