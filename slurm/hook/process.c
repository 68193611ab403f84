/* Time and signals: the one deadline, and exit 0 whatever happens to this process. */
#include "hook.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t started_ms;
static volatile sig_atomic_t decided;
bool silent, central;

void note(const char *format, ...)
{
    va_list values;
    if (silent)
        return;
    va_start(values, format);
    dprintf(STDERR_FILENO, "nodevet hook: ");
    vdprintf(STDERR_FILENO, format, values);
    dprintf(STDERR_FILENO, "\n");
    va_end(values);
}

int64_t now_ms(void)
{
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int left_ms(void)
{
    return (int)(started_ms + (int64_t)(conf.deadline_s * 1000) - now_ms());
}

bool pause_ms(int most)
{
    int left = left_ms();
    if (left <= 0)
        return false;
    poll(NULL, 0, left < most ? left : most);
    return true;
}

bool ready(int fd, short events)
{
    for (;;) {
        struct pollfd one = {fd, events, 0};
        int left = left_ms();
        if (left <= 0)
            return false;
        int n = poll(&one, 1, left);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

static void leave(int signal_number)
{
    _exit(signal_number == SIGALRM ? decided : 0);
}

/* The timer is a backstop one second behind the deadline, for what poll cannot bound (a blocked stdout or disk). */
void arm(double seconds)
{
    struct itimerval timer = {{0, 0}, {(time_t)seconds + 1, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* SIGTERM comes 10 ms before SIGKILL at PrologEpilogTimeout; a fault of ours must not drain the node either. */
static void set_signals(void)
{
    static const int leaves[] = {SIGTERM, SIGINT, SIGHUP, SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static const int ignored[] = {SIGPIPE, SIGXFSZ, SIGXCPU, SIGUSR1, SIGUSR2};
    struct sigaction action = {0};
    sigset_t none;
    action.sa_handler = leave;
    for (size_t i = 0; i < COUNT(leaves); i++)
        sigaction(leaves[i], &action, NULL);
    action.sa_handler = SIG_IGN;
    for (size_t i = 0; i < COUNT(ignored); i++)
        sigaction(ignored[i], &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* What to exit with should the backstop timer ring from now on. */
void decide(int code)
{
    decided = code;
}

void begin(void)
{
    started_ms = now_ms();
    set_signals();
    arm(conf.deadline_s);
}
