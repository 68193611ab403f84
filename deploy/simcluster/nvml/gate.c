/* Every call passes here first: it takes as long as it does on hardware, or does not return, or fails. */
#define _GNU_SOURCE
#include "stand_in.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Microseconds, as seen on H100 with persistence mode on; anything else takes 15. */
static const struct { const char *call; long us; } usual[] = {
    {"Init", 15000}, {"Shutdown", 2000}, {"GetCount", 5}, {"GetHandleByIndex", 5}, {"GetHandleByUUID", 20},
    {"GetHandleByPciBusId", 20}, {"GetTemperature", 40}, {"GetPowerUsage", 60}, {"GetTotalEccErrors", 120},
    {"GetMemoryErrorCounter", 120}, {"GetRemappedRows", 60}, {"GetRowRemapperHistogram", 60}, {"GetNvLinkState", 30},
    {"GetNvLinkErrorCounter", 50}, {"GetNvLinkRemotePciInfo", 30}, {"GetFieldValues", 100}, {"GetGpuFabricInfo", 60},
    {"GetComputeRunningProcesses", 200}, {"GetGraphicsRunningProcesses", 200}, {"GetMPSComputeRunningProcesses", 200},
    {"GetUtilizationRates", 250}, {"GetMemoryInfo", 40}, {"ValidateInforom", 3000}, {"GetInforomImageVersion", 30},
    {"GetVbiosVersion", 30}, {"GetPcieReplayCounter", 60}, {"GetClockInfo", 50},
    {"cuInit", 200000}, /* not measured, of the order that is seen with eight GPUs */
};

static atomic_int opened;

void gate_opened(int by)
{
    if (atomic_fetch_add(&opened, by) + by < 0)
        atomic_store(&opened, 0);
}

int gate_is_open(void)
{
    return atomic_load(&opened) > 0;
}

static long long nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Sleep for the greater part and spin the rest: a sleep alone overshoots short latencies several times over. */
static void take(long long begun, long long us)
{
    long long until = begun + us * 1000, left = until - nanoseconds();
    if (left > 200 * 1000) {
        struct timespec most = {(left - 100 * 1000) / 1000000000, (left - 100 * 1000) % 1000000000};
        nanosleep(&most, NULL);
    }
    while (nanoseconds() < until)
        ;
}

/* The value of `gpu.SLOT.call.CALL.WHAT`, `gpu.*.call...`, or `call.CALL.WHAT`; slot < 0 is a system call. */
static int call_number(int slot, const char *call, const char *what, long long *value)
{
    char key[256];
    if (slot >= 0) {
        snprintf(key, sizeof key, "call.%s.%s", call, what);
        if (slot_has(slot, key, value))
            return 1;
    }
    snprintf(key, sizeof key, "call.%s.%s", call, what);
    return state_number(key, value);
}

static int hangs(int slot, const char *call)
{
    long long on = 0;
    if (call_number(slot, call, "hang", &on) && on)
        return 1;
    if (strcmp(call, "Init") == 0 && state_number("init.hang", &on) && on)
        return 1;
    return slot >= 0 && slot_has(slot, "hang", &on) && on;
}

struct hang {
    int slot;
    const char *call;
    int given_up;
};

#define GONE_FOR (1000 * 1000 * 1000LL)

/*
 * Look at the state file every 50 ms until the hang is cleared. A simulated node that was deleted clears nothing any
 * more: its callers are let go after a second, else they would stay for ever.
 */
static void sit_out(struct hang *hang)
{
    long long there = nanoseconds();
    while (hangs(hang->slot, hang->call)) {
        struct timespec nap = {0, 50 * 1000 * 1000};
        nanosleep(&nap, NULL);
        if (!state_gone())
            there = nanoseconds();
        else if (nanoseconds() - there > GONE_FOR) {
            hang->given_up = 1;
            return;
        }
    }
}

static int sit_out_for_parent(void *hang)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sit_out(hang);
    _exit(0);
}

/*
 * A caller of a hung driver is in uninterruptible sleep (D). The kernel puts the parent of a CLONE_VFORK child into
 * that state until the child ends, so a child looks at the state file and the caller sleeps: TERM waits, KILL works.
 */
static void sit_out_uninterruptibly(struct hang *hang)
{
    static char stack[64 * 1024] __attribute__((aligned(16)));
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the child inherits it: a signal to the group must not end it */
    pthread_mutex_lock(&one_at_a_time);
    int child = clone(sit_out_for_parent, stack + sizeof stack, CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_VFORK, hang);
    if (child > 0)
        waitpid(child, NULL, __WCLONE);
    else
        sit_out(hang);
    pthread_mutex_unlock(&one_at_a_time);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* 1 when the call hung and was given up. */
static int wait_out(int slot, const char *call)
{
    long long deaf = 0;
    struct hang hang = {slot, call, 0};
    if (!hangs(slot, call))
        return 0;
    state_number("hang.uninterruptible", &deaf);
    if (deaf)
        sit_out_uninterruptibly(&hang);
    else
        sit_out(&hang);
    return hang.given_up; /* the child that looked shares our memory */
}

static long long latency(int slot, const char *call)
{
    char scale[MAX_VALUE];
    long long us = 15;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(usual[i].call, call) == 0)
            us = usual[i].us;
    call_number(slot, call, "latency", &us);
    if (state_text("latency.scale", scale, sizeof scale))
        us = (long long)((double)us * atof(scale));
    return us;
}

/* The latency counts from the entry on: what this stand-in itself needs to look things up is part of it. */
static int pass(int slot, const char *call)
{
    long long begun = nanoseconds(), us = latency(slot, call), code = 0;
    if (wait_out(slot, call))
        return UNKNOWN;
    if (!call_number(slot, call, "error", &code)) {
        if (strcmp(call, "Init") == 0)
            state_number("init.error", &code);
        else if (slot >= 0)
            slot_has(slot, "error", &code);
    }
    take(begun, us);
    return (int)code;
}

int gate_once(const char *call)
{
    return pass(-1, call);
}

int gate_system(const char *call)
{
    if (strcmp(call, "Init") != 0 && !gate_is_open())
        return UNINITIALIZED;
    return pass(-1, call);
}

int gate_device(device_t device, const char *call, int *slot)
{
    if (!gate_is_open())
        return UNINITIALIZED;
    *slot = slot_of(device);
    if (*slot < 0)
        return INVALID_ARGUMENT;
    return pass(*slot, call);
}
