/* Asks the node's agent whether a job may start, within one deadline, and is never itself the reason for a drain.
 *
 * Slurm runs this program as Prolog, Epilog, HealthCheckProgram, UnkillableStepProgram and TaskProlog, under a name
 * for each (the kind is the end of argv[0]: slurm.conf takes no arguments there). Slurm drains a node whose Prolog or
 * Epilog exits non-zero, so 1 is given only for a whole, well-formed refusal of a prolog by an agent that runs as root
 * or as ourselves. Everything else, a crash of this program included, is 0; what could not be asked leaves a mark for
 * later. No heap, no PATH, no HOME, no file needed but the socket.
 *
 * PrologSlurmctld and EpilogSlurmctld run where slurmctld does, as SlurmUser, and hold up every job of the cluster:
 * those kinds ask nobody, write the job's identity into a spool in memory for the central service, and exit 0. */
#include "hook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *kind = "unknown";
static const char NAMES[] = "nodevet- and prolog, epilog, health, unkillable, taskprolog, prologctld or epilogctld";
static const char HELP[] = "nodevet-prolog, nodevet-epilog, nodevet-health, nodevet-unkillable, nodevet-taskprolog,\n"
                           "nodevet-prologctld, nodevet-epilogctld: run by Slurm, without arguments\n"
                           "configuration: " HOOK_CONF "\n"
                           "  --check    print what is in force and whether the agent answers (exit 0) or not (1)\n"
                           "  --version  print the version\n";

/* For `nodevet hook test`, never for Slurm: what is in force, and whether the agent answers (exit 0) or not (1). */
static int check(void)
{
    struct answer answer = {.probe = true};
    struct stat st;
    decide(1);
    dprintf(1, "kind=%s\nconf=%s\nsocket=%s\nmarks=%s\nspool=%s\nstop_file=%s\ndeadline_s=%.3f\nrestart_retry_s=%.3f\n",
            kind, conf.origin, conf.socket, conf.marks, conf.spool, conf.stop_file, conf.deadline_s,
            conf.restart_retry_s);
    dprintf(1, "stopped=%s\n", lstat(conf.stop_file, &st) == 0 ? "yes" : "no");
    enum outcome outcome = ask(&answer);
    dprintf(1, "agent=%s\n", CAUSE[outcome]);
    return outcome != ANSWERED;
}

static bool is_kind(const char *name, const char *word)
{
    size_t length = strlen(name), size = strlen(word);
    if (length < size || strcmp(name + length - size, word) != 0)
        return false;
    return length == size || name[length - size - 1] == '-';
}

static void find_kind(const char *path)
{
    static const char *const words[] = {"prolog", "epilog", "health", "unkillable", "taskprolog", "prologctld", "epilogctld"};
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; i < COUNT(words); i++)
        if (is_kind(slash ? slash + 1 : path, words[i]))
            kind = words[i];
}

/* TaskProlog runs as the user, before each task: one question a node and step, at the door for everybody, within a
 * second. Nothing but the agent's line is printed (Slurm passes on what follows "print "), and no mark is left. */
static void go_as_user(void)
{
    size_t length = strlen(conf.socket), size = strlen(HOOK_DOOR);
    if (length > size && strcmp(conf.socket + length - size, HOOK_DOOR) == 0)
        conf.socket[length - size] = '\0';
    conf.deadline_s = conf.deadline_s < USER_DEADLINE_S ? conf.deadline_s : USER_DEADLINE_S;
    conf.restart_retry_s = 0;
}

static int tell_user(void)
{
    struct answer answer = {0};
    struct stat st;
    const char *task = getenv("SLURM_LOCALID");
    if ((task && strcmp(task, "0") != 0) || lstat(conf.stop_file, &st) == 0)
        return 0;
    collect();
    if (ask(&answer) == ANSWERED)
        say(&answer, "print ");
    return 0;
}

int main(int argc, char **argv)
{
    struct answer answer = {0};
    struct stat st;
    begin();
    find_kind(argc > 0 ? argv[0] : "");
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        dprintf(1, "nodevet hook %s\n", HOOK_VERSION);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        dprintf(1, "%s", HELP);
        return 0;
    }
    bool as_user = strcmp(kind, "taskprolog") == 0;
    silent = as_user && argc == 1;
    central = strcmp(kind, "prologctld") == 0 || strcmp(kind, "epilogctld") == 0;
    load_conf();
    if (as_user)
        go_as_user();
    if (central)
        conf.deadline_s = CENTRAL_DEADLINE_S;
    arm(conf.deadline_s);
    if (argc == 2 && strcmp(argv[1], "--check") == 0)
        return check();
    if (silent)
        return tell_user();

    if (central && argc == 1) {
        if (lstat(conf.stop_file, &st) != 0)
            spool();
        return 0;
    }
    enum outcome outcome = ARGS;
    if (lstat(conf.stop_file, &st) == 0) {
        outcome = STOPPED;
    } else if (argc != 1 || strcmp(kind, "unknown") == 0) {
        note("takes no argument and is named %s", NAMES);
    } else {
        collect();
        outcome = ask(&answer);
    }
    if (outcome != ANSWERED) {
        leave_mark(outcome);
        return 0;
    }
    int code = answer.exit && strcmp(kind, "prolog") == 0;
    decide(code);
    say(&answer, "");
    return code;
}
