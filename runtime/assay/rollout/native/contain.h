/* A thread that dies of a signal, alone: what would take the process down ends one body of work.
 *
 * Only SIGSEGV, SIGBUS, SIGFPE and SIGILL, and only on threads inside assay_contain; for every other
 * thread the handlers that were there before stay in charge.
 */
#ifndef ASSAY_CONTAIN_H
#define ASSAY_CONTAIN_H

/* Runs body(argument); 0 when it returned, else the signal that ended it. What the body held stays
 * as it was at that instant. */
int assay_contain(void (*body)(void *argument), void *argument);

#endif
