/* Threads of an engine: contains a fatal signal to one of them: it ends one body of work and not the process.
 *
 * Only SIGSEGV, SIGBUS, SIGFPE and SIGILL, and only on threads inside assay_contain; for every other
 * thread the previous handlers stay active.
 */
#ifndef ASSAY_CONTAIN_H
#define ASSAY_CONTAIN_H

/* Runs body(argument); 0 when it returned, else the signal that ended it. Everything that the body
 * held stays as it was at that instant. */
int assay_contain(void (*body)(void *argument), void *argument);

/* What tools show as the name of the calling thread; at most 15 characters. Linux only. */
void assay_name_thread(const char *name);

#endif
