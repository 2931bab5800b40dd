/* Calls two kernels that TileKit exported, and compares each result with a reference on the CPU. */
#include "example.h"

#include "softmax_bf16_4096_8.h"

#include <stdio.h>

int code_of(int returned) {
  if (!returned) return PASSED;
  fprintf(stderr, "%s\n", tk_error_text());
  return returned == TK_ERROR_NO_DRIVER || returned == TK_ERROR_MACHINE ? NO_GPU : FAILED;
}

int main(void) {
  /* The first kernel that is loaded says best what a machine without a GPU lacks. */
  tk_softmax_bf16_4096_8_module probe;
  int code = code_of(tk_softmax_bf16_4096_8_load(&probe, 0));
  if (code) return code;
  code = gpu_open();
  if (!code) {
    int softmax = run_softmax(), product = run_product();
    code = softmax ? softmax : product;
    gpu_close();
  }
  if (code_of(tk_softmax_bf16_4096_8_unload(&probe)) && !code) code = FAILED;
  if (!code) puts("pass");
  return code;
}
