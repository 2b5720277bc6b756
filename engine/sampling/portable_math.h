// Logarithm and exponential in double precision, for samplers.
//
// Both functions give the same bits on every machine and with every compiler, because they consist
// of operations that are each rounded once, in a fixed order, and call no library function except
// frexp and ldexp, which are exact. The relative error is below 1e-14. portable_exp.h has the
// faster exponential in single precision, for whole rows.
#pragma once

namespace kvd {

// The natural logarithm. REQUIRES: x > 0 and finite.
double PortableLog(double x);

// e^x; 0 for x below -700, e^700 for x above 700. REQUIRES: x is not NaN.
double PortableExpDouble(double x);

// base^exponent. REQUIRES: base >= 0 and finite; exponent is not NaN. 0^0 is 1.
double PortablePow(double base, double exponent);

}  // namespace kvd
