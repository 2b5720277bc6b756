# Compares the interpreter with Debian's python3-jinja2 on random programs (jinja_programs.py).
kvd_test(jinja_differential_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/jinja_differential_test.cc
  LIBS kvd_text
  TIMEOUT 1800)
set_tests_properties(jinja_differential_test PROPERTIES COST 500)  # takes one to two minutes
