/* What cards do: lines `measure ADDRESS NAME NUMBER` of the state; what has no line is not supported. */

#include <string.h>

#include "standin.h"

typedef struct { unsigned gpu, memory; } utilization;

enum { TEMPERATURE_GPU = 0, AGGREGATE_ECC = 1 };

static int read_measure(const card *of, const char *name, bytes *number) {
    char line[TEXT], bdf[32], is[32];
    FILE *file = open_beside("", "r");
    if (!file) return DRIVER_NOT_LOADED;
    int result = NOT_SUPPORTED;
    for (char *rest; result && (rest = next(file, "measure", line));)
        if (sscanf(rest, "%31s %31s %llu", bdf, is, number) == 3 && !strcmp(is, name) && same_address(bdf, of->bdf))
            result = SUCCESS;
    fclose(file);
    return result;
}

static int read_number(const card *of, const char *name, unsigned *number) {
    bytes found = 0;
    int result = read_measure(of, name, &found);
    *number = (unsigned)found;
    return result;
}

int nvmlDeviceGetUtilizationRates(device *handle, utilization *rates) {
    CARD(handle); rates->memory = 0; return read_number(&found, "busy", &rates->gpu);
}
int nvmlDeviceGetTemperature(device *handle, int sensor, unsigned *degrees) {
    CARD(handle); return sensor == TEMPERATURE_GPU ? read_number(&found, "temperature", degrees) : INVALID_ARGUMENT;
}
int nvmlDeviceGetPowerUsage(device *handle, unsigned *milliwatts) { CARD(handle); return read_number(&found, "power", milliwatts); }
int nvmlDeviceGetTotalEnergyConsumption(device *handle, bytes *millijoules) {
    CARD(handle); return read_measure(&found, "energy", millijoules);
}
int nvmlDeviceGetClockInfo(device *handle, int type, unsigned *megahertz) {
    CARD(handle);
    static const char *const names[] = {"clock-graphics", "clock-sm", "clock-memory", "clock-video"};
    return type < 0 || type > 3 ? INVALID_ARGUMENT : read_number(&found, names[type], megahertz);
}
int nvmlDeviceGetTotalEccErrors(device *handle, int error, int counter, bytes *count) {
    CARD(handle);
    if (counter != AGGREGATE_ECC) return NOT_SUPPORTED;
    return read_measure(&found, error ? "ecc-uncorrected" : "ecc-corrected", count);
}
