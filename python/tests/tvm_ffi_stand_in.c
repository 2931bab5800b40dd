/* What libtvm_ffi.so has of c_api.h and c_env_api.h that a callee asks for: the test sets the stream and reads the error. */
#include <stdint.h>
#include <stdio.h>

static void *stream;
static char kind[64], message[2048];

void *TVMFFIEnvGetStream(int32_t device_type, int32_t device_id) {
  return device_type == 2 && device_id == 0 ? stream : (void *)0xbad;
}

void TVMFFIErrorSetRaisedFromCStr(const char *of, const char *text) {
  snprintf(kind, sizeof kind, "%s", of);
  snprintf(message, sizeof message, "%s", text);
}

void set_stream(void *of) { stream = of; }
const char *raised_kind(void) { return kind; }
const char *raised_message(void) { return message; }
