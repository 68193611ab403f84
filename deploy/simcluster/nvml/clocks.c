/* How fast a GPU runs, how busy it is, and what holds its clocks down. */
#define _GNU_SOURCE
#include "stand_in.h"

#include <stdio.h>

/* The bits of the clocks event reasons; 1 is "GPU idle". "Throttle" is the older name of the same calls. */
SCALAR(GetCurrentClocksEventReasons, "GetCurrentClocksEventReasons", unsigned long long, "clocks.event_reasons", 1)
SCALAR(GetCurrentClocksThrottleReasons, "GetCurrentClocksThrottleReasons", unsigned long long, "clocks.event_reasons", 1)
SCALAR(GetSupportedClocksEventReasons, "GetSupportedClocksEventReasons", unsigned long long, "clocks.supported", 0x1ff)
SCALAR(GetSupportedClocksThrottleReasons, "GetSupportedClocksEventReasons", unsigned long long, "clocks.supported", 0x1ff)

/* Nanoseconds under one reason: those of the state file, and those since its last change while the bit stands. */
long long slowed_for(int slot, unsigned bit, const char *field)
{
    return slot_number(slot, field, 0) + (slot_number(slot, "clocks.event_reasons", 1) & bit ? state_age() : 0);
}

/* `which` is empty for the clock at this moment, else max., app. or app.default. */
static int clock_of(int slot, unsigned kind, const char *which, unsigned *out)
{
    static const char *const names[] = {"graphics", "sm", "mem", "video"};
    static const int idle[] = {345, 345, 2619, 765}, top[] = {1980, 1980, 2619, 1545}; /* MHz */
    char field[64];
    if (kind >= 4)
        return INVALID_ARGUMENT;
    snprintf(field, sizeof field, "clocks.%s%s", which, names[kind]);
    *out = (unsigned)slot_number(slot, field, *which ? top[kind] : idle[kind]);
    return OK;
}

API int nvmlDeviceGetClockInfo(device_t device, unsigned kind, unsigned *out)
{
    PASS("GetClockInfo");
    return clock_of(slot, kind, "", out);
}

API int nvmlDeviceGetMaxClockInfo(device_t device, unsigned kind, unsigned *out)
{
    PASS("GetMaxClockInfo");
    return clock_of(slot, kind, "max.", out);
}

API int nvmlDeviceGetApplicationsClock(device_t device, unsigned kind, unsigned *out)
{
    PASS("GetApplicationsClock");
    return clock_of(slot, kind, "app.", out);
}

API int nvmlDeviceGetDefaultApplicationsClock(device_t device, unsigned kind, unsigned *out)
{
    PASS("GetDefaultApplicationsClock");
    return clock_of(slot, kind, "app.default.", out);
}

struct utilization {
    unsigned gpu, memory;
};

API int nvmlDeviceGetUtilizationRates(device_t device, struct utilization *out)
{
    PASS("GetUtilizationRates");
    out->gpu = (unsigned)slot_number(slot, "utilization.gpu", 0);
    out->memory = (unsigned)slot_number(slot, "utilization.memory", 0);
    return OK;
}
