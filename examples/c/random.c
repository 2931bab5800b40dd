/* Inputs, and results against their reference. */
#include "example.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double of_bf16(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float number;
  memcpy(&number, &wide, sizeof number);
  return number;
}

void fill(uint16_t *numbers, size_t count, uint32_t seed) {
  size_t at;
  for (at = 0; at < count; at++) {
    uint32_t bits;
    float number;
    seed = seed * 1664525u + 1013904223u;
    number = (float)((double)(seed >> 8) / (1 << 23) - 1.0);
    memcpy(&bits, &number, sizeof bits);
    numbers[at] = (uint16_t)(bits >> 16);
  }
}

int compare(const char *what, const uint16_t *found, const double *expected, const double *bound, size_t count) {
  double largest = 0;
  size_t at;
  for (at = 0; at < count; at++) {
    double error = fabs(of_bf16(found[at]) - expected[at]);
    /* A NaN, with which outputs are filled before, is within no bound. */
    if (!(error <= bound[at])) {
      printf("%s: element %zu is %g; expected %g within %g\n", what, at, of_bf16(found[at]), expected[at], bound[at]);
      return DIFFERS;
    }
    if (error > largest) largest = error;
  }
  printf("%s: pass, all %zu elements, largest error %.3g\n", what, count, largest);
  return PASSED;
}
