# Fails if an object compiled with special -m flags offers the linker an inline function that other files could share.
#
# cmake -DNM=<nm> "-DOBJECTS=<a>;<b>" -P check_isa_symbols.cmake
foreach(object ${OBJECTS})
  execute_process(COMMAND ${NM} -C --defined-only ${object} OUTPUT_VARIABLE symbols RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "nm failed on ${object}")
  endif()
  string(REPLACE ";" "," symbols "${symbols}")
  string(REPLACE "\n" ";" lines "${symbols}")
  foreach(line ${lines})
    if(line MATCHES "^[0-9a-f]+ [WVu] " AND NOT line MATCHES "(avx2|avx512|avx512bf16|amx)::|DW.ref.|asan|ubsan|tsan")
      message(SEND_ERROR "${object} shares a symbol that names no instruction set: ${line}")
    endif()
  endforeach()
endforeach()
