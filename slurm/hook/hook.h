/* What the parts of the hook share: bounds, outcomes, configuration, request and answer. */
#ifndef NODEVET_HOOK_H
#define NODEVET_HOOK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef HOOK_CONF
#define HOOK_CONF "/etc/nodevet/hook.conf"
#endif
#ifndef HOOK_VERSION
#define HOOK_VERSION "unversioned"
#endif
#define HOOK_DOOR ".hook" /* the agent's socket for root has the name of the one for everybody, and this */
#define USER_DEADLINE_S 1.0
#define CENTRAL_DEADLINE_S 0.5
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

enum {
    BODY_MAX = 256 * 1024, /* what the agent takes as one environment */
    VALUE_MAX = 64 * 1024, /* one value; a longer one (a huge host list) is cut and the request says so */
    FIRST_MAX = 8 * 1024,  /* one of the variables that go first: all of them together always fit */
    ENV_MAX = 65536,       /* entries looked at */
    HEADER_MAX = 8192,
    LINE_BYTES = 512, /* of the agent's line that Slurm may log */
    CONF_MAX = 8192,
    PATH_BYTES = 256,
    SPOOL_MAX = 4096,      /* files that the central service has not fetched yet */
    MARKS_MAX = 256, /* files in the marks directory: an agent that stays away must not fill /run */
};

enum outcome { ANSWERED, NO_AGENT, REFUSED, DEADLINE, LOST, BAD_ANSWER, BAD_PEER, STOPPED, ARGS, MORE, UNHEARD };

struct conf {
    char socket[PATH_BYTES], marks[PATH_BYTES], spool[PATH_BYTES], stop_file[PATH_BYTES];
    double deadline_s, restart_retry_s;
    const char *origin;
};

struct body {
    char text[BODY_MAX];
    size_t length;
    bool truncated;
};

struct answer {
    char text[HEADER_MAX + LINE_BYTES];
    size_t have, body, need; /* bytes received, where the body begins (0: not yet), how much of it is wanted */
    bool probe;              /* any HTTP answer will do */
    int exit;
};

extern struct conf conf;
extern struct body body;
extern const char *kind;           /* prolog, epilog, health, unkillable, taskprolog, prologctld, epilogctld or unknown */
extern bool silent;                /* stderr is the user's */
extern bool central;               /* runs beside slurmctld */
extern const char *const CAUSE[]; /* the word for each outcome before MORE; the rest never leave ask.c */

/* process.c */
__attribute__((format(printf, 1, 2))) void note(const char *format, ...);
int64_t now_ms(void);
int left_ms(void);
bool pause_ms(int most);
bool ready(int fd, short events);
void arm(double seconds);
void decide(int code);
void begin(void);

char *trim(char *text);            /* conf.c */
void load_conf(void);
void collect(void);                /* environment.c */
enum outcome ask(struct answer *); /* ask.c */
void say(const struct answer *, const char *begin); /* tell.c */
void leave_mark(enum outcome why);
bool has_room(int dir, int most);
const char *number(const char *name);
void spool(void); /* spool.c */

#endif
