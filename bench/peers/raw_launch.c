/* Host time of cuLaunchKernelEx called from C, for python_package.py: the function is passed, so nothing of CUDA is needed to build it.
 *
 *     cc -O2 -shared -fPIC -o libraw_launch.so bench/peers/raw_launch.c
 */
#define _POSIX_C_SOURCE 199309L
#include <time.h>

typedef int launch_function(const void *config, void *function, void **parameters, void **extra);

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1e9 + at.tv_nsec;
}

/* Nanoseconds of `count` launches together, or the driver's code as a negative number. */
double raw_launches(launch_function *launch, const void *config, void *function, void **parameters, int count) {
  double start = now();
  for (int i = 0; i < count; i++) {
    int code = launch(config, function, parameters, 0);
    if (code) return -code;
  }
  return now() - start;
}
