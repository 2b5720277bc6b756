# Fails if an object that was compiled with special -m flags contains an inline function that the
# linker could also use in place of the same function in other objects.
#
# cmake -DNM=<nm> "-DOBJECTS=<a>;<b>" -P check_isa_symbols.cmake
foreach(object ${OBJECTS})
  execute_process(COMMAND ${NM} -C --defined-only ${object} OUTPUT_VARIABLE symbols RESULT_VARIABLE
    failed)
  if(failed)
    message(FATAL_ERROR "nm failed on ${object}")
  endif()
  string(REPLACE ";" "," symbols "${symbols}")
  string(REPLACE "\n" ";" lines "${symbols}")
  foreach(line ${lines})
    if(line MATCHES "^[0-9a-f]+ [WVu] " AND NOT line MATCHES "(avx2|avx512|avx512bf16|amx)::|DW.ref.|asan|ubsan|tsan")
      message(SEND_ERROR "${object} has a weak symbol whose name contains no instruction set: ${line}")
    endif()
  endforeach()
endforeach()
