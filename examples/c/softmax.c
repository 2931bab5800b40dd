/* out[row, :] = softmax(x[row, :]) */
#include "example.h"

#include "softmax_bf16_4096_8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 300, COLS = 4000, COUNT = ROWS * COLS };

/* A result is rounded to 8 bits, half of this, and the rest is for the kernel's own arithmetic. */
static const double RELATIVE = 1.0 / 256;

static void reference(const uint16_t *x, double *expected, double *bound) {
  size_t row, col;
  for (row = 0; row < ROWS; row++, x += COLS, expected += COLS, bound += COLS) {
    double most = -INFINITY, sum = 0;
    for (col = 0; col < COLS; col++) most = fmax(most, of_bf16(x[col]));
    for (col = 0; col < COLS; col++) sum += exp(of_bf16(x[col]) - most);
    for (col = 0; col < COLS; col++) {
      expected[col] = exp(of_bf16(x[col]) - most) / sum;
      bound[col] = RELATIVE * expected[col];
    }
  }
}

static int launch(const tk_softmax_bf16_4096_8_module *softmax, const uint16_t *x, uint16_t *out) {
  tk_softmax_bf16_4096_8_args args = {0};
  const size_t bytes = COUNT * sizeof *x;
  int code;
  args.x = gpu_allocate(bytes);
  args.out = gpu_allocate(bytes);
  args.rows = ROWS;
  args.cols = COLS;
  if (!args.x || !args.out || gpu_write(args.x, x, bytes) || gpu_write(args.out, out, bytes)) return FAILED;
  code = code_of(tk_softmax_bf16_4096_8_launch(softmax, &args, gpu_stream()));
  if (!code) code = gpu_synchronize();
  return code ? code : gpu_read(out, args.out, bytes);
}

int run_softmax(void) {
  tk_softmax_bf16_4096_8_module softmax;
  uint16_t *x = malloc(COUNT * sizeof *x), *out = malloc(COUNT * sizeof *out);
  double *expected = malloc(COUNT * sizeof *expected), *bound = malloc(COUNT * sizeof *bound);
  int code = x && out && expected && bound ? PASSED : FAILED;
  if (!code) code = code_of(tk_softmax_bf16_4096_8_load(&softmax, 0));
  if (!code) {
    fill(x, COUNT, 1);
    memset(out, 0xff, COUNT * sizeof *out);
    reference(x, expected, bound);
    code = launch(&softmax, x, out);
    if (!code) code = compare("softmax of 300 rows of 4000", out, expected, bound, COUNT);
    if (code_of(tk_softmax_bf16_4096_8_unload(&softmax)) && !code) code = FAILED;
  }
  free(x), free(out), free(expected), free(bound);
  return code;
}
