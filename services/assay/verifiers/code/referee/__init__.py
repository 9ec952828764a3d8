"""The harness of function tests: pid 1 of a box, beside a candidate that it does not trust.

Two processes share only a socket. The *candidate* is forked first, is confined, and runs the
program; it never holds a test or an expected value. The *referee* then unseals the tests and runs
them; names that the tests do not define are proxies, whose calls are messages to the candidate.
Invariants:

* the candidate returns either data of exact builtin types, rebuilt by the referee, or an opaque
  handle; no code of the candidate runs in the referee and no comparison is ever delegated to it;
* messages are bounded and checked; a malformed one is the candidate's failure;
* a test counts as passed only by a record on the box's channel that carries the nonce of the sealed
  tests; only the referee holds that channel;
* arguments that a call changes are also changed in the tests, and keep their identities.

The zygote loads this package: standard library only, and no other part of Assay.
"""
