/* What the files of the stand-in share: its state, and NVML's own constants. */

#ifndef STANDIN_H
#define STANDIN_H

#include <stdio.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, VERSION_MISMATCH = 25,
};
enum { CARDS = 64, TEXT = 512, PATHS = 4096, MEMORY_V2 = 0x02000028, XID_EVENTS = 8, REMOTE_GPU = 0, REMOTE_SWITCH = 2 };

typedef unsigned long long bytes;
typedef struct { char bdf[32]; } device; /* a handle: it outlives the card's line in the file */
typedef struct { char bdf[32], uuid[96], name[96], links[256]; unsigned minor, mig; bytes total, reserved, used; } card;

/* What is not NVML's is seen by no program. */
#pragma GCC visibility push(hidden)

/* Where something of the stand-in lies, by what its name ends with. */
const char *path(const char *suffix, char *buffer);
FILE *open_beside(const char *suffix, const char *mode);
/* Finds the next line that begins with a word, and returns what follows it. */
char *next(FILE *file, const char *word, char *line);
/* Whether a call works now: what the state says shall fail or take long does. */
int begin(const char *function);
/* Opens the driver's control node, as the library does before anything else, and closes it. */
int open_control_node(void);
int same_address(const char *one, const char *other);
/* Finds a card by address, UUID or index; those not asked for are NULL and -1. Returns CARDS, else how many there are. */
int find(const char *bdf, const char *uuid, int index, card *found);
extern int initialized;

#pragma GCC visibility pop

#define BEGIN do { int failed = begin(__func__); if (failed) return failed; } while (0)
#define CARD(handle) \
    BEGIN; \
    card found; \
    if (!(handle) || find((handle)->bdf, NULL, -1, &found) != CARDS) return GPU_IS_LOST

#endif
