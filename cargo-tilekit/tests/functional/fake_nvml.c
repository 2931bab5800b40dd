/* A stand-in for libnvidia-ml.so.1: one GPU whose clocks, power and temperature never change. $TILEKIT_FAKE_WATTS is its power limit, which holds its
 * clocks back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned field, scope; long long timestamp, latency; unsigned kind; int code; union { unsigned number; unsigned long long wide; } value; } field_value;

static int gpu;

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) { *device = &gpu; return strcmp(bus, "0000:00:00.0") ? 6 : 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts) {
  const char *watts = getenv("TILEKIT_FAKE_WATTS");
  *milliwatts = 1000 * (watts ? atoi(watts) : 700);
  return device == &gpu ? 0 : 2;
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.159.04"); return 0; }
int nvmlDeviceGetClockInfo(void *device, unsigned kind, unsigned *mhz) { *mhz = kind == 1 ? 1755 : 2619; return device == &gpu && (kind == 1 || kind == 2) ? 0 : 2; }
/* The mean of a second, which nobody should ask for while there is the power of the moment. */
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { (void)device; *milliwatts = 1; return 0; }
int nvmlDeviceGetFieldValues(void *device, int count, field_value *values) {
  values->value.number = 612000;
  values->code = values->field == 186 ? 0 : 2;
  return device == &gpu && count == 1 ? 0 : 2;
}
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *celsius) { *celsius = 54; return device == &gpu ? (int)sensor : 2; }
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons) { *reasons = 4; return device == &gpu ? 0 : 2; }
