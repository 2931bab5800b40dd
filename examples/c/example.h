/* What the files of the example share. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* What the program ends with. */
enum {
  PASSED = 0,
  DIFFERS = 1, /* a result is not that of the reference */
  FAILED = 2,  /* the driver, or a kernel's check of its arguments, refused something */
  NO_GPU = 106 /* no driver, no GPU, or one that cannot run the kernels: what `cargo tilekit` ends with too */
};

/* A stream of GPU 0 and memory there, by the driver's functions: the program needs no CUDA toolkit. */
int gpu_open(void);
void *gpu_stream(void);
uint64_t gpu_allocate(size_t bytes);
int gpu_write(uint64_t to, const void *from, size_t bytes);
int gpu_read(void *to, uint64_t from, size_t bytes);
int gpu_synchronize(void);
void gpu_close(void);

/* What a function of a kernel returned, as a code of this program; prints what is wrong. */
int code_of(int returned);

/* A bf16 is the upper half of a float. */
double of_bf16(uint16_t bits);
/* Pseudo-random numbers in [-1, 1). */
void fill(uint16_t *numbers, size_t count, uint32_t seed);
/* Prints whether `found` is `expected`, each within its bound, and returns PASSED or DIFFERS. */
int compare(const char *what, const uint16_t *found, const double *expected, const double *bound, size_t count);

int run_softmax(void);
int run_product(void);

#endif
