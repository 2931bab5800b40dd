/* c[m, n] = a[m, k] · b[n, k]ᵀ */
#include "example.h"

#include "matmul_warp_specialized_bf16_256_64_4.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { M = 300, N = 520, K = 200 };

/* As for softmax, and the sums of the tensor cores have about 24 bits of their terms. */
static const double RELATIVE = 1.0 / 256, OF_TERMS = 1e-5;

static void reference(const uint16_t *a, const uint16_t *b, double *expected, double *bound) {
  size_t row, col, at;
  for (row = 0; row < M; row++) {
    for (col = 0; col < N; col++) {
      double sum = 0, terms = 0;
      for (at = 0; at < K; at++) {
        double term = of_bf16(a[row * K + at]) * of_bf16(b[col * K + at]);
        sum += term;
        terms += fabs(term);
      }
      *expected++ = sum;
      *bound++ = RELATIVE * fabs(sum) + OF_TERMS * terms;
    }
  }
}

static int launch(const tk_matmul_warp_specialized_bf16_256_64_4_module *product, const uint16_t *a, const uint16_t *b, uint16_t *c) {
  tk_matmul_warp_specialized_bf16_256_64_4_args args = {0};
  int code;
  args.a = gpu_allocate(M * K * sizeof *a);
  args.b = gpu_allocate(N * K * sizeof *b);
  args.c = gpu_allocate(M * N * sizeof *c);
  args.m = M;
  args.n = N;
  args.k = K;
  if (!args.a || !args.b || !args.c || gpu_write(args.a, a, M * K * sizeof *a) || gpu_write(args.b, b, N * K * sizeof *b) ||
      gpu_write(args.c, c, M * N * sizeof *c))
    return FAILED;
  code = code_of(tk_matmul_warp_specialized_bf16_256_64_4_launch(product, &args, gpu_stream()));
  if (!code) code = gpu_synchronize();
  return code ? code : gpu_read(c, args.c, M * N * sizeof *c);
}

int run_product(void) {
  tk_matmul_warp_specialized_bf16_256_64_4_module product;
  uint16_t *a = malloc(M * K * sizeof *a), *b = malloc(N * K * sizeof *b), *c = malloc(M * N * sizeof *c);
  double *expected = malloc(M * N * sizeof *expected), *bound = malloc(M * N * sizeof *bound);
  int code = a && b && c && expected && bound ? PASSED : FAILED;
  if (!code) code = code_of(tk_matmul_warp_specialized_bf16_256_64_4_load(&product, 0));
  if (!code) {
    fill(a, M * K, 2);
    fill(b, N * K, 3);
    memset(c, 0xff, M * N * sizeof *c);
    reference(a, b, expected, bound);
    code = launch(&product, a, b, c);
    if (!code) code = compare("product of 300 x 200 and 200 x 520", c, expected, bound, M * N);
    if (code_of(tk_matmul_warp_specialized_bf16_256_64_4_unload(&product)) && !code) code = FAILED;
  }
  free(a), free(b), free(c), free(expected), free(bound);
  return code;
}
